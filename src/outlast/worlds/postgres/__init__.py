"""The World in Postgres: many machines, one database. It needs `outlast[postgres]` and a URL.

Everything lies in one schema of the database, `outlast` unless the URL names another. Opening it makes what is missing.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from outlast.clock import Clock
from outlast.errors import WorldReadOnly
from outlast.worlds.postgres import reads
from outlast.worlds.postgres.address import parse_address
from outlast.worlds.postgres.store import Pace, open_store
from outlast.worlds.postgres.world import PostgresWorld

__all__ = ["Pace", "PostgresWorld", "open_postgres"]


@asynccontextmanager
async def open_postgres(
    url: str, *, clock: Clock | None = None, pace: Pace | None = None
) -> AsyncGenerator[PostgresWorld]:
    """The World in the Postgres database at `url`; its tables are made if there are none.

    Args:
        url: `postgres://user:password@host:port/database?options`, as the driver asyncpg understands it (`sslmode`,
            several hosts, `target_session_attrs`, the variables `PGHOST`, `PGPASSWORD` and so on). Besides:
            `schema=` for another schema than `outlast`; `connections=` for how many this process may open (8);
            `pooler=transaction` if a pooler in transaction mode stands in between, such as pgbouncer, and then
            `direct=host:port` for the server itself, to be listened to.
        clock: The World's clock; the server's own by default.
        pace: How long a statement (30 s) or a connection (5 s) may take, and how often a lost hint is looked for (1 s).

    Raises:
        BadInput: the URL cannot be used, or the driver is not installed.
        WorldForeign: the schema holds something else. It is left as it is.
        WorldTooNew: a newer outlast made it.
        WorldTooOld: one from before the first release did.
        WorldReadOnly: there is nothing and nothing can be made. What is there but cannot be written opens; its
            writes raise this.
        WorldUnavailable: the server cannot be reached, refuses, or is too old.
    """
    async with open_store(parse_address(url), clock, pace or Pace()) as store:
        world = PostgresWorld(store)
        with suppress(WorldReadOnly):
            await store.tidy()
            for tenant, session in await reads.dying(store):
                await world.for_tenant(tenant).erase(session)
        yield world
