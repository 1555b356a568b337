"""Who we are to a cluster: tokens, passwords, client certificates, and the programs that give them out.

The programs are those of a kubeconfig's `users[].user.exec` ("client-go credential plugins"): started with
`KUBERNETES_EXEC_INFO`, they print an `ExecCredential` of `client.authentication.k8s.io`.
"""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio

from outlast.clock import Clock
from outlast.errors import SandboxUnsupported

PROVIDER: Final = "kubernetes"
_PLUGIN_S: Final = 60.0
_EARLY_S: Final = 60.0
"""A credential is got anew so long before it ends."""
_GROUP: Final = "client.authentication.k8s.io/"


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request is signed with."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    certificate: bytes = b""
    """PEM, with its key; empty: none."""
    key: bytes = b""


class User:
    """The user of a kubeconfig, or a pod's service account.

    Args:
        said: `users[].user`, as JSON.
        folder: what relative paths in it are relative to.
        cluster: `clusters[].cluster`, for programs that ask for it.
    """

    def __init__(
        self, said: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any], clock: Clock
    ) -> None:
        self._said = said
        self._folder = folder
        self._cluster = cluster
        self._clock = clock
        self._held = Credential()
        self._until = 0.0

    async def credential(self, *, anew: bool = False) -> Credential:
        """What the next request is to bring. `anew`: the last one was refused.

        Raises:
            SandboxUnsupported: it cannot be had.
        """
        if anew or self._clock.now() >= self._until:
            self._held, self._until = await self._get()
        return self._held

    async def _get(self) -> tuple[Credential, float]:
        certificate, key = self._pem("client-certificate"), self._pem("client-key")
        if plugin := self._said.get("exec"):
            return await self._from_plugin(plugin)
        if "auth-provider" in self._said:
            raise _refused(
                "its kubeconfig names an `auth-provider`, which Kubernetes 1.26 took away",
                "Have its tool write a kubeconfig anew (with `exec`).",
            )
        if file := self._said.get("tokenFile"):
            # Rotated by the kubelet, and by others: read again each minute.
            token = (await anyio.Path(self._folder / str(file)).read_text()).strip()
            return Credential(_bearer(token), certificate, key), self._clock.now() + _EARLY_S
        if token := self._said.get("token"):
            return Credential(_bearer(str(token)), certificate, key), float("inf")
        if name := self._said.get("username"):
            both = f"{name}:{self._said.get('password', '')}".encode()
            basic = {"Authorization": f"Basic {base64.b64encode(both).decode()}"}
            return Credential(basic, certificate, key), float("inf")
        return Credential({}, certificate, key), float("inf")

    def _pem(self, name: str) -> bytes:
        if data := self._said.get(f"{name}-data"):
            return base64.b64decode(str(data))
        if file := self._said.get(name):
            return (self._folder / str(file)).read_bytes()
        return b""

    async def _from_plugin(self, plugin: Mapping[str, Any]) -> tuple[Credential, float]:
        version = str(plugin.get("apiVersion", f"{_GROUP}v1"))
        asked: dict[str, Any] = {"interactive": False}
        if plugin.get("provideClusterInfo"):
            asked["cluster"] = {name: value for name, value in self._cluster.items() if name != "extensions"}
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": asked}
        env = {**os.environ, **{str(pair["name"]): str(pair["value"]) for pair in plugin.get("env") or ()}}
        command = [_command(str(plugin["command"]), self._folder), *map(str, plugin.get("args") or ())]
        try:
            with anyio.fail_after(_PLUGIN_S):
                ran = await anyio.run_process(
                    command, env={**env, "KUBERNETES_EXEC_INFO": json.dumps(info)}, check=False
                )
        except (OSError, TimeoutError) as error:
            hint = str(plugin.get("installHint") or f"Install {command[0]}, which its kubeconfig names.")
            raise _refused(f"the credential plugin {command[0]} did not run ({error})", hint) from error
        status = _status(ran.stdout)
        if ran.returncode != 0 or not status:
            said = ran.stderr.decode("utf-8", "replace").strip()[-500:]
            raise _refused(
                f"the credential plugin {command[0]} ended with {ran.returncode}: {said}",
                "Run it by hand, or log in again.",
            )
        token = status.get("token")
        return (
            Credential(
                _bearer(str(token)) if token else {},
                str(status.get("clientCertificateData", "")).encode(),
                str(status.get("clientKeyData", "")).encode(),
            ),
            _ends(status) - _EARLY_S,
        )


def _status(printed: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(printed)
        return said["status"] if str(said["apiVersion"]).startswith(_GROUP) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _ends(status: Mapping[str, Any]) -> float:
    said = status.get("expirationTimestamp")
    return datetime.fromisoformat(str(said)).timestamp() if said else float("inf")


def _command(named: str, folder: Path) -> str:
    """A path is relative to the kubeconfig; a plain name is looked up."""
    return str(folder / named) if "/" in named else named


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _refused(reason: str, way_out: str) -> SandboxUnsupported:
    return SandboxUnsupported(provider=PROVIDER, reason=f"{reason}.", way_out=way_out)
