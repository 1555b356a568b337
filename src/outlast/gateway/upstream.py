"""Where model requests go, and with which credential.

Credentials stay here: a harness holds a token of its attempt only.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import httpx
import msgspec

from outlast.gateway.limits import Limits
from outlast.gateway.wire import Header
from outlast.settings import ANTHROPIC, OPENAI

# Between two machines only (RFC 9110, section 7.6.1), or ours to say.
_NOT_PASSED: Final = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
    }
)
_JOINED: Final = "anthropic-beta"
_NEAR: Final = ("127.0.0.1", "localhost", "[::1]")


class NoCredential(Exception):
    """There is nothing to show to the provider; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    base_url: str
    """Without a slash at its end; the harness's path and query follow."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The credential, and what goes with it; a list of betas is added to the harness's own."""
    within: str = ""
    """The beginning of the harness's path that `base_url` names already: `/v1`, by the habit of OpenAI's clients."""

    def url(self, path: str) -> str:
        """Where a request of the harness for `path` goes."""
        inner = path.removeprefix(self.within)
        return self.base_url + (inner if inner.startswith("/") else path)


class Upstream(Protocol):
    """Names the provider for a session's requests; asked for each request."""

    async def target(self, dialect: str, session: str) -> Target:
        """Where requests of `session` go.

        Raises:
            NoCredential
        """
        ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A provider's API key. `base_url` may be any compatible one."""

    key: str = field(repr=False)
    base_url: str = ANTHROPIC

    async def target(self, dialect: str, session: str) -> Target:
        return Target(self.base_url.rstrip("/"), {"x-api-key": self.key})


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token, as a company's own endpoint wants it."""

    token: str = field(repr=False)
    base_url: str = ANTHROPIC

    async def target(self, dialect: str, session: str) -> Target:
        return Target(self.base_url.rstrip("/"), {"authorization": f"Bearer {self.token}"})


@dataclass(frozen=True, slots=True)
class OpenAIKey:
    """A key of OpenAI's API. `base_url` may be any compatible one, and names the version: `…/v1`."""

    key: str = field(repr=False)
    base_url: str = OPENAI
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What goes with it: an organization, a project."""

    async def target(self, dialect: str, session: str) -> Target:
        bearer = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return Target(self.base_url.rstrip("/"), {**bearer, **self.headers}, "/v1")


@dataclass(frozen=True, slots=True)
class ByDialect:
    """A provider for each dialect."""

    upstreams: Mapping[str, Upstream]

    async def target(self, dialect: str, session: str) -> Target:
        found = self.upstreams.get(dialect)
        if found is None:
            known = ", ".join(sorted(self.upstreams))
            reason = f"No provider is set for the dialect {dialect!r}; there is one for {known}."
            raise NoCredential(reason)
        return await found.target(dialect, session)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription's token, as `claude setup-token` gives it."""

    token: str = field(repr=False)
    base_url: str = ANTHROPIC

    async def target(self, dialect: str, session: str) -> Target:
        headers = {"authorization": f"Bearer {self.token}", _JOINED: "oauth-2025-04-20"}
        return Target(self.base_url.rstrip("/"), headers)


@dataclass(frozen=True, slots=True)
class Open:
    """A provider that asks for no credential: a model on this machine, the scripted one."""

    base_url: str

    async def target(self, dialect: str, session: str) -> Target:
        return Target(self.base_url.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Login:
    """Claude Code's own login, read anew for each request, since whoever logs in or refreshes it writes the file.

    `file` is its `.credentials.json`.
    """

    file: Path
    base_url: str = ANTHROPIC

    async def target(self, dialect: str, session: str) -> Target:
        try:
            text = await anyio.Path(self.file).read_bytes()
            held: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
            token: object = held["claudeAiOauth"]["accessToken"]
        except (OSError, msgspec.MsgspecError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not token:
            reason = f"There is no login in {self.file}. Run `claude` and log in, or set an API key."
            raise NoCredential(reason)
        return await Subscription(token, self.base_url).target(dialect, session)


def outgoing(pairs: Iterable[Header], target: Target) -> list[Header]:
    """The headers of the harness's request, as they go upstream."""
    given = dict(target.headers)
    passed: list[Header] = []
    dropped = _NOT_PASSED | _named_hops(pairs)
    for name, value in pairs:
        if name == _JOINED and _JOINED in given:
            passed.append((name, f"{value},{given.pop(_JOINED)}"))
        elif name not in dropped and name not in given:
            passed.append((name, value))
    # Compressed text would have to be unpacked before a frame of it could be seen.
    return [*passed, *given.items(), ("accept-encoding", "identity")]


def incoming(response: httpx.Response) -> tuple[Header, ...]:
    """The headers of the provider's response, as they go to the harness."""
    pairs = [(name.lower(), value) for name, value in response.headers.multi_items()]
    dropped = _NOT_PASSED | _named_hops(pairs)
    return tuple((name, value) for name, value in pairs if name not in dropped)


def _named_hops(pairs: Iterable[Header]) -> set[str]:
    return {
        option.strip().lower() for name, value in pairs if name == "connection" for option in value.split(",")
    }


class Line:
    """Our connections to providers."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: list[Header], body: bytes | None
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request; the response's body is read inside the block."""
        request = self._client.build_request(method, url, headers=headers, content=body)
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await response.aclose()


@asynccontextmanager
async def open_line(limits: Limits) -> AsyncGenerator[Line]:
    """Connections that are kept open between requests, without a limit on their number."""
    timeout = httpx.Timeout(limits.silence_s, connect=limits.connect_s, pool=limits.connect_s)
    pool = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0)
    # A proxy of the environment leads out into the world; it does not know this machine's own servers.
    trusted = httpx.create_ssl_context()  # reads every authority's certificate: once is enough
    near = {f"all://{name}": httpx.AsyncHTTPTransport(trusted, limits=pool) for name in _NEAR}
    async with httpx.AsyncClient(verify=trusted, timeout=timeout, limits=pool, mounts=near) as client:
        # One client serves many sessions, and a cookie would tie them together.
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        yield Line(client)
