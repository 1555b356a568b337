"""Turns and calls of a session, from its log, and the bytes that payloads name."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Final

import anyio
import msgspec
from starlette.responses import Response

from outlast.attaching import image_type
from outlast.errors import BadInput, BlobUnknown, NotFound, TurnUnknown
from outlast.fold import records_of
from outlast.records import (
    AnyRecord,
    Attached,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Decided,
    Payload,
    TurnOpened,
    TurnSettled,
    Usage,
    Verdict,
)
from outlast.records.payload import EMPTY
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.server.routes.sessions import session_of
from outlast.session import Session
from outlast.squeezing import unsqueeze
from outlast.world import Cursor

WAIT_S: Final = 60.0
_REF_CHARS: Final = 64
Seq = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class From(msgspec.Struct, frozen=True):
    """Where to begin."""

    after: Seq = 0
    """The number of a commit: what it and those before it hold is left out."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class Wait(msgspec.Struct, frozen=True):
    """Whether to wait for the end."""

    wait_s: Annotated[float, msgspec.Meta(ge=0, le=WAIT_S)] = 0.0


class TurnView(msgspec.Struct, frozen=True):
    """A turn."""

    turn: int
    input: str
    status: str
    """`open`, or how it ended: `done`, `failed`, `cancelled`."""
    prompt: Payload
    attachments: tuple[Attached, ...]
    """Files that came with it; their bytes are blobs of the session."""
    result: Payload
    error: str
    usage: Usage
    opened_at_s: float
    settled_at_s: float
    seq: int
    """The number of the commit that opened it."""


class Turns(msgspec.Struct, frozen=True):
    """Some turns, in their order."""

    turns: list[TurnView]
    next: int | None
    """The `after` of the next page; null at the end."""


class CallDetail(msgspec.Struct, frozen=True):
    """Everything that the log says of a call."""

    call: int
    turn: int
    lane: str
    kind: str
    name: str
    policy: str
    harness_id: str
    asked_by: int
    arguments: Payload
    opened_at_s: float
    begun: int
    """How often it was let go: more than once where an attempt was lost."""
    witness: Payload
    verdict: str
    note: str
    ruling: str
    decided_by: str
    retracted: int
    """How often what it had shown was void."""
    status: str
    """`open`, or how it ended."""
    result: Payload
    usage: Usage
    duration_s: float
    settled_at_s: float


async def list_turns(call: Call[Nothing, From]) -> Turns:
    """List the turns of a session, oldest first, with how each ended."""
    session, query = await session_of(call), call.query
    found: dict[int, TurnView] = {}
    async with aclosing(_records(session, query.after)) as records:
        async for seq, record in records:
            if isinstance(record, TurnOpened):
                if len(found) == query.limit:
                    return Turns(list(found.values()), seq - 1)
                found[record.turn] = _opened(record, seq)
            elif isinstance(record, TurnSettled) and record.turn in found:
                found[record.turn] = _settled(found[record.turn], record)
    return Turns(list(found.values()), None)


async def get_turn(call: Call[Nothing, Wait]) -> TurnView:
    """Show a turn and how it ended; with `wait_s`, wait for its end for so long."""
    session, turn = await session_of(call), _number(call.path["turn"])
    if call.query.wait_s:
        await _until_settled(call, session, turn)
    found: TurnView | None = None
    async with aclosing(_records(session, 0)) as records:
        async for seq, record in records:
            if isinstance(record, TurnOpened) and record.turn == turn:
                found = _opened(record, seq)
            elif isinstance(record, TurnSettled) and record.turn == turn and found is not None:
                return _settled(found, record)
    if found is None:
        raise TurnUnknown(session=session.id, turn=turn)
    return found


async def get_call(call: Call[Nothing, From]) -> CallDetail:
    """Show everything that the log says of a call. `after` a commit before its intent saves reading what is older."""
    session, number = await session_of(call), _number(call.path["call"])
    about: list[AnyRecord] = []
    async with aclosing(_records(session, call.query.after)) as records:
        async for _, record in records:
            if getattr(record, "call", 0) == number:
                about.append(record)
                if isinstance(record, CallOutcome):
                    break
    intent = next((one for one in about if isinstance(one, CallIntent)), None)
    if intent is None:
        raise NotFound(detail=f"Session {session.id} has no call {number} behind commit {call.query.after}.")
    return _detail(intent, about)


