"""Keeps a worker's leases: renews them, and tells every supervisor until when its tree may live."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.to_thread

from outlast.clock import Clock
from outlast.engine.deadlines import write_deadline
from outlast.errors import WorldUnavailable

_WEDGED: Final = "the event loop did not respond for half a lease"


class Keeper:
    """Renews leases while the event loop lives, on a thread of its own; an `async with` body runs under them.

    * Each third of `ttl_s` it calls `renew`. Only after that succeeded it hands out the new deadline,
      counted from *before* the call: no supervisor ever has a deadline later than the lease.
    * It renews only while the loop has beaten within half of `ttl_s`: a wedged worker loses its leases. A
      loop that comes back before the deadline keeps them.
    * A World that cannot be reached is asked again until the deadline.
    * Closing waits at most a third of `ttl_s` for a renewal under way, whose answer then counts for nothing.
    * When the leases are lost it stops for good and calls `on_lost(cause)` once, on the event loop.
    """

    def __init__(
        self,
        renew: Callable[[], float],
        *,
        ttl_s: float,
        on_lost: Callable[[str], None],
        clock: Clock,
        deadline_fd: int | None = None,
    ) -> None:
        """Set up; nothing happens before `async with`.

        Args:
            renew: blocks, on the keeper's thread, with a handle of its own. Returns the seconds for which the
                leases are sure to stand, counted from before the call. `WorldUnavailable` is tried again;
                anything else that it raises loses the leases.
            ttl_s: how long a lease lasts unrenewed, in seconds.
            on_lost: called on the event loop. The attempts under these leases must stop at once.
            clock: its `elapsed` is what deadlines are counted by.
            deadline_fd: the pipe to this worker's own supervisor. It stays open when the keeper closes.
        """
        self._renew = renew
        self._ttl_s = ttl_s
        self._on_lost = on_lost
        self._clock = clock
        self._sinks: list[Callable[[int], None]] = []
        if deadline_fd is not None:
            self._sinks.append(partial(write_deadline, deadline_fd))
        self._telling = threading.Lock()
        self._closing = threading.Event()
        self._beat_s = clock.elapsed()
        self._until_s: float | None = None
        self._thread = threading.Thread(target=self._keep, name="outlast-keeper", daemon=True)
        self._opened = anyio.Event()
        self._refusal: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_beat: asyncio.TimerHandle | None = None

    @property
    def deadline_ns(self) -> int:
        """Until when the leases are sure to stand: CLOCK_BOOTTIME in nanoseconds; 0 before the first time."""
        return 0 if self._until_s is None else int(self._until_s * 1e9)

    def beat(self) -> None:
        """Say that the event loop is alive. The keeper's own timer on it does so, ten times in `ttl_s`."""
        self._beat_s = self._clock.elapsed()

    @contextmanager
    def feeding(self, sink: Callable[[int], None]) -> Generator[None]:
        """Give `sink`, an attempt's supervisor, the deadline that stands and each later one, in nanoseconds.

        It is called on this thread and on the keeper's, and must not block.
        """
        with self._telling:
            self._sinks.append(sink)
            sink(self.deadline_ns)
        try:
            yield
        finally:
            with self._telling:
                self._sinks.remove(sink)

    async def __aenter__(self) -> Self:
        """Renew for the first time.

        Raises:
            WorldUnavailable: the first renewal failed, or was not answered within `ttl_s`.
        """
        self._loop = asyncio.get_running_loop()
        self._beat_and_again()
        self._thread.start()
        try:
            with anyio.move_on_after(self._ttl_s):
                await self._opened.wait()
        except BaseException:
            await self._close()
            raise
        if self._until_s is None:
            await self._close()
            unanswered = WorldUnavailable(world="The World", reason=f"no renewal within {self._ttl_s:g} s")
            raise self._refusal or unanswered
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        with self._telling:  # a renewal that is still under way tells nobody
            self._closing.set()
        if self._next_beat is not None:
            self._next_beat.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join, self._ttl_s / 3)

    def _beat_and_again(self) -> None:
        self.beat()
        assert self._loop is not None
        self._next_beat = self._loop.call_later(self._ttl_s / 10, self._beat_and_again)

    def _keep(self) -> None:
        """The thread: until closed or lost."""
        due_s = self._clock.elapsed()
        trouble = ""
        while not self._closing.wait(max(0.0, due_s - self._clock.elapsed())):
            if self._is_over():
                self._call(self._on_lost, trouble or "the process was suspended until its leases had run out")
                return
            began_s = self._clock.elapsed()
            trouble = _WEDGED if began_s - self._beat_s > self._ttl_s / 2 else self._renew_once(began_s)
            due_s = began_s + self._ttl_s / (30 if trouble else 3)
            if self._until_s is None:
                self._call(self._opened.set)
                return
        # Closed: whoever closed the keeper gives the leases up.

    def _renew_once(self, began_s: float) -> str:
        """Returns what went wrong, or nothing."""
        try:
            granted_s = self._renew()
        except WorldUnavailable as failed:
            self._refusal = failed
            return str(failed)
        except Exception as failed:  # noqa: BLE001 - handled: the leases end with it as the cause
            self._refusal = failed
            self._until_s = None if self._until_s is None else began_s
            return f"the renewal failed: {failed!r}"
        if self._is_over():
            return "the renewal was answered after the leases had run out"
        self._hand_out(began_s + granted_s)
        return ""

    def _hand_out(self, until_s: float) -> None:
        with self._telling:
            if self._closing.is_set():
                return
            first, self._until_s = self._until_s is None, until_s
            for sink in self._sinks:
                sink(self.deadline_ns)
        if first:
            self._call(self._opened.set)

    def _is_over(self) -> bool:
        return self._until_s is not None and self._clock.elapsed() >= self._until_s

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(function, *arguments)
