"""The threads of this process that read: they wait for no writer, and no writer for them."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import anyio
import apsw

from outlast.errors import OutlastError, WorldUnavailable
from outlast.worlds.sqlite.database import Database, connect
from outlast.worlds.sqlite.failures import unavailable
from outlast.worlds.sqlite.layout import Access, Files
from outlast.worlds.sqlite.transaction import Query

T = TypeVar("T")

THREADS: Final = 2
"""So that one long read does not hold up the short ones."""
CLOSE_LIMIT_S: Final = 10.0


class _Job(Generic[T]):
    __slots__ = ("call", "future")

    def __init__(self, call: Callable[[Query], T]) -> None:
        self.call = call
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(self, result: T | None, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)  # pyright: ignore[reportArgumentType] T may be None


class Reader:
    """The queue before the reading threads. Opened, used and closed on one event loop."""

    def __init__(self, files: Files, access: Access, now: Callable[[], float]) -> None:
        self._files = files
        self._access = access
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._identity = files.identity()
        self.closed = False
        self._ended = [asyncio.Event() for _ in range(THREADS)]
        for ended in self._ended:
            thread = threading.Thread(
                target=self._run, args=(ended,), name="outlast-sqlite-reader", daemon=True
            )
            thread.start()

    def read(self, call: Callable[[Query], T]) -> asyncio.Future[T]:
        """Run `call` on one snapshot; the future ends with its result, or raises.

        Raises:
            OutlastError: what `call` raised.
            WorldUnavailable
        """
        if self.closed:
            raise WorldUnavailable(world=self._files.name, reason="it was closed")
        job = _Job(call)
        self._queue.put(job)
        return job.future

    async def close(self) -> None:
        """Answer what is queued and end the threads; gives up on them after `CLOSE_LIMIT_S`."""
        self.closed = True
        for _ in self._ended:
            self._queue.put(None)
        with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
            for ended in self._ended:
                await ended.wait()

    # From here on: a reader's thread.

    def _run(self, ended: asyncio.Event) -> None:
        database: Database | None = None
        try:
            while job := self._queue.get():
                result, error = None, None
                try:
                    # Before connecting: a file that is gone or another one would be opened with an error of its own.
                    self._files.check_identity(self._identity)
                    database = database or connect_reader(self._files, self._access)
                    result = self._answer(database, job)
                except OutlastError as refusal:
                    error = refusal
                except Exception as failure:  # noqa: BLE001 the waiter is given it
                    error = unavailable(self._files.name, failure)
                if self._access.read_only and database is not None:
                    # It may have been opened as immutable, which holds for this moment only.
                    database.close()
                    database = None
                self._loop.call_soon_threadsafe(job.settle, result, error)
            if database is not None:
                database.close()
            self._loop.call_soon_threadsafe(ended.set)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def _answer(self, database: Database, job: _Job[T]) -> T:
        database.execute("begin")
        try:
            return job.call(Query(database, self._files.name, self._now()))
        finally:
            database.execute("commit")


def connect_reader(files: Files, access: Access) -> Database:
    """A connection that reads."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = files.database.as_uri()
    if access.read_only and not files.database.with_name(f"{files.database.name}-shm").exists():
        # Without the right to make the shared memory SQLite reads only what it is promised that nobody changes.
        # There is no shared memory, so nobody has it open at this moment.
        address += "?immutable=1"
    return connect(address, flags)
