"""Boxes in Kubernetes: one pod for each, with a claim of its own, closed to the network."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

import anyio
from anyio.abc import ByteStream

from outlast.clock import Clock, SystemClock
from outlast.errors import BoxError, BoxGone, SandboxUnsupported
from outlast.sandbox import Ability, Box, Found, Ref, Spec
from outlast.workspaces.carried import Framed, boot_argv, dial_argv
from outlast.workspaces.kubernetes.access import Access, access_of
from outlast.workspaces.kubernetes.api import RIGHTS, Answer, Api, api_at
from outlast.workspaces.kubernetes.credentials import PROVIDER
from outlast.workspaces.kubernetes.pods import (
    BOX,
    IMAGE,
    POLICY,
    STATE,
    WISH,
    Claim,
    kept_claim,
    labels_of,
    pod,
    pod_name,
    policy,
    selector,
    trouble,
    unscheduled,
    wish_of,
)
from outlast.workspaces.sandbox.client import HeldBox, hold

START_S: Final = 300.0
"""How long a pod may take until it runs: an image may have to be pulled, a node to be made."""
_GONE_S: Final = 60.0
_UNKNOWN: Final = (
    "Whether the cluster's network plugin enforces NetworkPolicies cannot be asked; where it does not, boxes reach "
    "what pods reach. docs/workspaces/kubernetes.md says how to try it."
)
HOME: Final = f"{STATE}/home"
_ENDING_S: Final = 5.0
_LOOK_S: Final = 0.25


class Kubernetes:
    """Pods of a namespace as boxes.

    Args:
        kubeconfig: its path; empty: as `kubectl` finds it, or the service account of the pod that the worker runs in.
        context: of the kubeconfig; empty: its current one.
        namespace: empty: that of the context, or of the worker's pod.
        image: of boxes whose `Spec` names none. It needs Python 3.9 or newer as `python3`.
        claim: the volume that a box has at its `cwd`.
        lives_s: the cluster ends a box after so many seconds whatever happens; 0: never.
        start_s: how long a pod may take until it runs.
    """

    def __init__(  # noqa: PLR0913 - each is one thing to be said of a cluster
        self,
        *,
        kubeconfig: str = "",
        context: str = "",
        namespace: str = "",
        image: str = IMAGE,
        claim: Claim | None = None,
        lives_s: float = 0.0,
        start_s: float = START_S,
        clock: Clock | None = None,
    ) -> None:
        self._where = (kubeconfig, context, namespace)
        self._image = image
        self._claim = claim or Claim()
        self._lives_s = lives_s
        self._start_s = start_s
        self._clock = clock or SystemClock()
        self._access: Access | None = None

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def abilities(self) -> frozenset[Ability]:
        return frozenset({"outlives", "limits", "network", "isolates"})

    def _cluster(self) -> Access:
        """Read once: its user keeps credentials that were got."""
        if self._access is None:
            kubeconfig, context, namespace = self._where
            self._access = access_of(
                os.environ, kubeconfig=kubeconfig, context=context, namespace=namespace, clock=self._clock
            )
        return self._access

    async def check(self) -> Sequence[str]:
        async with api_at(self._cluster()) as api:
            try:
                found = await api.ask("GET", api.path("pods"), params={"limit": "1"})
            except BoxError as error:
                raise SandboxUnsupported(
                    provider=PROVIDER, reason=str(error), way_out="See whether `kubectl get pods` answers."
                ) from error
        if found.status != 200:
            raise SandboxUnsupported(
                provider=PROVIDER,
                reason=f"pods cannot be listed: {found.why}.",
                way_out=f"Its role needs: {RIGHTS}.",
            )
        return [
            _UNKNOWN,
            "The number of a box's processes is bounded by the nodes alone (podPidsLimit of the kubelet).",
        ]

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[Box]:
        if spec.mounts:
            raise BoxError(box=spec.name, reason="a pod cannot have directories of the worker's machine.")
        async with AsyncExitStack() as holding:
            box = await self._hold(holding, spec, fence)
            yield box
        if spec.idle_s == 0:
            await self._ended(str(box.ref["pod"]))

    async def _hold(self, holding: AsyncExitStack, spec: Spec, fence: int) -> HeldBox:
        """The box that stands, if it is as it is to be; else a new one."""
        async with api_at(self._cluster()) as api:
            await _sweep(api)
            standing = await api.ask("GET", api.path("pods", pod_name(spec.name)))
        if standing.status == 200 and _state(standing.body) == "running":
            with suppress(BoxGone):
                ref = _ref(standing.body)
                wish = standing.body["metadata"].get("annotations", {}).get(WISH)
                if spec.idle_s > 0 and wish == wish_of(spec, spec.image or self._image):
                    return await self._held(holding, spec, fence, ref)
                # It is another attempt's, or made differently: who has the newer fence may end it.
                async with AsyncExitStack() as ending:
                    await self._held(ending, spec, fence, ref)
        return await self._held(holding, spec, fence, await self._made(spec))

    async def _held(self, holding: AsyncExitStack, spec: Spec, fence: int, ref: Ref) -> HeldBox:
        each = {"processes": spec.limits.processes} if spec.limits.processes else {}
        within = replace(spec, env={"HOME": HOME, **spec.env})
        return await holding.enter_async_context(
            hold(partial(self.dial, ref), within, fence, ref, limits=each)
        )

    async def dial(self, ref: Ref) -> ByteStream:
        async with api_at(self._cluster()) as api:
            return Framed(await api.exec(str(ref["pod"]), dial_argv(STATE)))

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]:
        async with api_at(self._cluster()) as api:
            found = await api.ask("GET", api.path("pods"), params={"labelSelector": selector(labels)})
        if found.status != 200:
            raise _refused(PROVIDER, found)
        boxes = [self._found(one) for one in found.body["items"]]
        return [box for box in boxes if labels.items() <= box.labels.items()]

    def _found(self, one: Mapping[str, Any]) -> Found:
        metadata = one["metadata"]
        created = datetime.fromisoformat(str(metadata["creationTimestamp"])).timestamp()
        return Found(
            _ref(one),
            str(metadata.get("annotations", {}).get(BOX, "")),
            labels_of(one),
            max(0.0, self._clock.now() - created),
            _state(one),
        )

    async def destroy(self, ref: Ref) -> None:
        """The pod, and its claim where that is kept."""
        async with api_at(self._cluster()) as api:
            await _delete(api, "pods", str(ref["pod"]), uid=str(ref.get("uid", "")), grace_s=0)
            if self._claim.kept:
                await _delete(api, "persistentvolumeclaims", str(ref["pod"]))

    async def _made(self, spec: Spec) -> Ref:
        """A new pod for a box, running; what stands under its name is taken away."""
        name = pod_name(spec.name)
        async with api_at(self._cluster()) as api:
            old = await api.ask("GET", api.path("pods", name))
            if old.status == 200:
                await _taken_away(api, name, str(old.body["metadata"]["uid"]))
            made = await self._create(api, spec)
            if made.status not in {200, 201}:
                raise _refused(name, made)
            with anyio.move_on_after(self._start_s):
                return await _running(api, name)
            raise await _late(api, name, self._start_s)

    async def _create(self, api: Api, spec: Spec) -> Answer:
        closed = await api.apply("networkpolicies", POLICY, policy())
        if closed.status not in {200, 201}:
            raise _refused(spec.name, closed)
        if self._claim.kept:
            claimed = await api.ask(
                "POST", api.path("persistentvolumeclaims"), body=kept_claim(spec, self._claim)
            )
            if claimed.status not in {200, 201, 409}:
                raise _refused(spec.name, claimed)
        wanted = pod(spec, spec.image or self._image, boot_argv(STATE), self._claim, self._lives_s)
        made = await api.ask("POST", api.path("pods"), body=wanted, params={"fieldValidation": "Strict"})
        if made.status == 409:  # another worker was first
            made = await api.ask("GET", api.path("pods", pod_name(spec.name)))
        return made

    async def _ended(self, name: str) -> None:
        """Wait until a pod whose supervisor ends is done, and take it away. Not forced: it may be somebody else's."""
        with anyio.move_on_after(_ENDING_S, shield=True):
            async with api_at(self._cluster()) as api:
                while (found := await api.ask("GET", api.path("pods", name))).status == 200:
                    if _state(found.body) == "ended":
                        await _delete(api, "pods", name, uid=str(found.body["metadata"]["uid"]))
                    await anyio.sleep(_LOOK_S)


