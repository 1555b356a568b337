"""The picture of a session: turns, attempts, lanes, calls, and what the log saved against what it takes up."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from outlast.errors import TurnUnknown
from outlast.picturing import picture_of
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.session import Session
from outlast.timeline import AttemptBar, LogCost, Saved, TurnBar

TURNS: Final = 100
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Wanted(msgspec.Struct, frozen=True):
    """Which turns."""

    turn: Number = 0
    """The turn whose calls are wanted; 0: the newest."""
    before: Number = 0
    """List only turns below this number; 0: up to the newest."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=TURNS)] = TURNS
    """List at most so many turns."""


class Drawn(msgspec.Struct, frozen=True):
    """The picture of a session. What follows `cursor` carries it on."""

    session: str
    cursor: str
    at_s: float
    """The newest moment that the log tells."""
    behind_s: float
    """By how much the clock of the newest attempt's worker is behind those before it."""
    attempt: AttemptBar | None
    """The newest attempt, also while no turn is open."""
    turn: TurnBar | None
    """The turn that was asked for, with its lanes and calls; null in a session that has had none."""
    turns: tuple[TurnBar, ...]
    """Turns without their calls, the newest first."""
    earlier: int
    """How many there are before these."""
    saved: Saved
    """Of the session."""
    log: LogCost
    """Of the session."""
    turn_log: LogCost
    """Of the turn: what came while it was open."""
    stored_bytes: int
    """What the session takes up in its store: its log, what it names, and what waits for it."""


async def get_timeline(call: Call[Nothing, Wanted]) -> Drawn:
    """Draw a session: its turns, and of one of them the attempts, lanes and calls.

    `saved` is what need not be done again each time that another worker went on with an open turn: its finished model
    calls with their tokens and their money at list price, and the seconds that they and the tools took.
    """
    session = await Session.find(call.world, call.path["session"], clock=call.services.clock)
    query = call.query
    picture = await picture_of(session, details=query.turn)
    timeline = picture.timeline
    found = timeline.find(query.turn) if query.turn else next(iter(timeline.turns[-1:]), None)
    if query.turn and found is None:
        raise TurnUnknown(session=session.id, turn=query.turn)
    listed = [one for one in timeline.turns if not query.before or one.turn < query.before]
    shown = listed[-query.limit :]
    return Drawn(
        session.id,
        timeline.cursor,
        timeline.at_s,
        timeline.behind_s,
        timeline.attempt,
        found,
        tuple(replace(one, lanes=()) for one in reversed(shown)),
        len(listed) - len(shown),
        timeline.saved,
        picture.log,
        LogCost() if found is None else picture.by_turn.get(found.turn, LogCost()),
        (await call.world.stored(session.id)).bytes,
    )


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/v1/sessions/{session}/timeline", get_timeline, Scope.READ, Drawn, query=Wanted),
)
