"""What a box is in a cluster: one pod, its volumes, and a network policy. Pure: a `Spec` becomes manifests.

A pod is of the level `restricted` of the Pod Security Standards, and stricter: a read-only root, no token of a service
account, no cluster DNS, and a policy that lets nothing in or out. What is said with it goes over exec streams, which
the kubelet carries and no network policy concerns.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from outlast.ids import derived_id, digest
from outlast.sandbox import Spec

IMAGE: Final = "python:3.13"
STATE: Final = "/outlast"
CONTAINER: Final = "box"
POLICY: Final = "outlast-boxes"
MANAGED: Final = {"app.kubernetes.io/managed-by": "outlast"}
WISH: Final = "outlast.wish"
"""The annotation that says what of a `Spec` a pod cannot be made to differ in."""
BOX: Final = "outlast.box"
"""The label, and the annotation, that say of which `Spec.name` a pod is the box."""
LABELS: Final = "outlast.labels"
"""The annotation that has `Spec.labels` whole: a label's own value may have 63 plain letters only."""
SPACE: Final = "10Gi"
_USER: Final = 1000
_GRACE_S: Final = 5
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Claim:
    """The volume that a box has at its `cwd`."""

    size: str = SPACE
    storage_class: str = ""
    """Empty: the cluster's default."""
    kept: bool = False
    """It is there when the pod has gone, until the box is destroyed with it."""


def pod_name(name: str) -> str:
    """The pod of a box: the same for the same `Spec.name`, and for no other."""
    return f"outlast-{name}" if _DNS_LABEL.fullmatch(name) else derived_id("outlast-box", name.encode())


def label_value(value: str) -> str:
    """A value that a label may have: itself, or what stands for it."""
    return value if _LABEL_VALUE.fullmatch(value) else derived_id("sum", value.encode())


def pod(spec: Spec, image: str, argv: Sequence[str], claim: Claim, lives_s: float) -> dict[str, Any]:
    """The pod of a box, in which `argv` is the first program; after `lives_s` seconds the cluster ends it (0: never).

    Nothing of `spec.env` is in it: everybody could read it there who may look at pods.
    """
    deadline = {"activeDeadlineSeconds": max(1, int(lives_s))} if lives_s else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(spec.name),
            "labels": {**MANAGED, **labels(spec)},
            "annotations": {
                BOX: spec.name,
                LABELS: json.dumps(dict(spec.labels), sort_keys=True),
                WISH: wish_of(spec, image),
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
            "terminationGracePeriodSeconds": _GRACE_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(spec, image, argv)],
            "volumes": [
                {"name": "work", **_volume(spec, claim)},
                {"name": "state", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
                *({"name": name, "emptyDir": {}} for name in _homes(spec)),
            ],
            **deadline,
        },
    }


def wish_of(spec: Spec, image: str) -> str:
    """What stands for all that a pod is made with and that cannot be changed when it stands."""
    limits = (spec.limits.memory_bytes, spec.limits.processes, spec.limits.cpus)
    return digest(repr((image, spec.cwd, limits, *_homes(spec).values())).encode())


def _homes(spec: Spec) -> Mapping[str, str]:
    """Volumes for the HOME that a spec names, by their names: where it lies."""
    home = spec.env.get("HOME", "")
    return {"home": home} if home and not PurePosixPath(home).is_relative_to(spec.cwd) else {}


def _container(spec: Spec, image: str, argv: Sequence[str]) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": image,
        "command": list(argv),
        "workingDir": spec.cwd,
        "resources": _resources(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "work", "mountPath": spec.cwd},
            {"name": "state", "mountPath": STATE},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the one inside
            *({"name": name, "mountPath": path} for name, path in _homes(spec).items()),
        ],
    }


def _resources(spec: Spec) -> dict[str, Any]:
    limits: dict[str, str] = {}
    if spec.limits.memory_bytes is not None:
        limits["memory"] = str(spec.limits.memory_bytes)
    if spec.limits.cpus is not None:
        limits["cpu"] = f"{round(spec.limits.cpus * 1000)}m"
    return {"limits": limits} if limits else {}


def _volume(spec: Spec, claim: Claim) -> dict[str, Any]:
    if claim.kept:
        return {"persistentVolumeClaim": {"claimName": pod_name(spec.name)}}
    template = {"metadata": {"labels": {**MANAGED, **labels(spec)}}, "spec": _claimed(claim)}
    return {"ephemeral": {"volumeClaimTemplate": template}}


def _claimed(claim: Claim) -> dict[str, Any]:
    chosen = {"storageClassName": claim.storage_class} if claim.storage_class else {}
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": claim.size}},
        **chosen,
    }


def kept_claim(spec: Spec, claim: Claim) -> dict[str, Any]:
    """The claim of its own, that is there when the pod has gone."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": pod_name(spec.name),
            "labels": {**MANAGED, **labels(spec)},
            "annotations": {BOX: spec.name},
        },
        "spec": _claimed(claim),
    }


def policy() -> dict[str, Any]:
    """Nothing in, nothing out, for every box of a namespace."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY, "labels": dict(MANAGED)},
        "spec": {"podSelector": {"matchLabels": dict(MANAGED)}, "policyTypes": ["Ingress", "Egress"]},
    }


def labels(spec: Spec) -> dict[str, str]:
    """What a pod is found by."""
    return {BOX: label_value(spec.name), **{name: label_value(value) for name, value in spec.labels.items()}}


def selector(wanted: Mapping[str, str]) -> str:
    """Of boxes with these labels, as the API takes it. What it finds may have more than these, by chance of a hash."""
    return ",".join(f"{name}={label_value(value)}" for name, value in {**MANAGED, **wanted}.items())


def labels_of(found: Mapping[str, Any]) -> dict[str, str]:
    """`Spec.labels` of a pod that stands."""
    said = json.loads(found["metadata"].get("annotations", {}).get(LABELS, "{}"))
    return {str(name): str(value) for name, value in said.items()}


def trouble(found: Mapping[str, Any]) -> str:
    """Why a pod will not run, in the cluster's words and with what to do; empty: nothing is known to be wrong."""
    for status in found.get("status", {}).get("containerStatuses") or ():
        state: Mapping[str, Any] = status.get("state", {})
        for said in (state.get("waiting"), state.get("terminated")):
            if said and (way := _WAYS.get(str(said.get("reason")))):
                return f"{said['reason']}: {said.get('message') or 'no more is said'}. {way}"
    return ""


_IMAGE_WAY: Final = (
    "Name an image that the nodes can pull (sandbox option `image`), or give the namespace's default service account "
    "an imagePullSecret."
)
_START_WAY: Final = "The image needs Python 3.9 or newer as `python3` on its PATH; name another image."
_WAYS: Final = {
    "ErrImagePull": _IMAGE_WAY,
    "ImagePullBackOff": _IMAGE_WAY,
    "InvalidImageName": _IMAGE_WAY,
    "ErrImageNeverPull": _IMAGE_WAY,
    "CreateContainerConfigError": "See `kubectl describe pod`; an image with a user that is no number is refused.",
    "CreateContainerError": _START_WAY,
    "RunContainerError": _START_WAY,
    "StartError": _START_WAY,
    "OOMKilled": "Give it more memory (sandbox option `memory`).",
}


def unscheduled(found: Mapping[str, Any]) -> str:
    """Why no node takes a pod; empty: one did, or it is not known yet."""
    for condition in found.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    return ""