async def _running(api: Api, name: str) -> Ref:
    """Wait until a pod runs.

    Raises:
        BoxError: it will not; the text says why.
        BoxGone: it was deleted.
    """
    while True:
        async for found in api.watch(name, START_S):
            if found is None or _state(found) == "ended":
                raise BoxGone(
                    box=name, reason=(found and trouble(found)) or "its pod ended while it was started."
                )
            if found["status"].get("phase") == "Running":
                return _ref(found)
            if why := trouble(found):
                await _delete(api, "pods", name, uid=str(found["metadata"]["uid"]), grace_s=0)
                raise BoxError(box=name, reason=f"its pod does not start. {why}")
        await anyio.sleep(_LOOK_S)


async def _late(api: Api, name: str, start_s: float) -> BoxError:
    found = await api.ask("GET", api.path("pods", name))
    why = unscheduled(found.body) if found.status == 200 else ""
    await _delete(api, "pods", name, grace_s=0)
    said = f"no node takes it: {why}" if why else "nothing is said to be wrong"
    return BoxError(
        box=name,
        reason=f"its pod does not run after {start_s:g} s ({said}). `kubectl get events` may say more.",
    )


async def _sweep(api: Api) -> None:
    """Take away the boxes that ended by themselves: a pod cannot, without a token."""
    for phase in ("Succeeded", "Failed"):
        params = {"labelSelector": selector({}), "fieldSelector": f"status.phase={phase}"}
        found = await api.ask("GET", api.path("pods"), params=params)
        for one in found.body["items"] if found.status == 200 else ():
            await _delete(api, "pods", str(one["metadata"]["name"]), uid=str(one["metadata"]["uid"]))


