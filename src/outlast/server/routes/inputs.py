"""What comes from outside into a session: each is durable before it is answered."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from outlast.attaching import COUNT_LIMIT, TOTAL_LIMIT, Attachment
from outlast.deciding import Word, decide
from outlast.errors import NotFound, Refused, TurnUnknown
from outlast.fold import records_of
from outlast.records import TurnOpened
from outlast.records.kinds import Ruling
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.server.routes.sessions import Priority, session_of
from outlast.session import Session

PROMPT_BYTES: Final = 4 * 1024 * 1024 + TOTAL_LIMIT * 4 // 3
"""Of a prompt with all that may come with it, in base 64."""
Own = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
"""The caller's own id of an input: the same id and content again is the same input."""
Text = Annotated[str, msgspec.Meta(min_length=1)]
Number = Annotated[int, msgspec.Meta(ge=1)]


class PromptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Comes with a prompt, as `Attachment` does: its bytes stand here, and nothing is fetched."""

    base64: bytes
    name: str = ""
    media_type: str = ""
    """Empty: as its first bytes or its name say."""


class Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begins a turn."""

    text: Text
    id: Own | None = None
    priority: Priority | None = None
    busy: Literal["queue", "refuse"] = "queue"
    """While another turn is open or waits: wait behind it, or be refused."""
    attachments: Annotated[list[PromptFile], msgspec.Meta(max_length=COUNT_LIMIT)] = []
    """Files for the model. A turn whose harness cannot take one of them fails before it begins."""


