"""The Kubernetes API, as far as boxes need it: pods, claims, one network policy, a watch.

Spoken with httpx, which outlast depends on already, and `websockets` for exec. The clients that there are either block
(`kubernetes`), bring a second HTTP library and take long to import (`kubernetes-asyncio`), or have exec that only runs
a program to its end (`lightkube`, `kr8s`), where boxes need its open streams.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlencode

import httpx

from outlast.errors import BoxError, SandboxUnsupported
from outlast.workspaces.kubernetes.access import Access
from outlast.workspaces.kubernetes.channels import Channels, exec_stream
from outlast.workspaces.kubernetes.credentials import PROVIDER
from outlast.workspaces.kubernetes.pods import CONTAINER

_CALL_S: Final = 30.0
_SLACK_S: Final = 10.0
_APPLY: Final = "application/apply-patch+yaml"
RIGHTS: Final = (
    "pods: get, list, watch, create, delete · pods/exec: get, create · persistentvolumeclaims: get, create, delete · "
    "networkpolicies.networking.k8s.io: get, create, patch"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said."""

    status: int
    body: Any

    @property
    def why(self) -> str:
        """Its own words for a refusal."""
        if isinstance(self.body, dict):
            return str(cast("dict[str, Any]", self.body).get("message", ""))
        return str(self.body)


class Api:
    """Asks the API server about one namespace. Made by `api_at`."""

    def __init__(self, http: httpx.AsyncClient, access: Access) -> None:
        self._http = http
        self._access = access

    def path(self, kind: str, name: str = "") -> str:
        """Of the things of a kind in the namespace, or of one of them."""
        group = "/apis/networking.k8s.io/v1" if kind == "networkpolicies" else "/api/v1"
        return f"{group}/namespaces/{self._access.namespace}/{kind}" + (f"/{name}" if name else "")

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        kind: str = "",
    ) -> Answer:
        """One request, answered with whatever status but 401.

        Raises:
            SandboxUnsupported: who we are is not accepted.
            BoxError: no answer came.
        """
        content = None if body is None else json.dumps(body).encode()
        for anew in (False, True):
            credential = await self._access.user.credential(anew=anew)
            headers = {
                **credential.headers,
                "Accept": "application/json",
                "Content-Type": kind or "application/json",
            }
            try:
                answer = await self._http.request(
                    method, path, params=params, content=content, headers=headers
                )
            except httpx.HTTPError as error:
                raise _silent(self._access, error) from error
            if answer.status_code != 401:
                return Answer(answer.status_code, _json(answer))
        raise SandboxUnsupported(
            provider=PROVIDER,
            reason=f"{self._access.server} does not accept who we say we are.",
            way_out="Log in again, so that the kubeconfig has a token or certificate that holds.",
        )

    async def apply(self, kind: str, name: str, manifest: object) -> Answer:
        """Have a thing be as the manifest says, whether it is there or not (server-side apply)."""
        params = {"fieldManager": "outlast", "force": "true"}
        return await self.ask("PATCH", self.path(kind, name), params=params, body=manifest, kind=_APPLY)

    async def watch(self, name: str, for_s: float) -> AsyncIterator[Mapping[str, Any] | None]:
        """A pod, as it is and each time it changes; None: it was deleted. Ends after some time, or when cut off."""
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={name}",
            "timeoutSeconds": str(max(1, int(for_s))),
        }
        credential = await self._access.user.credential()
        headers = {**credential.headers, "Accept": "application/json"}
        timeout = httpx.Timeout(_CALL_S, read=for_s + _SLACK_S)
        try:
            async with self._http.stream(
                "GET", self.path("pods"), params=params, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise BoxError(box=name, reason=Answer(answer.status_code, _json(answer)).why)
                async for line in answer.aiter_lines():
                    event: Any = json.loads(line) if line.strip() else {"type": "BOOKMARK"}
                    match event["type"]:
                        case "ADDED" | "MODIFIED":
                            yield event["object"]
                        case "DELETED":
                            yield None
                        case _:  # a bookmark, or an error (410: too old): whoever watches begins again
                            return
        except httpx.HTTPError as error:
            raise _silent(self._access, error) from error

    async def exec(self, pod: str, argv: Sequence[str]) -> Channels:
        """Start a program in a pod. Raises as `exec_stream` does."""
        credential = await self._access.user.credential()
        asked = [("container", CONTAINER), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query = urlencode([*asked, *(("command", word) for word in argv)])
        url = self._access.server.replace("http", "ws", 1) + f"{self.path('pods', pod)}/exec?{query}"
        return await exec_stream(
            url,
            credential.headers,
            self._access.context(credential),
            server_name=self._access.server_name,
            pod=pod,
        )


@asynccontextmanager
async def api_at(access: Access) -> AsyncGenerator[Api]:
    """Connections to a cluster, as its user is now."""
    credential = await access.user.credential()
    context = access.context(credential)
    extensions = {"sni_hostname": access.server_name} if access.server_name else {}

    async def named(request: httpx.Request) -> None:
        request.extensions = {**request.extensions, **extensions}

    async with httpx.AsyncClient(
        base_url=access.server,
        verify=context if context is not None else False,
        timeout=_CALL_S,
        trust_env=False,
        event_hooks={"request": [named]},
    ) as http:
        yield Api(http, access)


def _silent(access: Access, error: Exception) -> BoxError:
    return BoxError(
        box=access.namespace,
        reason=f"the cluster at {access.server} did not answer ({str(error) or type(error).__name__}).",
    )


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