async def get_blob(call: Call[Nothing, Nothing]) -> Response:
    """Give the bytes that a payload or an attachment names as its `ref`: of a payload its JSON.

    Bytes that are a PNG, JPEG, GIF or WebP image come as that; all else is for no browser to show.
    """
    session, name = await session_of(call), call.path["ref"]
    if len(name) > _REF_CHARS:
        raise NotFound(detail="There are no such bytes.")
    try:
        found = await call.world.get_many(session.id, [name])
    except BlobUnknown:
        raise NotFound(detail=f"Session {session.id} names no such bytes.") from None
    data = unsqueeze(found[name])
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    if kind := image_type(data):
        return Response(data, headers={**headers, "content-disposition": "inline"}, media_type=kind)
    headers["content-disposition"] = "attachment"
    return Response(data, headers=headers, media_type="application/octet-stream")


async def _records(session: Session, after: int) -> AsyncGenerator[tuple[int, AnyRecord]]:
    """Every record behind a commit, with the number of its own."""
    while commits := await session.world.commits(session.id, after, 500):
        for commit in commits:
            after = commit.header.seq
            for record in records_of(session.id, commit):
                yield after, record
        await anyio.lowlevel.checkpoint()  # a long log must not keep others waiting


async def _until_settled(call: Call[Nothing, Wait], session: Session, turn: int) -> None:
    state = await session.state()
    is_over = 0 < turn < state.next_turn and (state.turn is None or state.turn.turn != turn)
    if is_over:
        return
    after = Cursor.behind(state.seq)
    with anyio.move_on_after(call.query.wait_s):
        follow = call.services.hub.follow(call.identity.tenant, session.id, after)
        async with aclosing(follow) as shown:
            async for event in shown:
                if event.kind == "turn.settled" and event.turn == turn:
                    return


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 16):
        raise BadInput(detail=f"{text[:40]!r} is no number of a turn or a call.")
    return int(text)


def _opened(record: TurnOpened, seq: int) -> TurnView:
    return TurnView(
        turn=record.turn,
        input=record.input,
        status="open",
        prompt=record.prompt,
        attachments=record.attachments,
        result=EMPTY,
        error="",
        usage=Usage(),
        opened_at_s=record.at_s,
        settled_at_s=0.0,
        seq=seq,
    )


def _settled(view: TurnView, record: TurnSettled) -> TurnView:
    return msgspec.structs.replace(
        view,
        status=record.status,
        result=record.result,
        error=record.error,
        usage=record.usage or Usage(),
        settled_at_s=record.at_s,
    )


def _detail(intent: CallIntent, about: Sequence[AnyRecord]) -> CallDetail:
    started = [one for one in about if isinstance(one, CallStarted)]
    verdict = next((one for one in reversed(about) if isinstance(one, Verdict)), None)
    decided = next((one for one in reversed(about) if isinstance(one, Decided)), None)
    outcome = next((one for one in about if isinstance(one, CallOutcome)), None)
    return CallDetail(
        call=intent.call,
        turn=intent.turn,
        lane=intent.lane,
        kind=intent.kind,
        name=intent.name,
        policy=intent.policy,
        harness_id=intent.harness_id,
        asked_by=intent.asked_by,
        arguments=intent.arguments,
        opened_at_s=intent.at_s,
        begun=len(started),
        witness=started[-1].witness if started else EMPTY,
        verdict="" if verdict is None else verdict.verdict,
        note="" if verdict is None else verdict.note,
        ruling="" if decided is None else decided.ruling,
        decided_by="" if decided is None else decided.by,
        retracted=sum(isinstance(one, CallRetracted) for one in about),
        status="open" if outcome is None else outcome.status,
        result=EMPTY if outcome is None else outcome.result,
        usage=Usage() if outcome is None else outcome.usage or Usage(),
        duration_s=0.0 if outcome is None else outcome.duration_s,
        settled_at_s=0.0 if outcome is None else outcome.at_s,
    )


_SESSION: Final = "/v1/sessions/{session}"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", f"{_SESSION}/turns", list_turns, Scope.READ, Turns, query=From),
    Operation("GET", f"{_SESSION}/turns/{{turn}}", get_turn, Scope.READ, TurnView, query=Wait),
    Operation("GET", f"{_SESSION}/calls/{{call}}", get_call, Scope.READ, CallDetail, query=From),
    Operation("GET", f"{_SESSION}/blobs/{{ref}}", get_blob, Scope.READ, media="application/octet-stream"),
)
