"""What every statement of one transaction shares: the connection, the time, and whom to tell when it has landed."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from outlast.errors import SessionErased, SessionUnknown
from outlast.worlds.sqlite.database import Database, Value
from outlast.worlds.sqlite.statements import statements

SQL: Final = statements(__file__)
FIND_TENANT: Final = SQL["find_tenant"]
FIND_SESSION: Final = SQL["find_session"]
FIND_TO_WRITE: Final = SQL["find_to_write"]
NEWEST_CHANGE: Final = SQL["newest_change"]

SHIFT: Final = 28
ALIVE: Final = 0


class Row(NamedTuple):
    """A session as it is stored. The order is that of `find_session`."""

    pk: int
    tenant: int
    state: int
    seq: int
    fence: int
    format: int
    snapshot_seq: int
    turn_open: int
    parked: int
    wake_at_s: float | None
    status: str
    worker: str | None
    route: int
    ready_at: float | None
    waiting: int
    arrivals: int

    def at(self, seq: int) -> int:
        """The key of commit `seq` and of the deltas after it."""
        return self.pk << SHIFT | seq


class Query:
    """A connection within a transaction, to be read."""

    def __init__(self, database: Database, world: str, now_s: float) -> None:
        self.run = database.execute
        self.world = world
        self.now_s = now_s

    def rows(self, statement: str, bindings: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """All rows."""
        return self.run(statement, bindings).fetchall()

    def one(self, statement: str, bindings: Sequence[Value] = ()) -> tuple[Any, ...] | None:
        """The only row, or None."""
        # All are fetched: a statement that is left half read keeps its transaction open.
        found = self.run(statement, bindings).fetchall()
        return found[0] if found else None

    def find_tenant(self, tenant: str) -> int | None:
        """The number of a tenant that has ever had a session."""
        found = self.one(FIND_TENANT, (tenant,))
        return found[0] if found else None

    def find(self, tenant: str, session: str) -> Row | None:
        """A session, alive or not."""
        found = self.one(FIND_SESSION, (tenant, session))
        return Row(*found) if found else None

    def get(self, tenant: str, session: str) -> Row:
        """A session that is alive.

        Raises:
            SessionUnknown, SessionErased
        """
        row = self.find(tenant, session)
        if row is None:
            raise SessionUnknown(session=session, world=self.world)
        if row.state != ALIVE:
            raise SessionErased(session=session)
        return row


class Transaction(Query):
    """A transaction that writes."""

    def __init__(
        self, database: Database, world: str, now_s: float, deadline: Callable[[str], float]
    ) -> None:
        super().__init__(database, world, now_s)
        self.told: set[int] = set()
        """Keys of those to be told that something changed (`hints.key`)."""
        self._deadline = deadline
        self._changes: dict[str, int] = {}

    def find(self, tenant: str, session: str) -> Row | None:
        """A session, alive or not."""
        found = self.one(FIND_TO_WRITE, (tenant, session))
        if found is None:
            return None
        *columns, newest = found
        self._changes.setdefault(tenant, newest or 0)
        return Row(*columns)

    def stands(self, worker: str | None) -> bool:
        """The worker's row stands, and so do its leases."""
        return worker is not None and self._deadline(worker) > self.now_s

    def newest_change(self, tenant: str) -> int | None:
        """The newest number in the order of changes of a tenant, if it is known."""
        return self._changes.get(tenant)

    def changed(self, tenant: str, change: int) -> None:
        """A statement has given away the number `change`."""
        self._changes[tenant] = change

    def next_change(self, tenant: str) -> int:
        """The next number in the order of changes of a tenant."""
        change = self._changes.get(tenant)
        if change is None:
            found = self.one(NEWEST_CHANGE, (tenant,))
            change = found[0] if found else 0
        self._changes[tenant] = change + 1
        return change + 1
