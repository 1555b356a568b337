"""Watching: the events of a session, of one of its turns, and what changes in the list of sessions."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response

from outlast.codec import read_input
from outlast.errors import BadInput, TurnUnknown, WorldUnavailable
from outlast.ids import check_session_id
from outlast.records import Prompt, Steer
from outlast.server.access import Scope
from outlast.server.feeds import Hub
from outlast.server.operations import Answer, Call, Nothing, Operation, Streamed
from outlast.server.paging import Events, opening_of, page_of, settling_of
from outlast.server.routes.sessions import row_of
from outlast.server.streams.frames import HEARTBEAT, retry_frame, value_frame
from outlast.server.streams.sse import RETRY_MS, Wanted, plain_stream
from outlast.session import Session
from outlast.world import START, Cursor, SessionHead, World

LIMIT: Final = 100
MOST: Final = 1_000
STREAM: Final = "text/event-stream"
HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""A proxy that gathers what it passes on (nginx does) would hold events back."""


class From(msgspec.Struct, frozen=True):
    """Where reading begins."""

    after: Annotated[str, msgspec.Meta(max_length=40)] = ""
    """The cursor of the last event that was seen; empty: from the beginning. The header `last-event-id`, which an
    `EventSource` sends when it comes back, goes before it."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = LIMIT
    """Of a page: the most events."""
    named: bool = False
    """Of a stream: each event also has its kind as its name, for `addEventListener`."""


async def get_events(call: Call[Nothing, From]) -> Answer:
    """Read or follow the events of a session.

    With `accept: text/event-stream` a stream without end: each event with its cursor as `id`, and a comment when
    nothing came for a while. Otherwise a page of what was committed.
    """
    session, after = check_session_id(call.path["session"]), _after(call)
    if not _streams(call):
        head = await call.world.get(session)
        _check_place(head, after)
        return await page_of(call.world, head, after, call.query.limit)
    with suppress(WorldUnavailable):
        # At any answer but a stream an EventSource gives up for good; the hub goes on when the World is back.
        _check_place(await call.world.get(session), after)
    return _streamed(plain_stream(call.services.hub, _wanted(call, session, after)))


async def get_turn_events(call: Call[Nothing, From]) -> Answer:
    """Read or follow the events of one turn, to its end.

    Also of one that waits behind others. A stream ends behind `turn.settled`; who comes back to it with that cursor
    gets 204, at which an `EventSource` stays away.
    """
    session, turn, after = check_session_id(call.path["session"]), _turn(call), _after(call)
    head = await call.world.get(session)
    _check_place(head, after)
    opened = await opening_of(call.world, head, turn)
    if opened is None:
        await _check_waits(call.world, session, turn)
    begin = max(after, Cursor.behind(head.seq if opened is None else opened.seq - 1))
    if not _streams(call):
        return await page_of(call.world, head, begin, call.query.limit, turn)
    settled = None if opened is None else await settling_of(call.world, head, turn)
    if settled is not None and after >= settled:
        return Response(status_code=204)
    return _streamed(plain_stream(call.services.hub, _wanted(call, session, begin, turn)))


async def get_changes(call: Call[Nothing, Nothing]) -> Answer:
    """Follow the list of sessions: how the newest stand, at once, then each that changes, as it stands then.

    Each is a session as `GET /v1/sessions` has it, or its id with `erased` for one that is no more. Several changes of
    one within a second come as one. Nothing is missed by coming back: a stream begins with how they stand then.
    """
    return _streamed(_changes(call.services.hub, call.identity.tenant))


async def _changes(hub: Hub, tenant: str) -> AsyncGenerator[bytes]:
    yield retry_frame(RETRY_MS)
    async with aclosing(hub.changes(tenant)) as changes:
        async for changed in changes:
            if changed is None:
                yield HEARTBEAT
                continue
            frames = [value_frame(row_of(head)) for head in changed.heads]
            frames += [value_frame({"session": name, "erased": True}) for name in changed.gone]
            yield b"".join(frames)


def _streamed(pieces: AsyncGenerator[bytes]) -> Streamed:
    return Streamed(pieces, STREAM, HEADERS)


def _streams(call: Call[Any, Any]) -> bool:
    return STREAM in call.request.headers.get("accept", "")


def _after(call: Call[Any, From]) -> Cursor:
    text = call.request.headers.get("last-event-id") or call.query.after
    return Cursor.parse(text) if text else START


def _check_place(head: SessionHead, after: Cursor) -> None:
    """Raises BadInput: the session has not come so far."""
    if after.seq > head.seq:
        raise BadInput(
            detail=f"The cursor {str(after)!r} is none of the session {head.session!r}, which has come to "
            f"{head.seq}.0. Use the cursor of an event of this session, or none to begin at the beginning."
        )


def _turn(call: Call[Any, Any]) -> int:
    text = call.path["turn"]
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text)):
        raise BadInput(detail=f"{text[:60]!r} is no turn. A turn is a number, from 1 on.")
    return int(text)


async def _check_waits(world: World, session: str, turn: int) -> None:
    """Raises TurnUnknown: nothing that waits can become this turn."""
    state = await (await Session.find(world, session)).state()
    inbox = await world.inputs(session)
    waiting = len(state.queue) + sum(isinstance(read_input(one.body), Prompt | Steer) for one in inbox)
    if turn >= state.next_turn + waiting:
        raise TurnUnknown(session=session, turn=turn)


def _wanted(call: Call[Any, From], session: str, after: Cursor, turn: int = 0) -> Wanted:
    return Wanted(call.identity.tenant, session, after, call.query.named, turn)


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/v1/sessions/{session}/events", get_events, Scope.READ, Events, query=From),
    Operation(
        "GET", "/v1/sessions/{session}/turns/{turn}/events", get_turn_events, Scope.READ, Events, query=From
    ),
    Operation("GET", "/v1/changes", get_changes, Scope.READ, media=STREAM),
)
