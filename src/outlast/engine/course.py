"""The course of an attempt: whether it may go on, what it waits for before it ends, and what it writes on the way."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from outlast.clock import Clock
from outlast.codec import Packer
from outlast.engine.queued import Landing
from outlast.engine.term import Term
from outlast.engine.writer import Writer
from outlast.errors import OutlastError, TurnStopped
from outlast.records import AnyRecord
from outlast.tool import Tool

HANDED_OVER: Final = "handed over"
FAILED: Final = "failed"


class Course:
    """Of one attempt, from its beginning to its end."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self.writer = writer
        self.clock = clock
        self.term = Term(clock)
        """When its worker must have ended."""
        self.closed = False
        """It is over: whoever still holds a part of it must not write any more."""
        self.failure: OutlastError | None = None
        """What it ends for, where it failed beneath its adapter."""
        self.stopping: str | None = None
        """Why it is ending, once it is: nothing new may begin."""
        self.moved_s = clock.elapsed()
        """When something was last written, on the clock that never jumps."""
        self.on_stop: Callable[[], None] = lambda: None
        self.runs: Callable[[], bool] = lambda: False
        """Whether any call of it runs."""
        self._held = self._resting = 0
        self._over = asyncio.Event()
        self._rest = asyncio.Event()

    def stop(self, why: str) -> None:
        """End the attempt; the first reason stands."""
        if self.stopping is None:
            self.stopping = why
            self._over.set()
            self._rest.set()
            self.on_stop()

    def fail(self, error: OutlastError) -> NoReturn:
        """End the attempt as failed: another goes on from what the log holds.

        Raises:
            TurnStopped
        """
        self.failure = self.failure or error
        self.stop(FAILED)
        raise TurnStopped(self.stopping or FAILED)

    async def room(self, needs_s: float | None) -> None:
        """Return if a call that takes up to `needs_s` seconds may begin; where it does not fit, wait for the end.

        Args:
            needs_s: None when nobody knows.

        Raises:
            TurnStopped: the attempt is over.
        """
        if self.term.fits(needs_s):
            return
        self._held += 1
        self.eased()
        await self._over.wait()
        raise TurnStopped(self.stopping or HANDED_OVER)

    async def room_for(self, tool: Tool | None) -> None:
        """`room` for a call of a tool; None for one that is gone."""
        await self.room(0.0 if tool is None else tool.timeout_s)

    def eased(self) -> None:
        """A call has ended: if others are held back and none runs, there is nothing to stay for."""
        if (self._held or self._resting) and not self.runs():  # to look at every call is not for every call
            self._rest.set()
            if self._held:
                self.stop(HANDED_OVER)

    async def rest(self) -> None:
        """Return when no call of this attempt runs, or it is over."""
        self._resting += 1
        try:
            while self.stopping is None and self.runs():
                self._rest.clear()
                await self._rest.wait()
        finally:
            self._resting -= 1

    def check(self) -> None:
        """Return if this attempt may still act.

        Raises:
            AttemptLost: the session is not its own any more.
            TurnStopped: it is over.
        """
        if self.closed or self.failure is not None:
            raise TurnStopped(self.stopping or "over")
        self.writer.check()

    def append(
        self,
        *records: AnyRecord,
        packer: Packer | None = None,
        consumes: Sequence[str] = (),
        lazy: bool = False,
    ) -> Landing:
        """`Writer.append`, as long as this attempt may still act.

        Raises:
            AttemptLost, TurnStopped, BadPayload
        """
        if self.closed:
            self.check()
        self.moved_s = self.clock.elapsed()
        return self.writer.append(*records, packer=packer, consumes=consumes, lazy=lazy)

    async def write(self, *records: AnyRecord) -> None:
        """Append and wait until it is durable."""
        await self.writer.durable(self.append(*records))
