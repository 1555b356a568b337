"""Sessions: list, open, look at."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from outlast.awaited import Awaited, awaited_by
from outlast.errors import BadInput
from outlast.records import Usage
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.session import Session
from outlast.state import AttemptState, TurnState
from outlast.world import Cursor, SessionHead
from outlast.world.checks import PRIORITY_LIMIT

PAGE: Final = 50
SCANNED: Final = 1_000
"""Sessions that one request looks through for those that it wants."""
State: TypeAlias = Literal["open", "parked", "idle"]
Count = Annotated[int, msgspec.Meta(ge=1, le=200)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Priority = Annotated[int, msgspec.Meta(ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT)]


class Sought(msgspec.Struct, frozen=True):
    """Which sessions."""

    q: Word = ""
    """Stands in the id, the agent, the status or a label."""
    agent: Word = ""
    state: State | None = None
    """`open`: a turn is open; `parked`: it waits for a person; `idle`: none is open."""
    label: tuple[Word, ...] = ()
    """Each `name=value`."""
    after: Word = ""
    """The `next` of the page before."""
    limit: Count = PAGE


class Row(msgspec.Struct, frozen=True):
    """A session, as a list shows it."""

    session: str
    agent: str
    status: str
    turn_open: bool
    parked: bool
    worker: str | None
    waiting_inputs: int
    wake_at_s: float | None
    created_at_s: float
    updated_at_s: float
    labels: dict[str, str]
    priority: int
    seq: int
    fence: int
    placement: str


class Rows(msgspec.Struct, frozen=True):
    """Some sessions, newest change first."""

    sessions: list[Row]
    next: str | None
    """Where the next page begins; null at the end. A page may hold fewer than asked for, or none, and have a next."""


class Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Opens a session."""

    session: str
    """Its id, `[a-z0-9][a-z0-9._-]{0,127}`: the same id again finds the same session."""
    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """One that a worker offers, by its name."""
    workspace: Word = ""
    """One of those that the server offers, by its name; empty: the agent's own, else an empty directory."""
    settings: dict[str, Any] = {}
    labels: dict[Word, Word] = {}
    priority: Priority = 0


class Attempt(msgspec.Struct, frozen=True):
    """One worker's try at the open turn."""

    fence: int
    worker: str
    at_s: float
    settled: int
    ended: str
    versions: dict[str, str]


class OpenTurn(msgspec.Struct, frozen=True):
    """The open turn."""

    turn: int
    input: str
    at_s: float
    attempts: list[Attempt]
    calls: int
    open_calls: list[int]
    parked: str
    """Why it waits for a person; empty where it does not."""
    usage: Usage


class View(msgspec.Struct, frozen=True):
    """A session as it stands."""

    session: str
    head: Row
    cwd: str
    workspace: dict[str, Any]
    settings: dict[str, Any]
    parent: str
    """The session that spawned it."""
    forked_from: str
    forked_at: int
    usage: Usage
    open_turn: OpenTurn | None
    turns: int
    """How many it has had."""
    queued: int
    """Prompts that wait in its log."""
    documents: dict[str, int]
    """By name, the version."""
    cursor: str
    """Behind all that this says: what is followed from here on is new."""


class Waiting(msgspec.Struct, frozen=True):
    """What the open turn waits for: what only a person can do first."""

    awaits: list[Awaited]


async def list_sessions(call: Call[Nothing, Sought]) -> Rows:
    """List the sessions, newest change first."""
    sought = call.query
    labels = dict(_pair(text) for text in sought.label)
    found: list[Row] = []
    after: str | None = sought.after or None
    scanned = 0
    while True:
        page = await call.world.list(after=after, limit=min(200, sought.limit), labels=labels or None)
        scanned += len(page.sessions)
        found += [row_of(head) for head in page.sessions if _fits(head, sought)]
        after = page.next
        if after is None or scanned >= SCANNED or len(found) >= sought.limit or not _is_narrow(sought):
            return Rows(found, after)


