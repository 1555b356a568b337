"""The floor: one durable commit of the same bytes, by the same driver, in the same run.

A table with a number and a body, one row inserted per transaction: the least that a store can do to keep something. On
SQLite by apsw, WAL, `synchronous=FULL`; on Postgres by asyncpg over one connection to the very server, the row whole on
its page. Blocks of it are taken between the blocks of what is measured.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.frame import Bench
from outlast.worlds.postgres.database import driver
from outlast.worlds.sqlite.database import Database, connect


class Floor(Protocol):
    """A database that takes bytes and does nothing else."""

    async def commits(self, body: bytes, count: int) -> list[float]:
        """Seconds of each of `count` durable commits."""
        ...

    async def grouped(self, body: bytes, count: int, together: int) -> float:
        """Commits per second when `together` of them share a transaction."""
        ...


async def _timed(put: Callable[[], Awaitable[object]], count: int) -> list[float]:
    taken: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await put()
        taken.append(time.perf_counter() - began)
    return taken


class SqliteFloor:
    """A table in a file."""

    CREATE = "create table if not exists body (number integer primary key, bytes blob not null) strict"
    INSERT = "insert into body (bytes) values (?)"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def commits(self, body: bytes, count: int) -> list[float]:
        async def put() -> None:
            self._database.execute(self.INSERT, (body,))

        return await _timed(put, count)

    async def grouped(self, body: bytes, count: int, together: int) -> float:
        began = time.perf_counter()
        for _ in range(count // together):
            self._database.execute("begin immediate")
            for _ in range(together):
                self._database.execute(self.INSERT, (body,))
            self._database.execute("commit")
        return count / (time.perf_counter() - began)


class PostgresFloor:
    """A table of a schema, and the one connection to it."""

    # What is 4 KB stays whole on its page and is not compressed: anything else costs the server more.
    CREATE = (
        "create schema if not exists floor; "
        "create table if not exists floor.body (number bigint generated always as identity primary key, "
        "bytes bytea not null) with (toast_tuple_target = 8160); "
        "alter table floor.body alter column bytes set storage external"
    )
    INSERT = "insert into floor.body (bytes) values ($1)"
    MANY = "insert into floor.body (bytes) select unnest($1::bytea[])"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def commits(self, body: bytes, count: int) -> list[float]:
        return await _timed(lambda: self._connection.execute(self.INSERT, body), count)

    async def grouped(self, body: bytes, count: int, together: int) -> float:
        began = time.perf_counter()
        for _ in range(count // together):
            await self._connection.execute(self.MANY, [body] * together)
        return count / (time.perf_counter() - began)

    async def wal(self) -> int:
        """Bytes of log that the server has written ever."""
        return int(await self._connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


@asynccontextmanager
async def open_floor(bench: Bench) -> AsyncGenerator[Floor]:
    """A floor on the disk, or the server, that is measured."""
    if bench.world == "postgres":
        async with open_postgres_floor(bench.server) as floor:
            yield floor
    else:
        async with _open_sqlite_floor(bench.directory) as floor:
            yield floor


@asynccontextmanager
async def _open_sqlite_floor(directory: Path) -> AsyncGenerator[Floor]:
    database = connect(str(directory / "floor.db"))
    try:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        database.execute(SqliteFloor.CREATE)
        yield SqliteFloor(database)
    finally:
        database.close()


@asynccontextmanager
async def open_postgres_floor(server: str) -> AsyncGenerator[PostgresFloor]:
    """A floor on a server."""
    connection = await driver.connect(server)
    try:
        await connection.execute(PostgresFloor.CREATE)
        yield PostgresFloor(connection)
    finally:
        await connection.close()
