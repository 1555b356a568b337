"""One tenant's handle on a World in Postgres. The promises are those of `outlast.world`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

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
from outlast.worlds.postgres import claims, erase, forks, inputs, reads, writes
from outlast.worlds.postgres.follow import behind
from outlast.worlds.postgres.liveness import PostgresLiveness
from outlast.worlds.postgres.store import PostgresStore

CAPABILITIES: Final = frozenset(Capability)
DEAF: Final = CAPABILITIES - {Capability.PUSH}
"""Behind a pooler, with no server named that can be listened to."""
REREAD_S: Final = 60.0
"""A watcher that is told nothing looks again this often; the poll sees everything long before."""


class PostgresWorld:
    """One tenant's view of a `PostgresStore`. Belongs to the event loop on which it was opened."""

    def __init__(self, store: PostgresStore, tenant: str = "default") -> None:
        self.store = store
        self._tenant = tenant

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def tenant(self) -> str:
        return self._tenant

    @property
    def capabilities(self) -> frozenset[Capability]:
        return CAPABILITIES if self.store.listens else DEAF

    def for_tenant(self, tenant: str = "default") -> "PostgresWorld":
        return PostgresWorld(self.store, tenant)

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
        return await writes.create(self.store, self._tenant, new)

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
        return await forks.fork(self.store, self._tenant, new)

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        return await writes.commit_many(self.store, self._tenant, commits)

    async def commit_idle(self, session: str, commit: Commit) -> None:
        await writes.commit_idle(self.store, self._tenant, session, commit)

    async def spent(self, first_day: int) -> Sequence[Spent]:
        return await reads.spent(self.store, self._tenant, first_day)

    async def stored(self, session: str) -> Stored:
        return await reads.stored_of(self.store, self._tenant, session)

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await writes.publish(self.store, self._tenant, lease, (after, first), deltas)

    async def drop_deltas(self, lease: Lease, before: int) -> None:
        await writes.drop_deltas(self.store, self._tenant, lease, before)

    async def get(self, session: str) -> SessionHead:
        return await reads.get(self.store, self._tenant, session)

    async def list(
        self, *, after: str | None = None, limit: int = 100, labels: Mapping[str, str] | None = None
    ) -> Page:
        return await reads.page(self.store, self._tenant, parse_token(after), limit, dict(labels or {}))

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        return await reads.commits(self.store, self._tenant, session, after, limit)

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async with self.subscribe(session) as hints:
            while True:
                items, more = await behind(self.store, self._tenant, session, after)
                for item in items:
                    yield item
                    after = item.cursor
                if not more:  # what comes after this look is told of
                    await hints.wait(REREAD_S)

    async def erase(self, session: str) -> None:
        await erase.erase(self.store, self._tenant, session)

    # Inbox

    async def put_input(self, session: str, new: Input) -> Input:
        check_input(new)
        return await inputs.put_input(self.store, self._tenant, session, new)

    async def inputs(self, session: str) -> Sequence[Input]:
        return await inputs.waiting_inputs(self.store, self._tenant, session)

    async def find_input(self, session: str, input_id: str) -> Input | None:
        return await inputs.find_input(self.store, self._tenant, session, input_id)

    # Queue

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        return await claims.claim(self.store, self._tenant, offer, takeover)

    async def release(self, lease: Lease) -> None:
        await claims.release(self.store, self._tenant, lease)

    def open_liveness(self) -> PostgresLiveness:
        return self.store.open_liveness()

    async def tenants(self) -> Sequence[str]:
        return await reads.tenants(self.store)

    async def workers(self) -> Sequence[WorkerRow]:
        return await reads.workers(self.store)

    # Blobs and hints

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        return await reads.get_many(self.store, self._tenant, session, hashes)

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        if session is None:
            return self._subscribe(None, {ready_key(self._tenant), ANYONE})
        return self._subscribe(session, {(inbox_key if inbox else key)(self._tenant, session)})

    @asynccontextmanager
    async def _subscribe(self, session: str | None, keys: set[int]) -> AsyncGenerator[Hints]:
        hints = Hints(frozenset(keys))
        self.store.board.add(hints)
        self.store.poll.watch(self._tenant, session)
        try:
            yield hints
        finally:
            self.store.poll.unwatch(self._tenant, session)
            self.store.board.remove(hints)
