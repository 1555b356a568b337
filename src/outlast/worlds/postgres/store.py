"""What all handles of one opening share: the connections, the hints, and what is known of tenants and routes."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from outlast.clock import Clock
from outlast.world import Header, Lease
from outlast.world.hints import Board
from outlast.worlds.postgres.address import Address
from outlast.worlds.postgres.database import Connection, Rows, Value, begin_of, connect
from outlast.worlds.postgres.failures import unavailable
from outlast.worlds.postgres.hints import Postman
from outlast.worlds.postgres.layout import prepare, scripts
from outlast.worlds.postgres.liveness import PostgresLiveness
from outlast.worlds.postgres.poll import SQL as POLL
from outlast.worlds.postgres.poll import Mail, Poll
from outlast.worlds.postgres.pool import Pool, end
from outlast.worlds.postgres.statements import in_schema, statements
from outlast.worlds.postgres.texts import stored

SQL: Final = statements(__file__)
FORGET_S: Final = 24 * 3600.0
"""How long the row of a worker that no session names is kept after its time ran out."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long this process waits for what."""

    patience_s: float = 30.0
    """For the answer to a statement."""
    connect_s: float = 5.0
    """For a connection, also while the server is away."""
    poll_s: float = 1.0
    """Between two looks for changes that no hint told of."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim that was not answered: the lease that it may have taken, and its takeover."""

    tenant: int
    lease: Lease
    seq: int
    digest: str


class PostgresStore:
    """An opened World. Belongs to one event loop."""

    def __init__(self, address: Address, clock: Clock | None, pace: Pace) -> None:
        self.name = address.name
        self.address = address
        self._clock = clock
        self._pace = pace
        self._localized = in_schema(address.schema)
        self._begin = begin_of(pace.patience_s) if address.pooled else None
        self.pool = Pool(
            partial(self._connect, direct=False),
            self.name,
            size=address.connections,
            begin=self._begin,
            patience_s=pace.connect_s,
        )
        self.board = Board()
        self._postman = Postman(self.pool, self.channel, self.board.tell)
        self.poll = Poll(
            self.board,
            Mail(self.channel, self._postman.name, self._localized(POLL["look"])),
            connect=partial(self._connect, direct=True) if self.listens else None,
            ask=self.pool.rows,
            poll_s=pace.poll_s,
        )
        self.choosing = asyncio.Lock()
        """Held by whoever of this process chooses a session to claim, until it has it."""
        self._tenants: dict[str, int] = {}
        self._routes: dict[tuple[int, str, str, int, int], int] = {}
        self._doubts: dict[Doubt, float] = {}

    @property
    def channel(self) -> str:
        """Where hints are told."""
        return f"outlast:{self.address.schema}"

    @property
    def listens(self) -> bool:
        """There is a server that can be listened to: a pooler cannot."""
        return not self.address.pooled or self.address.direct is not None

    @property
    def now_s(self) -> float | None:
        """The time that a test has set; None lets the server tell it."""
        return None if self._clock is None else self._clock.now()

    async def _connect(self, *, direct: bool) -> Connection:
        pace = self._pace
        return await connect(
            self.address, direct=direct, connect_s=pace.connect_s, patience_s=pace.patience_s
        )

    async def rows(self, statement: str, *bindings: Value) -> Rows:
        """Run one statement as a transaction of its own. See `Pool.rows`."""
        return await self.pool.rows(self._localized(statement), *bindings)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator["Transaction"]:
        """Several statements as one transaction. See `Pool.transaction`."""
        async with self.pool.transaction() as connection:
            yield Transaction(self, connection)

    def localized(self, statement: str) -> str:
        """A statement on the tables of this World."""
        return self._localized(statement)

    def told(self, keys: Iterable[int]) -> None:
        """Something has changed: tell this process now and the others soon."""
        self._postman.tell(keys)

    # Tenants and routes: rows that are never removed, so that what is known of them stays true.

    async def tenant(self, name: str) -> int:
        """The number of a tenant; 0, which none has, if it never had a session."""
        known = self._tenants.get(name)
        if known is None:
            found = await self.rows(SQL["find_tenant"], stored(name))
            if not found:
                return 0
            known = self._tenants[name] = found[0][0]
        return known

    async def make_tenant(self, name: str) -> int:
        """The number of a tenant, who has one from now on."""
        known = await self.tenant(name)
        if not known:
            await self.rows(SQL["add_tenant"], stored(name))
            known = await self.tenant(name)
        return known

    async def route(self, tenant: int, agent: str, placement: str, newest: int, priority: int) -> int:
        """The number of a route, which there is from now on. Agent and placement as they are stored."""
        facts = (tenant, agent, placement, newest, priority)
        known = self._routes.get(facts)
        while known is None:
            found = await self.rows(SQL["find_route"], *facts)
            if found:
                known = self._routes[facts] = found[0][0]
            else:
                await self.rows(SQL["add_route"], *facts)
        return known

    # Claims that were not answered. See `claims.py`.

    def doubt(self, tenant: int, lease: Lease, takeover: Header) -> None:
        """Remember a claim that may have landed."""
        # By then the server has given it up (`statement_timeout`), even if it heard of it as late as can be.
        until_s = asyncio.get_running_loop().time() + 2 * self._pace.patience_s
        self._doubts[Doubt(tenant, lease, takeover.seq, takeover.digest)] = until_s

    def doubts(self, tenant: int) -> list[Doubt]:
        """Those of a tenant that may have landed, or may yet."""
        if self._doubts:
            now_s = asyncio.get_running_loop().time()
            self._doubts = {doubt: until_s for doubt, until_s in self._doubts.items() if until_s > now_s}
        return [doubt for doubt in self._doubts if doubt.tenant == tenant]

    def settle(self, doubt: Doubt) -> None:
        """It is known what became of it."""
        self._doubts.pop(doubt, None)

    def open_liveness(self) -> PostgresLiveness:
        """See `outlast.world.Queue`."""
        return PostgresLiveness(self.address, self._clock, self.channel)

    async def open(self) -> None:
        """Make the tables if there are none, and see whether they are ours.

        Raises:
            WorldUnavailable, WorldForeign, WorldTooNew, WorldTooOld, WorldReadOnly
        """
        try:
            connection = await self._connect(direct=False)
        except Exception as error:
            raise unavailable(self.name, error) from error
        try:
            schema, begin = self.address.schema, self._begin or "begin"
            await prepare(connection, self.name, schema, scripts(), begin=begin)
        finally:
            await end(connection)

    async def tidy(self) -> None:
        """Forget workers that ended long ago and that nothing names any more."""
        await self.rows(SQL["forget"], self.now_s, FORGET_S)

    async def close(self) -> None:
        """Send the hints that wait, then end the connections. Bounded."""
        await self._postman.close()
        await self.poll.close()
        await self.pool.close()


class Transaction:
    """Several statements as one."""

    def __init__(self, store: PostgresStore, connection: Connection) -> None:
        self._store = store
        self._connection = connection

    async def rows(self, statement: str, *bindings: Value) -> Rows:
        """Run one statement within the transaction."""
        return await self._connection.fetch(self._store.localized(statement), *bindings)


@asynccontextmanager
async def open_store(address: Address, clock: Clock | None, pace: Pace) -> AsyncGenerator[PostgresStore]:
    """Open the store, making its tables if there are none."""
    store = PostgresStore(address, clock, pace)
    try:
        await store.open()
        yield store
    finally:
        await store.close()
