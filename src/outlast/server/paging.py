"""What a session has shown, read in pages, and where its turns stand in its log."""

from typing import Final

import msgspec

from outlast.fold import records_of
from outlast.records import CallIntent, CallOutcome, CallStarted, TurnOpened, TurnParked, TurnSettled
from outlast.records.events import Event
from outlast.watch import faces, of_turn
from outlast.world import Cursor, SessionHead, World

COMMITS: Final = 64
"""Read at once."""
PROBED: Final = 8
"""Read at once where a turn is looked for: most commits have a record of one."""
WITHIN: Final = (TurnOpened, CallIntent, CallStarted, CallOutcome, TurnParked, TurnSettled)
"""Records that stand between the beginning and the end of their turn, and nowhere else."""


class Events(msgspec.Struct, frozen=True):
    """Some of what a session has shown."""

    events: list[Event]
    """In order. The text of calls that are open is not among it: it is shown to those who follow, and what a call ended
    with says it whole."""
    next: str
    """The cursor to go on from. Fewer events than were asked for: there are no more now."""


async def page_of(world: World, head: SessionHead, after: Cursor, limit: int, turn: int = 0) -> Events:
    """At most `limit` committed events behind a cursor.

    Args:
        head: of the session; later commits are not read.
        turn: only those of a turn, to its end; 0: all.
    """
    found: list[Event] = []
    belongs = of_turn(turn)
    place = after
    seq = max(0, after.seq - 1)
    while seq < head.seq:
        for commit in await world.commits(head.session, seq, min(COMMITS, head.seq - seq)):
            seq = commit.header.seq
            for event in faces(head.session, commit, after.index + 1 if seq == after.seq else 0):
                place = Cursor.parse(event.cursor)
                if event.kind != "hidden" and (not turn or belongs(event)):
                    found.append(event)
                ended = turn and event.kind == "turn.settled" and event.turn == turn
                if ended or len(found) == limit:
                    return Events(found, event.cursor)
    return Events(found, str(place))


async def opening_of(world: World, head: SessionHead, turn: int) -> Cursor | None:
    """The place at which a turn was opened; None if none has been. Reads some commits of a log, however long it is."""
    return await _found(world, head, TurnOpened, turn)


async def settling_of(world: World, head: SessionHead, turn: int) -> Cursor | None:
    """The place at which a turn was settled; None while it is open or yet to come."""
    return await _found(world, head, TurnSettled, turn)


async def _found(
    world: World, head: SessionHead, kind: type[TurnOpened | TurnSettled], turn: int
) -> Cursor | None:
    seq = await _first(world, head, 2 * turn + (kind is TurnSettled))
    if seq is None:
        return None
    [commit] = await world.commits(head.session, seq - 1, 1)
    for at, record in enumerate(records_of(head.session, commit)):
        if isinstance(record, kind) and record.turn == turn:
            return Cursor(seq, at)
    return None


async def _first(world: World, head: SessionHead, wanted: int) -> int | None:
    """The first commit that is as far as `wanted` (`_reached`), found by halving."""
    low, high = 1, head.seq
    best: int | None = None
    while low <= high:
        middle = (low + high) // 2
        found = await _reached(world, head, middle, high)
        if found is None:
            high = middle - 1
        elif found[1] >= wanted:
            best, high = found[0], middle - 1
        else:
            low = found[0] + 1
    return best


async def _reached(world: World, head: SessionHead, seq: int, last: int) -> tuple[int, int] | None:
    """Of the commits from `seq` to `last`, the first with a record of a turn, and how far it is.

    That is twice the number of the turn, and one more if it is settled; it never falls along a log.
    """
    after = seq - 1
    while after < last:
        for commit in await world.commits(head.session, after, min(PROBED, last - after)):
            after = commit.header.seq
            far = [
                2 * record.turn + isinstance(record, TurnSettled)
                for record in records_of(head.session, commit)
                if isinstance(record, WITHIN)
            ]
            if far:
                return after, max(far)
    return None
