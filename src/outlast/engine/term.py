"""How long a worker may go on: until a time at which somebody ends its process, and how near that is.

Invariants, for a worker that has such a time:

* In the reserve before it no model call begins, nor a tool whose time-out does not fit.
* What runs goes on. As soon as nothing of a turn runs and it can begin nothing more, it is handed over.
* A moment before the time everything is handed over, whatever runs: what ended is settled, the rest is open, and the
  next worker deals with it as after a crash.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from outlast.clock import Clock

RESERVE_S: Final = 30.0
"""Of the time that is left, how much is kept for ending in good order."""
LAST_S: Final = 2.0
"""How long before the time everything is handed over: for a commit on a slow store."""


@dataclass(slots=True)
class Term:
    """When a worker must have ended; it may be told while the worker works."""

    clock: Clock
    end_s: float | None = None
    """By `Clock.elapsed`; None never."""
    reserve_s: float = RESERVE_S

    def end_in(self, seconds: float, reserve_s: float | None = None) -> None:
        """It ends `seconds` from now; of two ends the earlier counts.

        The reserve is `RESERVE_S`, and a quarter of a time that is short.
        """
        end_s = self.clock.elapsed() + seconds
        if self.end_s is None or end_s < self.end_s:
            self.end_s = end_s
            self.reserve_s = min(RESERVE_S, seconds / 4) if reserve_s is None else reserve_s

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None for ever."""
        return None if self.end_s is None else self.end_s - self.clock.elapsed()

    @property
    def closing(self) -> bool:
        """It is in the reserve."""
        left_s = self.left_s
        return left_s is not None and left_s <= self.reserve_s

    @property
    def last_s(self) -> float:
        """How long before its end everything is handed over."""
        return min(LAST_S, self.reserve_s / 4)

    def fits(self, needs_s: float | None) -> bool:
        """Whether something may begin that takes up to `needs_s` seconds; None: nobody knows how long."""
        left_s = self.left_s
        if left_s is None or left_s > self.reserve_s:
            return True
        return needs_s is not None and needs_s <= left_s - self.last_s


class Advanced(msgspec.Struct, frozen=True):
    """How far a worker came in its time."""

    again: bool
    """There is more to do at once, and nobody else is at it."""
    wake_at_s: float | None
    """Unix time at which there will be more to do; None when only an input can bring it about."""
    status: str
    """How the session stands, in short."""
