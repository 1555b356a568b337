"""One tenant's handle on a World in a SQLite file. The promises are those of `outlast.world`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from outlast.errors import WorldReadOnly
from outlast.world import (
    Capability,
    Claim,
    Commit,
    Cursor,
    Delta,
    Input,
    Item,
    Lease,
    Page,
    SessionHead,
    Spent,
    Stored,
    Subscription,
    Takeover,
    WorkerOffer,
    WorkerRow,
)
from outlast.world.beginning import Fork, Opening
from outlast.world.checks import check_fork, check_input, check_opening, parse_token
from outlast.world.hints import ANYONE, Hints, inbox_key, key, ready_key
from outlast.worlds.sqlite import claims, erase, forks, inputs, reads, writes
from outlast.worlds.sqlite.follow import behind
from outlast.worlds.sqlite.liveness import SqliteLiveness
from outlast.worlds.sqlite.store import SqliteStore
from outlast.worlds.sqlite.transaction import Query, Transaction

T = TypeVar("T")

CAPABILITIES: Final = frozenset(
    {
        Capability.DURABLE,
        Capability.MULTI_PROCESS,
        Capability.POWER_LOSS_SAFE,
        Capability.PUSH,
        Capability.EXACT_LIMITS,
    }
)
ROW_BYTES: Final = 200
"""What a commit costs besides its bodies, roughly: it bounds a batch."""
REREAD_S: Final = 60.0
"""A watcher that is told nothing looks again this often; the poll sees everything long before."""


class SqliteWorld:
    """One tenant's view of a `SqliteStore`. Belongs to the event loop on which it was opened."""

    def __init__(self, store: SqliteStore, tenant: str = "default") -> None:
        self.store = store
        self._tenant = tenant

    @property
    def name(self) -> str:
        return self.store.files.name

    @property
    def tenant(self) -> str:
        return self._tenant

    @property
    def capabilities(self) -> frozenset[Capability]:
        return CAPABILITIES

    def for_tenant(self, tenant: str = "default") -> "SqliteWorld":
        return SqliteWorld(self.store, tenant)

    def _write(
        self, call: Callable[[Transaction], T], *, size: int = 0, durable: bool = True, brief: bool = True
    ) -> asyncio.Future[T]:
        if self.store.writer is None:
            raise WorldReadOnly(world=self.name, reason=self.store.access.read_only)
        return self.store.writer.write(call, size=size, durable=durable, brief=brief)

    def _read(self, call: Callable[[Query], T]) -> asyncio.Future[T]:
        return self.store.reader.read(call)

    # Log

    async def create(
        self,
        session: str,
        first: Commit,
        *,
        agent: str,
        placement: str = "any",
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        new = Opening(session, first, agent, placement, dict(labels or {}), priority)
        check_opening(session, first.header, agent, placement, new.labels, priority)
        return await self._write(
            lambda transaction: writes.create(transaction, self._tenant, new), size=_size(first)
        )

    async def fork(
        self,
        source: str,
        session: str,
        first: Commit,
        *,
        placement: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        new = Fork(source, session, first, placement, dict(labels or {}), priority)
        check_fork(session, first.header, placement, new.labels, priority)
        # In the writer's thread: it may copy a long log.
        return await self._write(
            lambda transaction: forks.fork(transaction, self._tenant, new), size=_size(first), brief=False
        )

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        size = sum(_size(commit) for _, commit in commits)
        return await self._write(
            lambda transaction: writes.commit_many(transaction, self._tenant, commits), size=size
        )

    async def commit_idle(self, session: str, commit: Commit) -> None:
        await self._write(
            lambda transaction: writes.commit_idle(transaction, self._tenant, session, commit),
            size=_size(commit),
        )

    async def spent(self, first_day: int) -> Sequence[Spent]:
        return await self._read(lambda query: reads.spent(query, self._tenant, first_day))

    async def stored(self, session: str) -> Stored:
        return await self._read(lambda query: reads.stored(query, self._tenant, session))

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await self._write(
            lambda transaction: writes.publish(transaction, self._tenant, lease, (after, first), deltas),
            size=sum(len(delta.body) for delta in deltas),
            durable=False,
        )

    async def drop_deltas(self, lease: Lease, before: int) -> None:
        drop = partial(writes.drop_deltas, tenant=self._tenant, lease=lease, before=before)
        while await self._write(drop, durable=False, brief=False):
            pass

    async def get(self, session: str) -> SessionHead:
        return await self._read(lambda query: reads.get(query, self._tenant, session))

    async def list(
        self, *, after: str | None = None, limit: int = 100, labels: Mapping[str, str] | None = None
    ) -> Page:
        before, wanted = parse_token(after), dict(labels or {})
        return await self._read(lambda query: reads.page(query, self._tenant, before, limit, wanted))

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        return await self._read(lambda query: reads.commits(query, self._tenant, session, after, limit))

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async with self.subscribe(session) as hints:
            while True:
                look = partial(behind, tenant=self._tenant, session=session, after=after)
                items, more = await self._read(look)
                for item in items:
                    yield item
                    after = item.cursor
                if not more:  # what comes after this look is told of
                    await hints.wait(REREAD_S)

    async def erase(self, session: str) -> None:
        row = await self._write(lambda transaction: erase.entomb(transaction, self._tenant, session))
        if row is None:
            return
        first: int | None = 1
        while first is not None:
            piece = partial(erase.erase_commits, row=row, first=first)
            first = await self._write(piece, brief=False)
        while await self._write(lambda transaction: erase.erase_blobs(transaction, row), brief=False):
            pass
        await self._write(lambda transaction: erase.bury(transaction, row))
        if self.store.writer is not None:
            # The WAL still holds pages as they were before.
            await self.store.writer.carry_over()

    # Inbox

    async def put_input(self, session: str, new: Input) -> Input:
        check_input(new)
        size = len(new.body) + sum(map(len, new.blobs.values()))
        return await self._write(
            lambda transaction: inputs.put_input(transaction, self._tenant, session, new), size=size
        )

    async def inputs(self, session: str) -> Sequence[Input]:
        return await self._read(lambda query: inputs.waiting_inputs(query, self._tenant, session))

    async def find_input(self, session: str, input_id: str) -> Input | None:
        return await self._read(lambda query: inputs.find_input(query, self._tenant, session, input_id))

    # Queue

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        deadline = self.store.workers.deadline
        # Looked at first without the write lock: a worker that polls an idle World costs and hinders nobody.
        if await self._read(lambda query: claims.find_ready(query, self._tenant, offer, deadline)) is None:
            return None
        return await self._write(
            lambda transaction: claims.claim(transaction, self._tenant, offer, takeover, deadline),
            size=len(takeover.body),
        )

    async def release(self, lease: Lease) -> None:
        await self._write(lambda transaction: claims.release(transaction, self._tenant, lease))

    def open_liveness(self) -> SqliteLiveness:
        return self.store.open_liveness()

    async def tenants(self) -> Sequence[str]:
        return await self._read(lambda query: [name for (name,) in query.rows(reads.SQL["tenants"])])

    async def workers(self) -> Sequence[WorkerRow]:
        return await self._read(lambda _: list(self.store.workers.rows()))

    # Blobs and hints

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        return await self._read(lambda query: reads.get_many(query, self._tenant, session, hashes))

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        if session is None:
            return self._subscribe({ready_key(self._tenant), ANYONE})
        return self._subscribe({(inbox_key if inbox else key)(self._tenant, session)})

    @asynccontextmanager
    async def _subscribe(self, keys: set[int]) -> AsyncGenerator[Hints]:
        hints = Hints(frozenset(keys))
        self.store.board.add(hints)
        self.store.poll.watch(self._tenant)
        try:
            yield hints
        finally:
            self.store.board.remove(hints)


def _size(commit: Commit) -> int:
    return ROW_BYTES + len(commit.body) + sum(map(len, commit.blobs.values()))
