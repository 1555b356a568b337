"""The table of what can be asked of the server: from it come the routes, the checks before each, and the OpenAPI.

An operation is declared once, with the types that it takes and answers, so the document cannot say other than what the
code does; `tests/acceptance` asks everything that it allows.

In this order, before an operation's own function is called:

1. who asks (`access.Doorkeeper`): 401, or 429 from an address that nobody is known from again and again; their own
   rate: 429;
2. what they may: 403. The World that the function is given is the tenant's own, so what is another tenant's is not
   there: 404;
3. what changes something and comes by a cookie must come from our own page: 403;
4. the body is read, no more than it may be (413), no slower (408); path, query and body are read into their types: 400.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from outlast.adapter import Agent
from outlast.clock import Clock
from outlast.errors import Declined
from outlast.links import Links
from outlast.server.access import Doorkeeper, Identity, Scope
from outlast.server.feeds import Hub
from outlast.server.meter import Meter
from outlast.server.streams.talk import Talks
from outlast.webhook import Receive
from outlast.workspace import Workspace
from outlast.world import World

Body = TypeVar("Body")
Query = TypeVar("Query")
BODY_BYTES: Final = 1024 * 1024
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Nothing(msgspec.Struct, frozen=True):
    """Of an operation that takes no body, or no query."""


class Unread(msgspec.Struct, frozen=True):
    """A body of JSON as it came: for whoever must check a signature over it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Hook:
    """Who may send what other programs send, and to whose sessions."""

    receive: Receive
    tenant: str


EXPORTS: Final = 4


class Bounded:
    """So many of something at once; what comes beyond is told to come back."""

    def __init__(self, most: int) -> None:
        self._left = most

    def begin(self) -> None:
        """One more. Whoever begins ends, however that comes about.

        Raises:
            Declined: there are as many as there may be.
        """
        if not self._left:
            raise Declined(
                status=429, detail="As many of these are under way as this server bears. Try again soon."
            )
        self._left -= 1

    def end(self) -> None:
        """One less."""
        self._left += 1


@dataclass(frozen=True, slots=True)
class Services:
    """What the functions of operations stand on; one for the whole server."""

    world: World
    """Of the default tenant; an operation uses `Call.world`."""
    hub: Hub
    clock: Clock
    woken: Callable[[str, str], Awaitable[None]]
    """Tells whoever starts workers that a session of a tenant is ready (`outlast.waker`)."""
    audit: Callable[[Identity, str, Mapping[str, Any]], None]
    """Writes the audit line of a decision or an erasure: who, what, and ids; never content."""
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    """Agents of the operator's own: a session of one is opened with its settings, workspace and shapes of documents.
    Of any other name, what a worker offers is opened by that name."""
    workspaces: Mapping[str, Workspace] = field(default_factory=dict[str, Workspace])
    """Where who opens a session may let it work, by name; never a directory of this machine."""
    data: Path | None = None
    """Where outlast keeps what is of this machine: an erasure removes it there too."""
    exports: Bounded = field(default_factory=lambda: Bounded(EXPORTS))
    """Archives that are being read: each holds a page of a log, for as long as its reader takes."""
    meter: Meter = field(default_factory=Meter)
    links: Links | None = None
    """Makes links for approvals, and reads them."""
    public_url: str = ""
    """Where people reach the server, without a slash at the end; empty: it is not known."""
    webhook: Hook | None = None
    doorkeeper: Doorkeeper | None = None
    """Who knows who asks, for the operations that let somebody in."""
    talks: Talks = field(default_factory=Talks)
    """The turns that are watched here by one of the protocols of front ends."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Body, Query]):
    """One request, read and allowed."""

    request: Request
    services: Services
    identity: Identity
    world: World
    """The tenant's."""
    path: Mapping[str, str]
    body: Body
    query: Query

    @property
    def traceparent(self) -> str:
        """Of the span on whose behalf it is asked (W3C Trace Context); empty: of none."""
        return self.request.headers.get("traceparent", "")


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that goes on: pieces as they come. Closing the iterator is what a disconnection does."""

    pieces: AsyncGenerator[bytes]
    media: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    over: Callable[[], None] = lambda: None
    """Called once, however it ends, also before its first piece."""


Answer: TypeAlias = "msgspec.Struct | Response | Streamed | None"
"""A struct is JSON; None is an answer without content (204)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked."""

    method: Method
    path: str
    """With `{name}` for what differs."""
    answer: Callable[[Call[Any, Any]], Awaitable[Answer]]
    """Its name is the operation's id, its docstring what the OpenAPI says of it."""
    scope: Scope | None
    """What who asks must have; None: anybody may ask, and `Call.identity` is nobody's."""
    returns: type[msgspec.Struct] | None = None
    """What the JSON of a success is; None: it has none, or is of another `media`."""
    status: int = 200
    body: type[msgspec.Struct] = Nothing
    query: type[msgspec.Struct] = Nothing
    media: str = "application/json"
    most_bytes: int = BODY_BYTES
    """Of the body: more is 413."""
    fails: Sequence[int] = ()
    """Statuses beside those that its scope, path, query and body bring about (400 401 403 404 408 413 429 503)."""
