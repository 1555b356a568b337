"""The waterfall of a session that is watched: it grows with each event."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from outlast.cli.waterfall import waterfall
from outlast.clock import Clock
from outlast.records.events import Event
from outlast.timeline import Timeline, TurnBar
from outlast.unfolding import Unfolding
from outlast.world import Cursor

LEAST_S: Final = 0.25
SHARE: Final = 10
"""A drawing stands for so many times the time that it took: a turn of thousands of calls leaves time for others."""


class Drawing:
    """Draws the newest turn of a session.

    Args:
        after: the picture of what lies before the events that come.
        lines: print it as lines, also where no terminal is, whenever the turn comes to an end or stands still.
    """

    def __init__(self, clock: Clock, after: Timeline | None = None, *, lines: bool = False) -> None:
        self.lines = lines
        self._clock = clock
        self._unfolding = Unfolding(after, details=0)
        self._seen = Cursor.parse("0.0" if after is None else after.cursor)
        self._known = after is not None
        self._heard_s = clock.now()
        self._drawn: Sequence[Text] = ()
        self._made_s = self._stands_s = 0.0

    def apply(self, event: Event) -> None:
        """Take in one event; one that the picture already holds changes nothing."""
        if self._known and Cursor.parse(event.cursor) <= self._seen:
            return
        self._heard_s = self._clock.now()
        self._unfolding.apply(event)

    def now(self, width: int) -> Sequence[Text]:
        """As it stands, or stood a moment ago."""
        began_s = self._clock.elapsed()
        if not self._made_s or began_s - self._made_s >= self._stands_s:
            self._drawn = self.anew(width)
            self._made_s = self._clock.elapsed()
            self._stands_s = max(LEAST_S, SHARE * (self._made_s - began_s))
        return self._drawn

    def anew(self, width: int) -> Sequence[Text]:
        """As it stands."""
        turn = self._unfolding.newest
        if turn is None:
            return ()
        lines = waterfall(turn, self._until_s(turn), width)
        return [Text.assemble(*line, no_wrap=True, overflow="crop") for line in lines]

    def _until_s(self, turn: TurnBar) -> float:
        """Up to where open calls reach: the log's newest moment, and what has passed here since it came."""
        running = turn.status == "open" and not any(one.ended for one in turn.attempts[-1:])
        passed_s = max(0.0, self._clock.now() - self._heard_s) if running else 0.0
        return self._unfolding.at_s + passed_s
