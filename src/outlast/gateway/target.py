"""Where a model request goes: the port between the gateway and providers, and what goes there."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpx

from outlast.gateway.wire import Header
from outlast.sandbox import SESSION_HEADER

# Between two machines only (RFC 9110, section 7.6.1), or ours to say.
_NOT_PASSED: Final = frozenset(
    {
        "accept-encoding",
        "alt-svc",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect",
        "host",
        "keep-alive",
        SESSION_HEADER,
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
JOINED: Final = "anthropic-beta"


class NoCredential(Exception):
    """There is nothing to show to the provider; the text says what to do."""


class NotOffered(Exception):
    """The provider has nothing for this request; the text says what."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose request it is."""

    dialect: str
    tenant: str
    session: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the harness made it."""

    method: str
    path: str
    """And query."""
    headers: list[Header] = field(repr=False)
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it goes upstream."""

    method: str
    url: str
    headers: list[Header] = field(repr=False)
    body: bytes | None = field(repr=False)


class Heard:
    """A provider's response, in the words of the dialect."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def is_success(self) -> bool:
        return self._response.is_success

    @property
    def leads_elsewhere(self) -> str:
        """Where it sends the asker instead: scheme and host, or some words where it does not say; else empty.

        A harness that followed would ask there by itself, past the log and with its token.
        """
        if not self._response.is_redirect and self.status not in range(300, 400):
            return ""
        try:
            found = self._response.url.join(self._response.headers.get("location", ""))
        except httpx.InvalidURL:
            return "another address"
        return f"{found.scheme}://{found.netloc.decode('ascii').rpartition('@')[2]}"

    @property
    def kind(self) -> str:
        """Its content type, without parameters."""
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def given(self) -> Mapping[str, str]:
        """Its own headers, found by their names in whatever case."""
        return self._response.headers

    @property
    def headers(self) -> tuple[Header, ...]:
        """As they go to the harness."""
        # Byte by byte as they came: what is no ASCII in them is not for us to guess at.
        raw = self._response.headers.raw
        pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
        dropped = _NOT_PASSED | _named_hops(pairs)
        return tuple((name, value) for name, value in pairs if name not in dropped)

    def chunks(self) -> AsyncIterator[bytes]:
        """Its body as it comes."""
        return self._response.aiter_bytes()


class Translator(Protocol):
    """How a provider wants to be asked that does not speak the dialect itself."""

    async def put(self, asked: Asked, target: "Target") -> Sent:
        """The request in the provider's words.

        Raises:
            NotOffered, NoCredential
        """
        ...

    def hear(self, response: httpx.Response) -> Heard: ...


class Plain:
    """The provider speaks the dialect: the harness's own bytes go there."""

    async def put(self, asked: Asked, target: "Target") -> Sent:
        return Sent(asked.method, target.url(asked.path), outgoing(asked.headers, target), asked.body)

    def hear(self, response: httpx.Response) -> Heard:
        return Heard(response)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    base_url: str
    """Without a slash at its end; the harness's path and query follow."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The credential, and what goes with it; a list of betas is added to the harness's own."""
    within: str = ""
    """The beginning of the harness's path that `base_url` names already: `/v1`, by the habit of OpenAI's clients."""
    translator: Translator = field(default_factory=Plain)

    def url(self, path: str) -> str:
        """Where a request of the harness for `path` goes."""
        inner = path.removeprefix(self.within)
        return self.base_url + (inner if inner.startswith("/") else path)


class Upstream(Protocol):
    """Names the provider for a session's requests; asked for each request."""

    async def target(self, asker: Asker) -> Target:
        """Where requests of `asker` go.

        Raises:
            NoCredential
        """
        ...


def outgoing(pairs: list[Header], target: Target) -> list[Header]:
    """The headers of the harness's request, as they go upstream."""
    given = dict(target.headers)
    passed: list[Header] = []
    dropped = _NOT_PASSED | _named_hops(pairs)
    for name, value in pairs:
        if name == JOINED and JOINED in given:
            passed.append((name, f"{value},{given.pop(JOINED)}"))
        elif name not in dropped and name not in given:
            passed.append((name, value))
    # Compressed text would have to be unpacked before a frame of it could be seen.
    return [*passed, *given.items(), ("accept-encoding", "identity")]


def _named_hops(pairs: list[Header]) -> set[str]:
    return {
        option.strip().lower() for name, value in pairs if name == "connection" for option in value.split(",")
    }
