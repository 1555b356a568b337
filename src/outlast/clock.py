"""Time, passed in: only this module asks the machine what time it is."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of outlast knows of time."""

    def now(self) -> float:
        """Seconds since the Unix epoch, UTC: for records and for times that outlive the process."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that never jumps and counts suspension (CLOCK_BOOTTIME where there is one)."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return boottime()


def boottime() -> float:
    """Seconds since boot, suspension included; the monotonic clock where the platform lacks CLOCK_BOOTTIME."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class ClockAhead:
    """Another clock, whose time of day is put forward."""

    def __init__(self, inner: Clock, by_s: float) -> None:
        self._inner = inner
        self._by_s = by_s

    def now(self) -> float:
        return self._inner.now() + self._by_s

    def elapsed(self) -> float:
        return self._inner.elapsed()


class ManualClock:
    """A clock that stands until it is turned; for tests."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def elapsed(self) -> float:
        return self._now

    def turn(self, seconds: float) -> None:
        """Move on by `seconds`."""
        self._now += seconds
