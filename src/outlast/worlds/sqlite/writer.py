"""The one thread of this process that writes: it drains a queue and gives many callers one transaction, one fsync.

Group commit. While a transaction is being made durable, what arrives queues; the next transaction takes all of it.
Nothing waits for company: a lone commit is written at once.

Refusals are decided before a job writes anything, so they leave nothing. If anything else goes wrong with a job, the
transaction is rolled back and its jobs are written one by one, so that what is wrong with one hinders no other.

Durability. A transaction that only shows or drops deltas runs under `synchronous=NORMAL`: its frames go into the WAL
without an fsync. Any other runs under FULL: the WAL is fsynced before anybody is told. That fsync covers the file,
thus every frame before, whoever wrote it; and a WAL is read from its start up to the first frame whose checksum,
chained over all frames before it, is wrong. So a commit that survives is preceded by all deltas that were shown before
it, and a delta that is lost takes only what came after it, none of which was acknowledged as durable. NORMAL, never
OFF: checkpoints must fsync the WAL before they touch the database, and the database before the WAL is begun anew.

After an I/O error nothing is known of what earlier fsyncs left on the disk: the kernel forgets pages that it could not
write. Then nothing is acknowledged before a checkpoint has carried everything into the database and fsynced that.

Checkpoints run in the commit that finds 1,000 pages (4 MB) in the WAL, one in about 200 commits: a few milliseconds for
those who wait for that one, in exchange for a WAL that stays small under any load, without another thread.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import anyio
import apsw

from outlast.errors import OutlastError, WorldUnavailable
from outlast.worlds.sqlite.database import FOREIGN_LOCK_MS, Database, connect
from outlast.worlds.sqlite.failures import unavailable
from outlast.worlds.sqlite.layout import Files
from outlast.worlds.sqlite.mutex import Mutex
from outlast.worlds.sqlite.transaction import Transaction

T = TypeVar("T")

BATCH_JOBS: Final = 256
BATCH_BYTES: Final = 16 * 1024 * 1024
CLOSE_LIMIT_S: Final = 10.0
CACHE_KIB: Final = 16 * 1024
CARRY_OVER_MS: Final = 200
WAL_LIMIT: Final = 16 * 1024 * 1024
"""Bytes to which a WAL that grew is cut when it is begun anew."""


_SHARED: Final = (
    apsw.IOError,
    apsw.BusyError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    WorldUnavailable,
)
"""Failures of the file and not of a job: writing the jobs one by one would only repeat them."""


class Job(Generic[T]):
    """Something to be written, and whoever waits for it."""

    __slots__ = ("abandoned", "call", "carries", "durable", "error", "future", "result", "since", "size")

    def __init__(self, call: Callable[[Transaction], T], size: int, *, durable: bool) -> None:
        self.call = call
        self.size = size
        self.durable = durable
        self.abandoned = False
        self.carries = False
        self.since = 0.0
        self.result: T | None = None
        self.error: Exception | None = None
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(self) -> None:
        """Tell the waiter, on its loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # pyright: ignore[reportArgumentType] T may be None


