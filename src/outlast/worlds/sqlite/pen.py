"""The one connection that writes, and how jobs become a transaction.

One thread at a time has it: `writer` says which.

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
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import apsw

from outlast.errors import OutlastError, WorldUnavailable
from outlast.worlds.sqlite.database import FOREIGN_LOCK_MS, Database, connect
from outlast.worlds.sqlite.failures import unavailable
from outlast.worlds.sqlite.layout import Files
from outlast.worlds.sqlite.mutex import Mutex
from outlast.worlds.sqlite.transaction import Transaction

T = TypeVar("T")

CACHE_KIB: Final = 16 * 1024
CARRY_OVER_MS: Final = 200
WAL_LIMIT: Final = 16 * 1024 * 1024
"""Bytes to which a WAL that grew is cut when it is begun anew."""
TRIM_PAGES: Final = 1_000
"""Pages in the WAL (4 MB) from which on they are brought into the database; about 250 commits."""

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


class Pen:
    """Writes. Used by one thread at a time, any; `mutex.holder` and `mutex.waits` may be asked by all.

    `begin` makes the transaction that jobs are given; `clock_s` tells the seconds that pass.
    """

    def __init__(
        self,
        files: Files,
        database: Database,
        begin: Callable[[Database], Transaction],
        clock_s: Callable[[], float],
    ) -> None:
        self._files = files
        self._database = database
        self._begin = begin
        self._clock_s = clock_s
        self.mutex = Mutex(files.lock)
        self._full = True
        self._identity = files.identity()
        self._suspect = False
        self._pages = 0
        """In the WAL."""
        self.took_s = 0.0
        """How long the disk last took to make a transaction durable."""
        database.set_wal_hook(
            self._note_pages
        )  # instead of SQLite's own, which would checkpoint within a commit

    def write(self, batch: Sequence[Job[Any]]) -> frozenset[int]:
        """Write a batch, however long that takes, so that each job has its result or its error.

        Returns the keys of what changed.
        """
        try:
            with self.mutex:
                if self._suspect or any(job.carries for job in batch):
                    self._carry_over()
                return self._attempt([job for job in batch if not job.abandoned])
        except Exception as error:  # noqa: BLE001 each waiter is given it
            _fail(batch, unavailable(self._files.name, error))
            return frozenset()

    def write_at_once(self, job: Job[Any]) -> frozenset[int] | None:
        """Write a job as `write` does, but wait for nobody: None, and nothing is written, if somebody else writes.

        None also where there is more to do than to write, which takes its time.
        """
        if self._suspect or job.carries or self.wants_trim:
            return None
        try:
            return self._write_at_once(job)
        except Exception as error:  # noqa: BLE001 the waiter is given it
            _fail([job], unavailable(self._files.name, error))
            return frozenset()

    def _write_at_once(self, job: Job[Any]) -> frozenset[int] | None:
        if not self.mutex.take():
            return None
        try:
            self._database.set_busy_timeout(0)  # of programs that do not stand in our line
            return self._transact([job])
        except BaseException as error:  # an interrupt, too, comes in this thread, which may live on
            self._undo(error)
            if isinstance(error, apsw.BusyError):
                return None
            raise
        finally:
            self._database.set_busy_timeout(FOREIGN_LOCK_MS)
            self.mutex.free()

    @property
    def wants_trim(self) -> bool:
        """The WAL has grown."""
        return self._pages >= TRIM_PAGES

    def trim(self) -> None:
        """Bring what nobody reads any more from the WAL into the database, so that the WAL is begun anew."""
        self._pages = 0  # the next commit tells how many there are
        try:
            self._database.execute("pragma wal_checkpoint(passive)").fetchall()
        except apsw.IOError:
            self._suspect = True
        except apsw.Error:
            return  # nobody waits for it, and the next time is soon

    def close(self) -> None:
        """Let go of everything."""
        self._database.close()
        self.mutex.close()

    def _note_pages(self, _: object, __: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _attempt(self, batch: Sequence[Job[Any]]) -> frozenset[int]:
        """Write a batch in one transaction, or else each job in its own; returns the keys of what changed."""
        try:
            return self._transact(batch) if batch else frozenset()
        except Exception as error:  # noqa: BLE001 each waiter is given it
            self._undo(error)
            if len(batch) == 1 or isinstance(error, _SHARED):
                _fail(batch, unavailable(self._files.name, error))
                return frozenset()
        told: set[int] = set()
        for job in batch:
            told |= self._attempt([job])
        return frozenset(told)

    def _undo(self, error: BaseException) -> None:
        """After a transaction that failed."""
        if not self._database.get_autocommit():
            self._database.execute("rollback")
        if isinstance(error, apsw.IOError):
            self._suspect = True

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
        began_s = self._clock_s()
        self._database.execute("commit")
        self.took_s = self._clock_s() - began_s
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


def _fail(batch: Sequence[Job[Any]], error: WorldUnavailable) -> None:
    for job in batch:
        job.error = error
