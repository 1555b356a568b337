"""How often somebody may ask: a bucket of tokens for each of them, kept for those who asked lately."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from outlast.clock import Clock

_REMEMBERED: Final = 10_000
"""Whose buckets are kept: of one that is forgotten, the next is full. An attacker with more addresses than these has
other ways."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something may happen."""

    per_s: float
    """On average; 0: as often as anybody likes."""
    burst: float
    """At once, after a while of nothing."""


class Buckets:
    """One bucket for each name; a bucket fills at the rate and holds the burst."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._full: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """In how many seconds there is something in the bucket; 0.0 when there is."""
        level = self._level(name)
        return 0.0 if level >= 1.0 or not self._rate.per_s else (1.0 - level) / self._rate.per_s

    def take(self, name: str) -> float:
        """Take one. Returns 0.0, or in how many seconds there is one to take."""
        wait_s = self.wait_s(name)
        if not wait_s and self._rate.per_s:
            self._keep(name, self._level(name) - 1.0)
        return wait_s

    def reserve(self, name: str, most_s: float) -> float:
        """Take one that may not be there yet. Returns in how many seconds it is; above `most_s` it was not taken."""
        level = self._level(name) - 1.0
        wait_s = -level / self._rate.per_s if level < 0 and self._rate.per_s else 0.0
        if wait_s <= most_s and self._rate.per_s:
            self._keep(name, level)
        return wait_s

    def _keep(self, name: str, level: float) -> None:
        self._full[name] = (level, self._clock.elapsed())
        self._full.move_to_end(name)
        if len(self._full) > _REMEMBERED:
            self._full.popitem(last=False)

    def _level(self, name: str) -> float:
        level, at_s = self._full.get(name, (self._rate.burst, 0.0))
        if name not in self._full:
            return level
        return min(self._rate.burst, level + (self._clock.elapsed() - at_s) * self._rate.per_s)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server bears of one who asks."""

    known: Rate = Rate(100.0, 400.0)
    """Requests of an identity."""
    unknown: Rate = Rate(2.0, 40.0)
    """Requests from an address that are nobody's, before it is told to wait."""
    body_s: float = 10.0
    """How long a body may take."""
    send_s: float = 60.0
    """How long a client may take nothing of an answer."""
