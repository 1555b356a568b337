"""A connection to SQLite, as far as it is used here."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

import apsw

Value: TypeAlias = str | bytes | int | float | None

STATEMENTS: Final = 200
"""Prepared statements that a connection keeps: all of ours."""
FOREIGN_LOCK_MS: Final = 20_000
"""How long another program that does not stand in our line may hold the database's lock."""


class Rows(Protocol):
    """What a statement returns, read as it is fetched."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All that is left."""
        ...


class Database(Protocol):
    """A connection. Belongs to one thread."""

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Rows:
        """Run one statement or several."""
        ...

    def get_autocommit(self) -> bool:
        """No transaction is open."""
        ...

    def set_busy_timeout(self, milliseconds: int, /) -> None:
        """How long a statement may wait for a lock that another connection holds."""
        ...

    def set_wal_hook(self, hook: Callable[[object, str, int], int], /) -> None:
        """Call `hook` after each commit with the number of pages that the WAL has then, in place of checkpoints."""
        ...

    def close(self) -> None:
        """End it; the last one to end writes the WAL back."""
        ...


def connect(address: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> Database:
    """Open a database by path or URI."""
    connection = apsw.Connection(address, flags=flags, statementcachesize=STATEMENTS)
    connection.set_busy_timeout(FOREIGN_LOCK_MS)
    # apsw's own annotations name types that Python 3.11 lacks.
    return cast("Database", connection)