async def _taken_away(api: Api, name: str, uid: str) -> None:
    """Delete a pod that has ended, and wait until its name is free."""
    await _delete(api, "pods", name, uid=uid, grace_s=0)
    with anyio.move_on_after(_GONE_S):
        while (found := await api.ask("GET", api.path("pods", name))).status == 200:
            if found.body["metadata"]["uid"] != uid:
                return
            await anyio.sleep(_LOOK_S)
        return
    raise BoxError(
        box=name, reason="its old pod does not go: see `kubectl describe pod` (a node may be lost)."
    )


async def _delete(api: Api, kind: str, name: str, *, uid: str = "", grace_s: int | None = None) -> None:
    """Delete a thing; nothing where it is gone, or another of its name stands."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        body["preconditions"] = {"uid": uid}
    if grace_s is not None:
        body["gracePeriodSeconds"] = grace_s
    gone = await api.ask("DELETE", api.path(kind, name), body=body)
    if gone.status not in {200, 202, 404, 409}:
        raise _refused(name, gone)


def _ref(found: Mapping[str, Any]) -> Ref:
    metadata = found["metadata"]
    return {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}


def _state(found: Mapping[str, Any]) -> Literal["running", "paused", "ended"]:
    over = found["status"].get("phase") in {"Succeeded", "Failed"} or "deletionTimestamp" in found["metadata"]
    return "ended" if over else "running"


def _refused(name: str, answer: Answer) -> BoxError:
    why = answer.why
    if "exceeded quota" in why:
        way = "Destroy boxes that are not needed (`outlast sandbox ls`), or have the quota raised."
    elif "violates PodSecurity" in why:
        way = "Boxes are of the level `restricted`; the namespace asks for more than that."
    elif answer.status == 403:
        way = f"Its role needs: {RIGHTS}."
    elif answer.status == 404:
        way = "Is there such a namespace?"
    else:
        way = "The cluster's own words are all that is known."
    return BoxError(box=name, reason=f"the cluster refuses it ({answer.status}: {why}). {way}")
