"""What a namespace of the level `restricted` refuses: the controls of the Pod Security Standards, and their words.

As documented at kubernetes.io ("Pod Security Standards"; `restricted` has all of `baseline` too), for Linux pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
PROFILES = {"RuntimeDefault", "Localhost"}


def violations(pod: Mapping[str, Any]) -> list[str]:
    """Why a pod is refused; empty: it is not."""
    spec = pod["spec"]
    whole = spec.get("securityContext", {})
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    for volume in spec.get("volumes", ()):
        kinds = set(volume) - {"name"}
        if not kinds <= VOLUMES:
            found.append(
                f'restricted volume types (volume "{volume["name"]}" uses {", ".join(kinds - VOLUMES)})'
            )
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        found += _of_container(container, whole)
    return found


def _of_container(container: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    own = container.get("securityContext", {})
    named = f'container "{container["name"]}"'
    if own.get("privileged"):
        yield f"privileged ({named} must not set securityContext.privileged=true)"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"allowPrivilegeEscalation != false ({named} must set securityContext.allowPrivilegeEscalation=false)"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f'unrestricted capabilities ({named} must set securityContext.capabilities.drop=["ALL"])'
    if own.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True:
        yield f"runAsNonRoot != true (pod or {named} must set securityContext.runAsNonRoot=true)"
    if own.get("runAsUser", whole.get("runAsUser")) == 0:
        yield f"runAsUser=0 ({named} must not set runAsUser=0)"
    if own.get("seccompProfile", whole.get("seccompProfile", {})).get("type") not in PROFILES:
        yield f'seccompProfile (pod or {named} must set securityContext.seccompProfile.type to "RuntimeDefault")'
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield f"hostPort ({named} uses hostPorts)"