async def open_session(call: Call[Open, Nothing]) -> View:
    """Open a session, or find it if it is there already for this agent."""
    body = call.body
    agent = call.services.agents.get(body.agent, body.agent)
    workspace = call.services.workspaces.get(body.workspace)
    if body.workspace and workspace is None:
        known = ", ".join(sorted(call.services.workspaces)) or "none"
        raise BadInput(detail=f"There is no workspace called {body.workspace!r} here; there is {known}.")
    session = await Session.open(
        call.world,
        body.session,
        agent=agent,
        workspace=workspace,
        settings=body.settings or None,
        labels=body.labels or None,
        priority=body.priority,
        clock=call.services.clock,
    )
    return await view_of(session)


async def get_session(call: Call[Nothing, Nothing]) -> View:
    """Show how a session stands."""
    return await view_of(await session_of(call))


async def get_awaited(call: Call[Nothing, Nothing]) -> Waiting:
    """Show what the open turn waits for: what would happen, what is known of it, and what may be decided."""
    session = await session_of(call)
    return Waiting(await awaited_by(session, await session.state()))


async def session_of(call: Call[Any, Any]) -> Session:
    """The session that the path names, in the tenant of who asks.

    Raises:
        BadSessionId, SessionUnknown, SessionErased
    """
    name = call.path["session"]
    head = await Session.find(call.world, name, clock=call.services.clock)
    if not call.services.agents:
        return head
    agent = call.services.agents.get((await head.head()).agent)
    return Session(call.world, name, call.services.clock, None if agent is None else agent.documents)


def row_of(head: SessionHead) -> Row:
    """A session, as a list shows it."""
    return Row(
        head.session,
        head.agent,
        head.status,
        head.turn_open,
        head.parked,
        head.worker,
        head.waiting_inputs,
        head.wake_at_s,
        head.created_at_s,
        head.updated_at_s,
        dict(head.labels),
        head.priority,
        head.seq,
        head.fence,
        head.placement,
    )


async def view_of(session: Session) -> View:
    """A session as it stands."""
    head, state = await session.head(), await session.state()
    opened = state.opened
    return View(
        session.id,
        row_of(head),
        "" if opened is None else opened.cwd,
        {} if opened is None else opened.workspace,
        {} if opened is None else opened.settings,
        "" if opened is None or opened.parent is None else opened.parent.session,
        "" if state.forked is None else state.forked.source,
        0 if state.forked is None else state.forked.at,
        state.usage,
        None if state.turn is None else _open_turn(state.turn),
        state.next_turn - 1,
        len(state.queue),
        {name: there.version for name, there in state.documents.items()},
        await _behind(session, state.seq),
    )


async def _behind(session: Session, seq: int) -> str:
    """The cursor behind the last event of a commit."""
    commits = await session.world.commits(session.id, seq - 1, 1)
    return str(Cursor(seq, commits[0].header.width - 1 if commits else 0))


def _open_turn(turn: TurnState) -> OpenTurn:
    return OpenTurn(
        turn.turn,
        turn.input,
        turn.at_s,
        [_attempt(one) for one in turn.attempts],
        len(turn.calls) + turn.past,
        [call.intent.call for call in turn.open_calls()],
        "" if turn.parked is None else turn.parked.why,
        turn.usage,
    )


def _attempt(one: AttemptState) -> Attempt:
    return Attempt(one.fence, one.worker, one.at_s, one.settled, one.ended, one.versions)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(detail=f"{text[:60]!r} is no label. Write it as name=value.")
    return name, value


def _is_narrow(sought: Sought) -> bool:
    return bool(sought.q or sought.agent or sought.state)


def _fits(head: SessionHead, sought: Sought) -> bool:
    if sought.agent and head.agent != sought.agent:
        return False
    if sought.state is not None and not _stands(head, sought.state):
        return False
    if not sought.q:
        return True
    word = sought.q.casefold()
    texts = (head.session, head.agent, head.status, *head.labels.keys(), *head.labels.values())
    return any(word in text.casefold() for text in texts)


def _stands(head: SessionHead, state: State) -> bool:
    match state:
        case "open":
            return head.turn_open
        case "parked":
            return head.parked
        case "idle":
            return not head.turn_open


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/v1/sessions", list_sessions, Scope.READ, Rows, query=Sought),
    Operation("POST", "/v1/sessions", open_session, Scope.WRITE, View, body=Open, fails=(404, 409)),
    Operation("GET", "/v1/sessions/{session}", get_session, Scope.READ, View),
    Operation("GET", "/v1/sessions/{session}/awaited", get_awaited, Scope.READ, Waiting),
)
