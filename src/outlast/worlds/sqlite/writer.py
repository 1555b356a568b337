"""Who writes, and when: jobs queue, and many callers are given one transaction, one fsync.

Group commit. While a transaction is being made durable, what arrives queues; the next transaction takes all of it.
Nothing waits for company: a lone commit is written at once.

One thread of this process writes, at any moment: the writer's, or the event loop's. To hand a lone job to the writer's
thread and be woken by it costs nearly as much as a fast disk takes to keep it, so where the disk is fast the loop's
thread writes by itself. Invariants:

* Whoever holds the lock has the pen: the connection, and the place in the line of processes that write.
* Jobs are written in the order in which they came: the loop's thread writes only while nothing that it gave to the
  other is unsettled.
* The loop's thread waits for nobody: not for the pen, not for another process's write lock, not for a checkpoint. What
  cannot be written without waiting goes to the writer's thread, as does whatever its caller says takes long.
* It writes one transaction in each round of the loop, and only while the disk has been answering within `quick_s`
  (`Haste`). So the loop goes round, and what comes at the same moment shares a transaction in the writer's thread.

A fast disk that stalls for seconds stops the loop once, for that long, and with it the beat that its leases need: they
run out as those of any worker that hangs, and what it was writing has landed or has not.

Checkpoints run in the writer's thread, after those who wait for a commit were told: a few milliseconds once in about
250 commits, in which what arrives queues.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio

from outlast.errors import WorldUnavailable
from outlast.worlds.sqlite.database import Database
from outlast.worlds.sqlite.layout import Files
from outlast.worlds.sqlite.pen import Job, Pen
from outlast.worlds.sqlite.transaction import Transaction

T = TypeVar("T")

BATCH_JOBS: Final = 256
BATCH_BYTES: Final = 16 * 1024 * 1024
CLOSE_LIMIT_S: Final = 10.0
HERE_BYTES: Final = 256 * 1024
"""How much the loop's thread writes in one transaction."""
MEAN_OF: Final = 8
"""Answers of the disk of which a mean is taken, the newest counting most."""
REST_LEAST: Final = 16
REST_MOST: Final = 1_024
"""Transactions that the writer's thread writes before the loop's thread tries again how fast the disk is."""


class Haste:
    """Whether the event loop's own thread may write: as long as the disk answers at once.

    While it writes the loop stands still for as long as the disk takes. So when the disk takes too long, in the mean of
    the last answers, the writer's thread writes the next transactions, and twice as many after each further such time,
    before the loop tries again.
    """

    def __init__(self, quick_s: float) -> None:
        self._quick_s = quick_s
        self._mean_s = quick_s / 2
        self._rest = self._left = REST_LEAST

    @property
    def may(self) -> bool:
        """The loop's thread may write now."""
        return not self._left

    def took(self, seconds: float) -> None:
        """The loop's thread has written; the disk took so long for that."""
        self._mean_s += (seconds - self._mean_s) / MEAN_OF
        if self._mean_s >= self._quick_s:
            self._left, self._rest = self._rest, min(REST_MOST, 2 * self._rest)
            self._mean_s = self._quick_s / 2
        elif seconds < self._quick_s:
            self._rest = REST_LEAST

    def left_out(self) -> None:
        """The writer's thread has written instead."""
        self._left = max(0, self._left - 1)


