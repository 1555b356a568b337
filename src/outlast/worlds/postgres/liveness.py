"""The row that says that a worker lives, renewed over a connection of its own on a thread of its own.

The keeper's thread asks and waits; the driver, which needs an event loop, runs on this handle's own. So neither the
application's loop nor its pool of connections can hold up a renewal. Everything is bounded: the connection, the
statement on the server, and the wait for both.

Races. A claim reads the deadline within its statement; the worker may renew just after it was read as run out. Then
both believe in their lease until the worker's next write, which the raised fence refuses. Renewals wait for the disk
like commits: a server that crashes forgets none, so no claim after it sees an earlier deadline than the worker was
told.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from functools import partial
from typing import Any, Final

from outlast.clock import Clock
from outlast.errors import WorldUnavailable
from outlast.world import WorkerRow
from outlast.world.hints import ANYONE
from outlast.worlds.postgres.address import Address
from outlast.worlds.postgres.database import begin_of, connect
from outlast.worlds.postgres.hints import write_hint
from outlast.worlds.postgres.pool import Pool
from outlast.worlds.postgres.statements import in_schema, statements
from outlast.worlds.postgres.texts import stored

SQL: Final = statements(__file__)
LIMIT_S: Final = 10.0
"""For an answer that no lease waits for."""
SHORTEST_S: Final = 0.2
GRACE_S: Final = 0.5


class PostgresLiveness:
    """A worker's handle on its row. Belongs to one thread at a time, any."""

    def __init__(self, address: Address, clock: Clock | None, channel: str) -> None:
        self._address = address
        self._clock = clock
        self._channel = channel
        self._localized = in_schema(address.schema)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool: Pool | None = None
        self._limit_s = 0.0

    def renew(self, row: WorkerRow, ttl_s: float) -> float:
        """See `outlast.world.Liveness`."""
        now_s = None if self._clock is None else self._clock.now()
        # Asked again by the keeper well before the lease ends.
        limit_s = max(SHORTEST_S, ttl_s / 3)
        self._ask(limit_s, SQL["renew"], stored(row.worker), stored(row.holder), now_s, ttl_s)
        return ttl_s

    def retire(self, worker: str) -> None:
        """See `outlast.world.Liveness`."""
        self._ask(LIMIT_S, SQL["retire"], stored(worker), self._channel, write_hint("-", [ANYONE]))

    def close(self) -> None:
        """See `outlast.world.Liveness`."""
        if self._loop is None or self._thread is None:
            return
        with suppress(Late, WorldUnavailable):
            self._run(LIMIT_S, self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop = self._thread = self._pool = None

    def _ask(self, limit_s: float, statement: str, *bindings: Any) -> None:
        if self._pool is None or limit_s != self._limit_s:
            self._limit_s = limit_s
            self._pool = self._new_pool(limit_s, self._pool)
        self._run(limit_s, self._pool.rows(self._localized(statement), *bindings))

    def _new_pool(self, limit_s: float, old: Pool | None) -> Pool:
        if old is not None:
            self._run(limit_s, old.close())
        connected = partial(connect, self._address, direct=True, connect_s=limit_s, patience_s=limit_s)
        pooled = self._address.pooled and self._address.direct is None
        begin = begin_of(limit_s) if pooled else None
        return Pool(connected, self._address.name, size=1, begin=begin, patience_s=limit_s)

    async def _close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    def _run(self, limit_s: float, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run it on our own loop and wait, a little longer than it may take by itself."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="outlast-postgres-liveness", daemon=True
            )
            self._thread.start()
        under_way = asyncio.run_coroutine_threadsafe(_within(limit_s, coroutine), self._loop)
        try:
            under_way.result(limit_s + GRACE_S)
        except (Late, TimeoutError):
            under_way.cancel()
            reason = f"its server did not answer within {limit_s:g} s"
            raise WorldUnavailable(world=self._address.name, reason=reason) from None


async def _within(limit_s: float, coroutine: Coroutine[Any, Any, object]) -> None:
    async with asyncio.timeout(limit_s):
        await coroutine


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: the loop, until it is stopped."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
