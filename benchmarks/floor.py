"""The floor: one durable commit of the same bytes, by the same driver, in the same run.

A table with a number and a body, one row inserted per transaction, apsw, WAL, `synchronous=FULL`: the least that
SQLite can do to keep something. Blocks of it are taken between the blocks of what is measured.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from outlast.worlds.sqlite.database import Database, connect

INSERT = "insert into body (bytes) values (?)"


class Floor:
    """A database that takes bytes and does nothing else."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def commits(self, body: bytes, count: int) -> list[float]:
        """Seconds of each of `count` durable commits."""
        taken: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            self._database.execute(INSERT, (body,))
            taken.append(time.perf_counter() - began)
        return taken

    def grouped(self, body: bytes, count: int, together: int) -> float:
        """Commits per second when `together` of them share a transaction."""
        began = time.perf_counter()
        for _ in range(count // together):
            self._database.execute("begin immediate")
            for _ in range(together):
                self._database.execute(INSERT, (body,))
            self._database.execute("commit")
        return count / (time.perf_counter() - began)


@contextmanager
def open_floor(directory: Path) -> Generator[Floor]:
    """A fresh floor on the disk of `directory`."""
    database = connect(str(directory / "floor.db"))
    try:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        database.execute(
            "create table if not exists body (number integer primary key, bytes blob not null) strict"
        )
        yield Floor(database)
    finally:
        database.close()
