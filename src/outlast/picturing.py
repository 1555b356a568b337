"""Reads the picture of a session (`outlast.timeline`) out of its log, and what that log takes up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread

from outlast.fold import records_of
from outlast.records.events import face
from outlast.session import Session
from outlast.timeline import LogCost, Timeline
from outlast.unfolding import Unfolding
from outlast.world import Commit

PAGE: Final = 500
"""Commits that are read at once."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A session as its log tells it."""

    timeline: Timeline
    log: LogCost
    by_turn: dict[int, LogCost]
    """What came while each turn was open."""


@dataclass
class _Reading:
    session: str
    unfolding: Unfolding
    log: LogCost = field(default_factory=LogCost)
    by_turn: dict[int, LogCost] = field(default_factory=dict[int, LogCost])

    def take(self, page: Sequence[Commit]) -> None:
        for commit in page:
            before = self.unfolding.open_turn
            for at, record in enumerate(records_of(self.session, commit)):
                self.unfolding.apply(face(record, f"{commit.header.seq}.{at}", commit.header.fence))
            self.log = self.log.plus(commit)
            turn = self.unfolding.open_turn or before
            if turn:
                self.by_turn[turn] = self.by_turn.get(turn, LogCost()).plus(commit)


async def picture_of(session: Session, *, details: int | None = None) -> Picture:
    """The picture of a session, as far as its log goes now. Its events are folded beside the event loop.

    Args:
        details: the turn whose calls it has; 0 for the newest, None for all.

    Raises:
        SessionUnknown, SessionErased, FormatTooNew, LogBroken, WorldUnavailable
    """
    reading = _Reading(session.id, Unfolding(details=details))
    after = 0
    while page := await session.world.commits(session.id, after, PAGE):
        after = page[-1].header.seq
        await anyio.to_thread.run_sync(reading.take, page)
    return Picture(reading.unfolding.timeline(), reading.log, reading.by_turn)
