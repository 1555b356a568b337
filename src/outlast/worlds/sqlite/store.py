"""What all handles of one opening share: the writer, the readers, the hints."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio.to_thread
import apsw

from outlast.clock import Clock
from outlast.world.hints import ANYONE
from outlast.worlds.sqlite import claims
from outlast.worlds.sqlite.database import Database
from outlast.worlds.sqlite.failures import unavailable
from outlast.worlds.sqlite.hints import Postman, Switchboard
from outlast.worlds.sqlite.layout import Access, Files, prepare
from outlast.worlds.sqlite.liveness import SqliteLiveness, WorkerFiles
from outlast.worlds.sqlite.pen import connect_writer
from outlast.worlds.sqlite.poll import Poll
from outlast.worlds.sqlite.reader import Reader
from outlast.worlds.sqlite.transaction import Query, Transaction
from outlast.worlds.sqlite.writer import Writer

FORGET_S: Final = 24 * 3600.0
"""How long the row of a worker that no session names is kept after its time ran out."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long this process waits for what."""

    patience_s: float = 30.0
    """For a write to be written."""
    poll_s: float = 1.0
    """Between two looks for changes that no hint told of."""
    quick_s: float = 0.001
    """For the disk to keep a commit; a slower one is waited for in a thread."""


class SqliteStore:
    """An opened file. Belongs to one event loop; its threads end with `close`."""

    def __init__(
        self, files: Files, access: Access, database: Database | None, clock: Clock, pace: Pace
    ) -> None:
        self.files = files
        self.access = access
        self.workers = WorkerFiles(files.workers)
        self._clock = clock
        self.board = Switchboard(files.hints, listen=not access.read_only)
        self._postman = Postman(files.hints, self.board.name)
        self.reader = Reader(files, access, clock.now)
        self.poll = Poll(self.reader, self.board, pace.poll_s)
        self.writer: Writer | None = None
        """None: it can only be read."""
        if database is not None:
            patience_s, quick_s = pace.patience_s, pace.quick_s
            self.writer = Writer(
                files, database, self._begin, self._changed, patience_s=patience_s, quick_s=quick_s
            )

    def open_liveness(self) -> SqliteLiveness:
        """See `outlast.world.Queue`."""
        return SqliteLiveness(self.files.name, self.files.workers, self._clock, self._retired)

    def _begin(self, database: Database) -> Transaction:
        return Transaction(database, self.files.name, self._clock.now(), self.workers.deadline)

    def _changed(self, keys: frozenset[int]) -> None:
        self.board.tell(keys)
        if keys:
            self._postman.send(keys)

    def _retired(self) -> None:
        """On a keeper's thread. Its hint goes to this process as to every other."""
        postman = Postman(self.files.hints, None)
        try:
            postman.send([ANYONE])
        finally:
            postman.close()

    async def tidy(self) -> None:
        """Forget workers that ended long ago and that nothing names any more."""
        named = await self.reader.read(claims.owners)
        long_ago = self._clock.now() - FORGET_S

        def forget(_: Query) -> None:
            for row in self.workers.rows():
                if row.deadline_s < long_ago and row.worker not in named:
                    self.workers.forget(row.worker)

        await self.reader.read(forget)

    async def close(self) -> None:
        """Write what is queued, then end the threads. Bounded."""
        self.poll.close()
        await self.reader.close()
        # After the readers: only whoever is last and may write carries the WAL back into the database.
        if self.writer is not None:
            await self.writer.close()
        self.board.close()
        self._postman.close()


@asynccontextmanager
async def open_store(files: Files, clock: Clock, pace: Pace) -> AsyncGenerator[SqliteStore]:
    """Open the store, making it if there is none."""
    access, database = await anyio.to_thread.run_sync(_open_files, files)
    store = SqliteStore(files, access, database, clock, pace)
    try:
        if store.writer is not None:
            await store.tidy()
        yield store
    finally:
        await store.close()


def _open_files(files: Files) -> tuple[Access, Database | None]:
    """On a thread: the disk, and whoever holds a lock there, may take their time."""
    access = prepare(files)
    if access.read_only:
        return access, None
    try:
        return access, connect_writer(files)
    except apsw.Error as error:
        raise unavailable(files.name, error) from error
