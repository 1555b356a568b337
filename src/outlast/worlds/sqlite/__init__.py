"""The World in a file: SQLite, one or many processes of one machine. The default; it needs no configuration.

Beside `world.db` lie `world.db-wal` and `-shm` (SQLite's own), `world.db-lock` (the line of the writers),
`world.db-workers/` (a file for each worker that lives) and `world.db-hints/` (a socket for each process that waits).
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from outlast.clock import Clock, SystemClock
from outlast.worlds.sqlite import reads
from outlast.worlds.sqlite.layout import Files, UnsafeFileSystem
from outlast.worlds.sqlite.store import Pace, open_store
from outlast.worlds.sqlite.world import SqliteWorld

__all__ = ["Pace", "SqliteWorld", "UnsafeFileSystem", "open_sqlite"]


@asynccontextmanager
async def open_sqlite(
    path: Path | str, *, clock: Clock | None = None, pace: Pace | None = None
) -> AsyncGenerator[SqliteWorld]:
    """The World in the file `path`, made with its directory if there is none; only this user may read it.

    Args:
        path: The database, or its URL: `sqlite:/home/a/world.db`, also with `~` for the user's home.
        clock: The World's clock; the machine's own by default.
        pace: How long a write may wait for another process's write lock or for the disk (30 s), and how often a
            lost hint is looked for (1 s).

    Raises:
        WorldForeign: there is something else, or half of something. It is left as it is.
        WorldTooNew: a newer outlast made it.
        WorldTooOld: one from before the first release did.
        WorldReadOnly: there is nothing and nothing can be made. What is there but cannot be written opens; its
            writes raise this.
        WorldUnavailable: the system refuses, or this machine's SQLite is unsafe.
    """
    files = Files.beside(_path(path))
    async with open_store(files, clock or SystemClock(), pace or Pace()) as store:
        world = SqliteWorld(store)
        if store.writer is not None:
            for tenant, session in await store.reader.read(reads.dying):
                await world.for_tenant(tenant).erase(session)
        yield world


def _path(place: Path | str) -> Path:
    text = str(place).removeprefix("sqlite:")
    return Path(text.removeprefix("//") if text.startswith("///") else text).expanduser().absolute()
