"""The Docker Engine API, as far as boxes need it: over HTTP, on a unix socket or TCP.

Spoken with httpx, which outlast depends on already: the SDKs either block (`docker`) or bring a second HTTP library
(`aiodocker`), and of the API we use eleven routes. Routes, bodies and statuses are those of the published description
(`api/swagger.yaml` of moby, version 1.41 and up, which Podman's service speaks too).
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
import httpx

from outlast.errors import BoxError, SandboxUnsupported
from outlast.workspaces.docker.address import PROVIDER, Address
from outlast.workspaces.docker.frames import Hijacked

VERSION: Final = (1, 44)
"""Of the API that we know; an older daemon is asked in its own, down to `_LEAST`."""
_LEAST: Final = (1, 41)
_CALL_S: Final = 60.0
STREAM_S: Final = 90.0
"""How long a daemon may take until a stream to a program stands."""
_PULL_S: Final = 900.0
_CONNECT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the daemon said."""

    status: int
    body: Any
    text: str

    @property
    def why(self) -> str:
        """Its own words for a refusal."""
        said = cast("dict[str, Any]", self.body).get("message") if isinstance(self.body, dict) else ""
        return str(said or self.text).strip()[:2000]


class Engine:
    """Asks a daemon. Made by `engine_at`."""

    def __init__(self, http: httpx.AsyncClient, address: Address, version: str, stream_s: float) -> None:
        self._http = http
        self._stream_s = stream_s
        self._address = address
        self._version = version

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        tar: bytes = b"",
        within_s: float = _CALL_S,
    ) -> Answer:
        """One request, answered with whatever status.

        Raises:
            BoxError: no answer came.
        """
        sent: dict[str, Any] = {"json": body} if body is not None else {}
        if tar:
            sent = {"content": tar, "headers": {"Content-Type": "application/x-tar"}}
        try:
            answer = await self._http.request(
                method, f"{self._version}{path}", params=params, timeout=within_s, **sent
            )
        except httpx.HTTPError as error:
            raise BoxError(
                box=path.split("/")[2] if path.count("/") > 1 else PROVIDER,
                reason=f"the Docker daemon at {self._address.name} did not answer ({_told(error)}).",
            ) from error
        return Answer(answer.status_code, _json(answer), answer.text)

    async def hijack(self, path: str, body: object) -> Hijacked | Answer:
        """A stream to a program; an `Answer` where it was refused. The connection is the stream's own.

        Raises:
            BoxError: it does not stand in time.
        """
        async with AsyncExitStack() as owned:
            http = await owned.enter_async_context(_http(self._address))
            asked = http.build_request(
                "POST",
                f"{self._version}{path}",
                json={} if body is None else body,
                headers={"Connection": "Upgrade", "Upgrade": "tcp"},
                timeout=httpx.Timeout(_CALL_S, read=None, write=None),
            )
            try:
                with anyio.fail_after(
                    self._stream_s
                ):  # once it stands, it may be silent for as long as it likes
                    answer = await http.send(asked, stream=True)
            except TimeoutError:
                late = f"the daemon at {self._address.name} began no stream within {self._stream_s:g} s."
                raise BoxError(box=PROVIDER, reason=late) from None
            except httpx.HTTPError as error:
                raise BoxError(
                    box=PROVIDER, reason=f"the daemon at {self._address.name} hung up ({_told(error)})."
                ) from error
            owned.push_async_callback(answer.aclose)
            if answer.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                await answer.aread()
                return Answer(answer.status_code, _json(answer), answer.text)
            return Hijacked(answer.extensions["network_stream"], owned.pop_all())
        raise AssertionError  # the stack lets no exception go

    async def pull(self, image: str) -> str:
        """Have the daemon fetch an image. Why it could not; empty: it is there."""
        name, _, tag = image.partition("@") if "@" in image else _tagged(image)
        answer = await self.ask(
            "POST", "/images/create", params={"fromImage": name, "tag": tag}, within_s=_PULL_S
        )
        if answer.status != HTTPStatus.OK:
            return answer.why
        # Progress comes as lines of JSON, and so does a failure, under status 200.
        failed = [
            str(json.loads(line).get("error")) for line in answer.text.splitlines() if '"error"' in line
        ]
        return failed[-1] if failed else ""


@asynccontextmanager
async def engine_at(address: Address, stream_s: float = STREAM_S) -> AsyncGenerator[Engine]:
    """A daemon, asked for its version first; `stream_s` is what it has for the beginning of a stream.

    Raises:
        SandboxUnsupported: nothing answers there, or something too old.
    """
    async with _http(address) as http:
        try:
            said = (await http.get("/version", timeout=_CONNECT_S)).raise_for_status().json()
            newest = tuple(int(part) for part in str(said["ApiVersion"]).split("."))
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise SandboxUnsupported(
                provider=PROVIDER,
                reason=f"the Docker daemon at {address.name} does not answer ({_told(error)}).",
                way_out=_way_in(error, address),
            ) from error
        if newest < _LEAST:
            raise SandboxUnsupported(
                provider=PROVIDER,
                reason=f"the daemon at {address.name} speaks API {said['ApiVersion']} only.",
                way_out="Docker 20.10 and Podman 4 or newer are known.",
            )
        major, minor = min(newest[:2], VERSION)
        yield Engine(http, address, f"/v{major}.{minor}", stream_s)


def _http(address: Address) -> httpx.AsyncClient:
    verify = address.context()
    transport = httpx.AsyncHTTPTransport(uds=address.socket or None, verify=verify)
    return httpx.AsyncClient(transport=transport, base_url=address.url)


def _way_in(error: Exception, address: Address) -> str:
    if _denied(error):
        return (
            "Add this user to the group `docker`, or use a rootless daemon and set DOCKER_HOST to its socket."
        )
    if address.here:
        return "Start the daemon, or set DOCKER_HOST to where one listens."
    return "See whether DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH are as that daemon wants them."


def _denied(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, PermissionError) or "Permission denied" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _tagged(image: str) -> tuple[str, str, str]:
    name, colon, tag = image.rpartition(":")
    # A colon before a slash is that of a registry's port.
    return (name, colon, tag) if colon and "/" not in tag else (image, "", "latest")


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