class Steer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tells the running turn something."""

    text: Text
    id: Own | None = None


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ends a turn."""

    turn: Number | None = None
    """Only if this is the open one; null: whichever is."""
    reason: str = ""
    id: Own | None = None


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word about a call that is in doubt, that wants to be allowed, or that asks."""

    call: Number
    ruling: Ruling
    value: Any = None
    """With `done` the result or the answer; with `failed` and `deny` the reason, a text."""
    for_turn: bool = False
    """With `allow`: the same call may also run again in this turn."""
    ask: str = ""
    """Which asking is meant, as `awaited` names it: refused where another stands."""
    id: Own | None = None


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tells whoever waits for it, now or later."""

    name: Text
    value: Any = None
    failed: bool = False
    """What is waited for came to nothing, and the value says why."""
    id: Own | None = None


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lets a turn go on that is stuck, diverged or over budget."""

    turn: Number | None = None
    id: Own | None = None


class Taken(msgspec.Struct, frozen=True):
    """The input is durable."""

    session: str
    input: str
    turn: int | None = None
    """Where it is about one."""


class Input(msgspec.Struct, frozen=True):
    """An input, and what has become of it."""

    input: str
    consumed_by: int | None
    """The number of the commit that took it out of the inbox; null: it waits."""
    turn: int | None
    """Of a prompt: the turn that it became."""


async def send_prompt(call: Call[Prompt, Nothing]) -> Taken:
    """Begin a turn with a prompt. It is durable when this answers; a worker carries it out."""
    session, body = await session_of(call), call.body
    files = [Attachment(one.base64, one.name, one.media_type) for one in body.attachments]
    turn = await session.send(
        body.text,
        id=body.id,
        priority=body.priority,
        busy=body.busy,
        traceparent=call.traceparent,
        attachments=files,
    )
    return await _taken(call, turn.input)


async def steer(call: Call[Steer, Nothing]) -> Taken:
    """Tell the running turn something. If it never takes it, it is the next prompt."""
    taken = await (await session_of(call)).steer(call.body.text, id=call.body.id)
    return await _taken(call, taken)


async def cancel(call: Call[Cancel, Nothing]) -> Taken:
    """End the open turn, also one that is stuck or diverged."""
    session, body = await session_of(call), call.body
    turn = await _open_turn(session, body.turn)
    await session.cancel(turn, reason=body.reason, id=body.id)
    return await _taken(call, body.id or f"cancel-{turn}", turn)


async def decide_call(call: Call[Decision, Nothing]) -> Taken:
    """Decide about a call, or answer its question. It counts once; a stale decision is refused."""
    session, body = await session_of(call), call.body
    word = Word(body.ruling, body.value, call.identity.name, body.for_turn, body.ask, body.id)
    taken = await decide(session, body.call, word)
    call.services.audit(
        call.identity,
        "decide",
        {"session": session.id, "call": body.call, "ruling": body.ruling, "input": taken},
    )
    return await _taken(call, taken)


async def signal(call: Call[Signal, Nothing]) -> Taken:
    """Tell whoever waits for a signal that it has happened; it is kept until something waits for it."""
    session, body = await session_of(call), call.body
    return await _taken(call, await session.signal(body.name, body.value, failed=body.failed, id=body.id))


async def retry(call: Call[Retry, Nothing]) -> Taken:
    """Let the open turn go on, which is stuck, diverged or over budget, its budgets whole again."""
    session, body = await session_of(call), call.body
    state = await session.state()
    turn = await _open_turn(session, body.turn)
    if state.turn is None or state.turn.parked is None or state.turn.parked.why == "decision":
        raise Refused(detail=f"Turn {turn} of {session.id} is not stuck, diverged or over budget.")
    taken = body.id or f"retry-{turn}-{state.seq}"
    await session.retry(turn, by=call.identity.name, id=taken)
    call.services.audit(call.identity, "retry", {"session": session.id, "turn": turn, "input": taken})
    return await _taken(call, taken, turn)


async def get_input(call: Call[Nothing, Nothing]) -> Input:
    """Show what has become of an input: of a prompt, which turn."""
    session, name = await session_of(call), call.path["input"]
    found = await call.world.find_input(session.id, name)
    if found is None:
        raise NotFound(detail=f"Session {session.id} was given no input {name!r}.")
    return Input(name, found.consumed_by, await _turn_of(session, name, found.consumed_by))


async def _turn_of(session: Session, name: str, consumed_by: int | None) -> int | None:
    """The turn that the prompt `name` became, which was opened at the earliest by the commit that consumed it."""
    if consumed_by is None:
        return None
    after = consumed_by - 1
    while commits := await session.world.commits(session.id, after):
        for commit in commits:
            after = commit.header.seq
            for record in records_of(session.id, commit):
                if isinstance(record, TurnOpened) and record.input == name:
                    return record.turn
    return None


async def _open_turn(session: Session, turn: int | None) -> int:
    """Raises TurnUnknown: it is not the open one, or none is."""
    state = (await session.state()).turn
    if state is None or turn not in {None, state.turn}:
        raise TurnUnknown(session=session.id, turn="open" if turn is None else f"{turn} that is open")
    return state.turn


async def _taken(call: Call[Any, Any], taken: str, turn: int | None = None) -> Taken:
    session = call.path["session"]
    await call.services.woken(call.identity.tenant, session)
    return Taken(session, taken, turn)


_SESSION: Final = "/v1/sessions/{session}"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        "POST",
        f"{_SESSION}/turns",
        send_prompt,
        Scope.WRITE,
        Taken,
        202,
        Prompt,
        most_bytes=PROMPT_BYTES,
        fails=(409,),
    ),
    Operation("POST", f"{_SESSION}/steers", steer, Scope.WRITE, Taken, 202, Steer, fails=(409,)),
    Operation("POST", f"{_SESSION}/cancels", cancel, Scope.WRITE, Taken, 202, Cancel, fails=(409,)),
    Operation("POST", f"{_SESSION}/decisions", decide_call, Scope.DECIDE, Taken, 202, Decision, fails=(409,)),
    Operation("POST", f"{_SESSION}/signals", signal, Scope.WRITE, Taken, 202, Signal, fails=(409,)),
    Operation("POST", f"{_SESSION}/retries", retry, Scope.DECIDE, Taken, 202, Retry, fails=(409,)),
    Operation("GET", f"{_SESSION}/inputs/{{input}}", get_input, Scope.READ, Input),
)