class Writer:
    """The queue before the writer's thread, which alone uses `database`. Used and closed on one event loop.

    `begin` makes the transaction that jobs are given. `tell` is called on the loop with the keys of what changed, once
    it is durable, and `send` on the writer's thread a little later.
    """

    def __init__(
        self,
        files: Files,
        database: Database,
        begin: Callable[[Database], Transaction],
        tell: Callable[[frozenset[int]], None],
        send: Callable[[frozenset[int]], None],
        patience_s: float,
    ) -> None:
        self._files = files
        self._begin = begin
        self._tell = tell
        self._send = send
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._waiting: deque[Job[Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended = asyncio.Event()
        self._mutex = Mutex(files.lock)
        self._database = database
        self._full = True
        self._identity = files.identity()
        self._suspect = False
        threading.Thread(target=self._run, name="outlast-sqlite-writer", daemon=True).start()

    def write(
        self, call: Callable[[Transaction], T], *, size: int = 0, durable: bool = True
    ) -> asyncio.Future[T]:
        """Run `call` in a transaction; the future ends with its result once that is durable (or only visible).

        Raises:
            OutlastError: what `call` refused with.
            WorldUnavailable: it is not known whether it was written.
        """
        return self._put(Job(call, size, durable=durable))

    def _put(self, job: Job[T], *, carries: bool = False) -> asyncio.Future[T]:
        if self._closed:
            raise WorldUnavailable(world=self._files.name, reason="it was closed")
        job.carries = carries
        job.since = self._loop.time()
        self._forget_settled()
        self._waiting.append(job)
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience_s, self._look_at_patience)
        self._queue.put(job)
        return job.future

    def carry_over(self) -> asyncio.Future[None]:
        """Bring everything into the database and cut the WAL, unless somebody still reads it."""
        return self._put(Job(_nothing, 0, durable=False), carries=True)

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
            if self._mutex.waits:
                reason = f"{self._mutex.holder()} has held its write lock for {after_s:g} s"
            else:
                reason = f"its disk has not answered for {after_s:g} s"
            job.future.set_exception(WorldUnavailable(world=self._files.name, reason=reason))

    def _settle(self, batch: Sequence[Job[Any]], told: frozenset[int]) -> None:
        for job in batch:
            job.settle()
        self._tell(told)

    # From here on: the writer's thread.

    def _run(self) -> None:
        try:
            while batch := self._next():
                told = self._write(batch)
                self._loop.call_soon_threadsafe(self._settle, batch, told)
                if told:
                    self._send(told)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
        finally:
            self._database.close()
            self._mutex.close()
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

    def _write(self, batch: Sequence[Job[Any]]) -> frozenset[int]:
        try:
            with self._mutex:
                if self._suspect or any(job.carries for job in batch):
                    self._carry_over()
                return self._attempt([job for job in batch if not job.abandoned])
        except Exception as error:  # noqa: BLE001 each waiter is given it
            _fail(batch, unavailable(self._files.name, error))
            return frozenset()

    def _attempt(self, batch: Sequence[Job[Any]]) -> frozenset[int]:
        """Write a batch in one transaction, or else each job in its own; returns the keys of what changed."""
        try:
            return self._transact(batch) if batch else frozenset()
        except Exception as error:  # noqa: BLE001 each waiter is given it
            if not self._database.get_autocommit():
                self._database.execute("rollback")
            if isinstance(error, apsw.IOError):
                self._suspect = True
            if len(batch) == 1 or isinstance(error, _SHARED):
                _fail(batch, unavailable(self._files.name, error))
                return frozenset()
        told: set[int] = set()
        for job in batch:
            told |= self._attempt([job])
        return frozenset(told)

    def _transact(self, batch: Sequence[Job[Any]]) -> frozenset[int]:
        full = any(job.durable for job in batch)
        if full != self._full:
            self._database.execute(f"pragma synchronous = {'full' if full else 'normal'}")
            self._full = full
        self._database.execute("begin immediate")
        transaction = self._begin(self._database)
        for job in batch:
            job.error = None
            try:
                job.result = job.call(transaction)
            except OutlastError as error:
                job.error = error
        self._database.execute("commit")
        self._files.check_identity(self._identity)
        return frozenset(transaction.told)

    def _carry_over(self) -> None:
        """Bring everything into the database, fsynced; after an I/O error that, or fail."""
        # Briefly: a reader that is stopped in the middle of its snapshot must not hold up everybody's writes.
        self._database.execute(f"pragma busy_timeout = {CARRY_OVER_MS}")
        [[busy, _, _]] = self._database.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._database.execute(f"pragma busy_timeout = {FOREIGN_LOCK_MS}")
        if busy and self._suspect:
            raise WorldUnavailable(
                world=self._files.name, reason="its disk failed, and somebody still reads the log"
            )
        self._suspect = False


def connect_writer(files: Files) -> Database:
    """A connection that writes.

    Raises:
        WorldUnavailable: the file system is none for a WAL.
    """
    database = connect(str(files.database))
    [[mode]] = database.execute("pragma journal_mode = wal").fetchall()
    if mode != "wal":
        raise WorldUnavailable(
            world=files.name, reason="its file system cannot share memory between processes"
        )
    database.execute("pragma synchronous = full")
    # What is erased is overwritten, not only unlinked.
    database.execute("pragma secure_delete = on")
    database.execute(f"pragma cache_size = -{CACHE_KIB}")
    database.execute(f"pragma journal_size_limit = {WAL_LIMIT}")
    return database


def _nothing(_: Transaction) -> None:
    """A job that only waits for its turn."""


def _fail(batch: Sequence[Job[Any]], error: WorldUnavailable) -> None:
    for job in batch:
        job.error = error