class Writer:
    """The queue before the writer's thread. Used and closed on one event loop.

    `begin` makes the transaction that jobs are given. `tell` is called on the loop with the keys of what changed, once
    it is durable.

    Args:
        patience_s: how long a job may wait to be written.
        quick_s: how long the disk may take for the loop's thread to write; 0 for never.
    """

    def __init__(
        self,
        files: Files,
        database: Database,
        begin: Callable[[Database], Transaction],
        tell: Callable[[frozenset[int]], None],
        *,
        patience_s: float,
        quick_s: float,
    ) -> None:
        self._files = files
        self._tell = tell
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._waiting: deque[Job[Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended = asyncio.Event()
        self._pen = Pen(files, database, begin, self._loop.time)
        self._lock = threading.Lock()
        self._handed = 0
        """Jobs that the writer's thread was given and that are not settled yet."""
        self._haste = Haste(quick_s)
        self._wrote = False
        """The loop's thread has written in this round of the loop."""
        threading.Thread(target=self._run, name="outlast-sqlite-writer", daemon=True).start()

    def write(
        self, call: Callable[[Transaction], T], *, size: int = 0, durable: bool = True, brief: bool = True
    ) -> asyncio.Future[T]:
        """Run `call` in a transaction; the future ends with its result once that is durable (or only visible).

        Args:
            size: bytes that it writes, roughly.
            durable: it must be durable, not only visible.
            brief: it takes a fraction of a millisecond, beside what the disk takes.

        Raises:
            OutlastError: what `call` refused with.
            WorldUnavailable: it is not known whether it was written.
        """
        job = Job(call, size, durable=durable)
        if not (brief and self._write_here(job)):
            self._hand_over(job)
        return job.future

    def _write_here(self, job: Job[T]) -> bool:
        """Write a job in the loop's thread, if that may be: see above. Returns whether it is settled."""
        if self._handed or self._wrote or not self._haste.may or self._closed or job.size > HERE_BYTES:
            return False
        if not self._lock.acquire(blocking=False):
            return False  # the writer's thread is at a checkpoint
        try:
            told = self._pen.write_at_once(job)
            if told is None:
                return False
            self._haste.took(self._pen.took_s)
            self._wrote = True
            self._loop.call_soon(self._next_round)
        finally:
            self._lock.release()
        job.settle()
        self._tell(told)
        return True

    def _next_round(self) -> None:
        self._wrote = False

    def _hand_over(self, job: Job[Any]) -> None:
        if self._closed:
            raise WorldUnavailable(world=self._files.name, reason="it was closed")
        job.since = self._loop.time()
        self._forget_settled()
        self._waiting.append(job)
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience_s, self._look_at_patience)
        self._handed += 1
        self._queue.put(job)

    def carry_over(self) -> asyncio.Future[None]:
        """Bring everything into the database and cut the WAL, unless somebody still reads it."""
        job: Job[None] = Job(_nothing, 0, durable=False)
        job.carries = True
        self._hand_over(job)
        return job.future

    async def close(self) -> None:
        """Write what is queued and end the thread; gives up on it after `CLOSE_LIMIT_S`."""
        self._closed = True
        self._queue.put(None)
        with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
            await self._ended.wait()
        if self._timer is not None:
            self._timer.cancel()
        for job in self._waiting:
            self._give_up(job, CLOSE_LIMIT_S)

    def _forget_settled(self) -> None:
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()

    def _look_at_patience(self) -> None:
        """One timer for all: jobs end in the order in which they came, so the first is the one to look at."""
        self._timer = None
        self._forget_settled()
        while self._waiting and self._waiting[0].since + self._patience_s <= self._loop.time():
            self._give_up(self._waiting.popleft(), self._patience_s)
        if self._waiting:
            self._timer = self._loop.call_at(
                self._waiting[0].since + self._patience_s, self._look_at_patience
            )

    def _give_up(self, job: Job[Any], after_s: float) -> None:
        job.abandoned = True
        if not job.future.done():
            if self._pen.mutex.waits:
                reason = f"{self._pen.mutex.holder()} has held its write lock for {after_s:g} s"
            else:
                reason = f"its disk has not answered for {after_s:g} s"
            job.future.set_exception(WorldUnavailable(world=self._files.name, reason=reason))

    def _settle(self, batch: Sequence[Job[Any]], told: frozenset[int]) -> None:
        self._handed -= len(batch)
        self._haste.left_out()
        for job in batch:
            job.settle()
        self._tell(told)

    # From here on: the writer's thread.

    def _run(self) -> None:
        try:
            while batch := self._next():
                with self._lock:
                    told = self._pen.write(batch)
                self._loop.call_soon_threadsafe(self._settle, batch, told)
                if self._pen.wants_trim:
                    with self._lock:
                        self._pen.trim()
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
        finally:
            self._pen.close()
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)

    def _next(self) -> list[Job[Any]]:
        """Everything that waits, within bounds; nothing when there is no more to come."""
        job = self._queue.get()
        if job is None:
            return []
        batch, size = [job], job.size
        while len(batch) < BATCH_JOBS and size < BATCH_BYTES:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._queue.put(None)
                break
            batch.append(job)
            size += job.size
        return batch


def _nothing(_: Transaction) -> None:
    """A job that only waits for its turn."""
