"""The lanes of a loop's attempt: which of them wait, and when nothing is left to do but wait."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, NoReturn

from outlast.errors import ModelCallFailed, TurnStopped

SUSPENDED: Final = "suspended"
"""Why what is left of a loop stops when its attempt is over."""


class Board:
    """Which lanes of an attempt wait: when all do, the turn does nothing but wait."""

    def __init__(self) -> None:
        self._lanes = 1
        self._waiting = 0
        self._acting: set[str] = set()
        self._beside: Counter[str] = Counter()
        self.idle = asyncio.Event()
        self.walk = 0
        """Which of the turn's walks the loop is in: how often it had begun again before."""
        self.ids: set[str] = set()
        """Under which tool calls of answers of this attempt are known, be they in the log or not yet."""
        self.closed = False
        """The attempt is over: a loop that is being taken down does nothing more."""
        self.failure: ModelCallFailed | None = None
        """Why the attempt ends as soon as what is under way has ended; nothing is begun any more."""

    def fail(self, failure: ModelCallFailed) -> None:
        """A provider failed in a way that passes: another attempt asks again."""
        self.failure = self.failure or failure

    async def stand_still(self) -> NoReturn:
        """A lane goes no further in this attempt. The loop itself sees nothing of it that it could act on."""
        self.pausing(1)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.pausing(-1)
        raise TurnStopped(SUSPENDED)

    def opened(self, lanes: int) -> Callable[[], None]:
        """A lane has opened others and waits for them.

        Returns what each of them says when it ends; the last lets the lane that opened them go on.
        """
        left = lanes
        self._lanes += lanes
        self._waiting += 1 if lanes else 0
        self._judge()

        def ended() -> None:
            nonlocal left
            left -= 1
            self._lanes -= 1
            self._waiting -= 0 if left else 1
            self._judge()

        return ended

    @contextmanager
    def acting(self, lane: str) -> Generator[None]:
        """A lane does something of its own: it does not merely wait for what goes on beside it."""
        self._acting.add(lane)
        try:
            yield
        finally:
            self._acting.discard(lane)
            self._judge()

    @contextmanager
    def beside(self, lane: str) -> Generator[None]:
        """Something goes on beside a lane, which waits for it and others like it unless it acts itself."""
        self._lanes += 1
        self._beside[lane] += 1
        try:
            yield
        finally:
            self._lanes -= 1
            self._beside[lane] -= 1
            self._judge()

    def pausing(self, more: int) -> None:
        """A lane pauses for what it waits for (1), or goes on (-1)."""
        self._waiting += more
        self._judge()

    def _judge(self) -> None:
        besides = sum(1 for lane, many in self._beside.items() if many and lane not in self._acting)
        if self._lanes == self._waiting + besides:
            self.idle.set()
        else:
            self.idle.clear()
