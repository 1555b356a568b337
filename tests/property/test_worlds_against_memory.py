"""Each World, beside the memory World, through the same random lives: the same results, errors and streams."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.clock import ManualClock
from outlast.errors import OutlastError
from outlast.testing.world_contract.blocks import commit, pieces, read
from outlast.world import (
    START,
    Claim,
    Delta,
    Input,
    Lease,
    Limits,
    SessionHead,
    Takeover,
    WorkerOffer,
    WorkerRow,
    World,
)
from outlast.worlds.memory import MemoryStore, MemoryWorld
from outlast.worlds.memory.follow import behind
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.servers.postgres import PostgresServer

WITHOUT_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Here nothing is lost with the machine, so that no fsync has to be waited for."""
SESSIONS = ("a", "b")
FORKS = ("f", "g")
WORKERS = ("w1", "w2")
INPUTS = ("i1", "i2", "i3")
BLOBS = ("h1", "h2", "h3")
NOBODY = SessionHead("", "", "", 0, 0, 0, 0, False, False, None, "", None, 0, 0.0, 0.0)  # noqa: FBT003 a blank form

near = st.sampled_from((0, 0, 0, 0, 0, 0, -1, 1))
some_inputs = st.lists(st.sampled_from(INPUTS), max_size=2).map(tuple)
some_blobs = st.lists(st.sampled_from(BLOBS), max_size=2).map(tuple)
wake = st.sampled_from((None, None, None, -5.0, 3.0, 50.0))
priorities = st.sampled_from((None, None, 0, 3, -100))
limits = st.sampled_from(
    (Limits(), Limits(), Limits({"coder": 1}), Limits(whole=1), Limits({"writer": 0}, 2))
)


@dataclass(frozen=True)
class Facts:
    """What a random commit says."""

    body: bytes
    events: int
    sealed: int
    consumes: tuple[str, ...]
    refs: tuple[str, ...]
    given: tuple[str, ...]
    turn_open: bool
    parked: bool
    wake_in_s: float | None
    snapshot: bool
    release: bool
    format: int


facts = st.builds(
    Facts,
    body=st.binary(max_size=3),
    events=st.integers(0, 3),
    sealed=st.integers(0, 4),
    consumes=st.one_of(st.just(()), some_inputs),
    refs=st.one_of(st.just(()), some_blobs),
    given=some_blobs,
    turn_open=st.booleans(),
    parked=st.sampled_from((False, False, True)),
    wake_in_s=wake,
    snapshot=st.booleans(),
    release=st.sampled_from((False, False, False, True)),
    format=st.sampled_from((1, 1, 1, 2)),
)
session = st.sampled_from(SESSIONS)
any_session = st.sampled_from((*SESSIONS, *FORKS))
worker = st.sampled_from(WORKERS)

Step: TypeAlias = tuple[object, ...]
deltas = st.lists(st.binary(max_size=2), min_size=1, max_size=3)
likely = st.one_of(
    st.tuples(st.just("commit"), session, facts, st.just(0), st.just(0)),
    st.tuples(st.just("publish"), session, st.just(0), st.just(0), deltas),
    st.tuples(st.just("claim"), worker, st.none(), st.just(()), st.just(2), st.just(Limits())),
    st.tuples(st.just("input"), session, st.sampled_from(INPUTS), st.just(b"x"), some_blobs, st.none()),
    st.tuples(st.just("renew"), worker, st.just(10.0)),
)
"""What moves a life on."""
unlikely = st.one_of(
    st.tuples(
        st.just("create"),
        session,
        facts,
        st.sampled_from(("coder", "coder", "writer")),
        st.sampled_from((0, 0, 5)),
    ),
    st.tuples(st.just("commit"), session, facts, near, near),
    st.tuples(st.just("again"), session, st.integers(1, 4)),
    st.tuples(st.just("idle"), session, facts, near),
    st.tuples(st.just("publish"), session, near, near, deltas),
    st.tuples(
        st.just("input"),
        session,
        st.sampled_from(INPUTS),
        st.sampled_from((b"x", b"y")),
        some_blobs,
        priorities,
    ),
    st.tuples(
        st.just("claim"),
        worker,
        st.one_of(st.none(), session),
        st.sampled_from(((), ("w1",), ("w2",))),
        st.sampled_from((1, 2, 2)),
        limits,
    ),
    st.tuples(st.just("drop"), session, near, st.integers(-2, 40)),
    st.tuples(st.just("release"), session, near),
    st.tuples(st.just("renew"), worker, st.sampled_from((1.0, 10.0))),
    st.tuples(st.just("retire"), worker),
    st.tuples(st.just("turn"), st.sampled_from((0.5, 2.0, 20.0))),
    st.tuples(st.just("blobs"), session, some_blobs),
    st.tuples(st.just("erase"), any_session),
    st.tuples(
        st.just("fork"), any_session, st.sampled_from((*FORKS, *FORKS, "b")), st.integers(-1, 5), facts, near
    ),
    st.tuples(st.just("commit"), st.sampled_from(FORKS), facts, st.just(0), st.just(0)),
    st.tuples(st.just("claim"), worker, st.sampled_from(FORKS), st.just(()), st.just(2), st.just(Limits())),
)
"""What crosses it."""
steps = st.one_of(likely, likely, unlikely)
beginning: list[Step] = [
    ("create", "a", Facts(b"", 1, 0, (), (), ("h1",), True, False, None, False, False, 1), "coder"),  # noqa: FBT003
    ("create", "b", Facts(b"", 1, 0, (), ("h1",), ("h2",), True, False, None, False, False, 1), "coder"),  # noqa: FBT003
    ("renew", "w1", 10.0),
    ("claim", "w1", "a", (), 2, Limits()),
]


class Pair:
    """Two Worlds that must not be told apart."""

    def __init__(self, model: MemoryWorld, store: MemoryStore, real: World, clock: ManualClock) -> None:
        self.model = model
        self.store = store
        self.real = real
        self.clock = clock
        self.written: dict[tuple[str, int], tuple[Lease, Facts, float]] = {}

    async def head(self, session: str) -> SessionHead:
        try:
            return await self.model.get(session)
        except OutlastError:
            return NOBODY

    async def both(self, act: Callable[[World], Awaitable[object]]) -> object:
        model, real = await outcome(act, self.model), await outcome(act, self.real)
        assert real == model
        return model

    async def create(self, session: str, new: Facts, agent: str, priority: int = 0) -> None:
        first = self.make(1, 0, replace(new, consumes=()))
        labels = {"agent": agent}
        await self.both(
            lambda world: world.create(session, first, agent=agent, labels=labels, priority=priority)
        )

    async def fork(self, source: str, session: str, back: int, new: Facts, stale: int) -> None:
        head = await self.head(source)
        at = max(1, head.seq - back)
        kept = self.store.sessions.get(("default", source))
        there = [] if kept is None else kept.commits[at - 1 : at]
        fence = there[0].header.fence if there else head.fence
        first = self.make(at + 1, fence + stale, replace(new, consumes=(), sealed=0))
        await self.both(lambda world: world.fork(source, session, first, labels={"agent": "writer"}))

    def make(self, seq: int, fence: int, new: Facts, now: float | None = None):  # noqa: ANN201 a Commit
        at = None if new.wake_in_s is None else (now or self.clock.now()) + new.wake_in_s
        return commit(
            seq,
            fence,
            new.body,
            {name: name.encode() for name in new.given},
            events=new.events,
            sealed=new.sealed,
            consumes=new.consumes,
            refs=new.refs,
            turn_open=new.turn_open,
            parked=new.parked,
            wake_at_s=at,
            snapshot=new.snapshot,
            release=new.release,
            format=new.format,
            status=f"status {seq}",
        )

    async def commit(self, session: str, new: Facts, off: int, stale: int) -> None:
        head = await self.head(session)
        lease = Lease(session, head.fence + stale, head.worker or "w1")
        seq = head.seq + 1 + off
        self.written.setdefault((session, seq), (lease, new, self.clock.now()))
        entry = self.make(seq, lease.fence, new)
        await self.both(lambda world: world.commit_many([(lease, entry)]))

    async def again(self, session: str, back: int) -> None:
        head = await self.head(session)
        found = self.written.get((session, head.seq + 1 - back))
        if found is not None:
            lease, new, now = found
            entry = self.make(head.seq + 1 - back, lease.fence, new, now)
            await self.both(lambda world: world.commit_many([(lease, entry)]))

    async def idle(self, session: str, new: Facts, off: int) -> None:
        head = await self.head(session)
        entry = self.make(head.seq + 1 + off, head.fence, new)
        await self.both(lambda world: world.commit_idle(session, entry))

    async def publish(self, session: str, off: int, shift: int, bodies: list[bytes]) -> None:
        head = await self.head(session)
        kept = self.store.sessions.get(("default", session))
        there = len(kept.deltas.get(head.seq, ())) if kept else 0
        lease = Lease(session, head.fence, head.worker or "w1")
        deltas = [Delta(body) for body in bodies]
        first = max(0, there + shift)
        # The same index is only ever published with the same bytes.
        deltas = deltas if shift >= 0 or not kept else [*kept.deltas.get(head.seq, ())[first:], *deltas]
        await self.both(lambda world: world.publish(lease, head.seq + off, first, deltas))

    async def drop(self, session: str, stale: int, before: int) -> None:
        head = await self.head(session)
        lease = Lease(session, head.fence + stale, head.worker or "w1")
        await self.both(lambda world: world.drop_deltas(lease, before))

    async def input(
        self, session: str, name: str, body: bytes, blobs: tuple[str, ...], priority: int | None
    ) -> None:
        given = {blob: blob.encode() for blob in blobs}
        new = Input(name, body.hex(), body, blobs[:1], given, priority=priority)
        await self.both(lambda world: world.put_input(session, new))

    async def claim(
        self, worker: str, only: str | None, dead: tuple[str, ...], newest: int, limits: Limits
    ) -> None:
        offer = WorkerOffer(
            worker, frozenset({"coder"}), newest, dead=frozenset(dead), only=only, limits=limits
        )
        takeover = Takeover(worker.encode(), 1, 1)
        real = await self.real.claim(offer, takeover)
        # Which of several ready sessions is given is the World's choice; that it was ready is not.
        wanted = offer if real is None else replace(offer, only=real.lease.session)
        model: Claim | None = await self.model.claim(wanted, takeover)
        assert real == model

    async def release(self, session: str, stale: int) -> None:
        head = await self.head(session)
        await self.both(lambda world: world.release(Lease(session, head.fence + stale, head.worker or "w1")))

    async def renew(self, worker: str, ttl_s: float) -> None:
        for world in (self.model, self.real):
            liveness = world.open_liveness()
            assert liveness.renew(WorkerRow(worker, "holder", 0.0), ttl_s) == pytest.approx(ttl_s, abs=1e-5)
            liveness.close()

    async def retire(self, worker: str) -> None:
        for world in (self.model, self.real):
            liveness = world.open_liveness()
            liveness.retire(worker)
            liveness.close()

    async def turn(self, seconds: float) -> None:
        self.clock.turn(seconds)

    async def follow(self, session: str) -> None:
        """From before everything, and from behind each single thing."""
        kept = self.store.sessions.get(("default", session))
        if kept is None or kept.erased:
            return
        for cursor in [START, *(cursor for cursor, _ in pieces(list(behind(kept, START))))]:
            wanted = list(behind(kept, cursor))
            assert pieces(await read(self.real, session, len(wanted), cursor)) == pieces(wanted)

    async def blobs(self, session: str, names: tuple[str, ...]) -> None:
        await self.both(lambda world: world.get_many(session, names))

    async def erase(self, session: str) -> None:
        await self.both(lambda world: world.erase(session))

    async def compare(self) -> None:
        for name in (*SESSIONS, *FORKS):
            await self.both(partial(_get, session=name))
            await self.both(partial(_commits, session=name))
            await self.both(partial(_inputs, session=name))
            await self.follow(name)
            for input_id in INPUTS:
                await self.both(partial(_find, session=name, input_id=input_id))
        await self.both(_list)
        await self.both(_workers)


async def _get(world: World, session: str) -> object:
    return await world.get(session)


async def _commits(world: World, session: str) -> object:
    return list(await world.commits(session))


async def _inputs(world: World, session: str) -> object:
    return list(await world.inputs(session))


async def _find(world: World, session: str, input_id: str) -> object:
    return await world.find_input(session, input_id)


async def _list(world: World) -> object:
    page = await world.list(limit=2)
    rest = await world.list(after=page.next) if page.next else page
    narrow = await world.list(labels={"agent": "writer"})
    return list(page.sessions), list(rest.sessions), list(narrow.sessions)


async def _workers(world: World) -> object:
    return sorted((row.worker, row.holder, round(row.deadline_s, 3)) for row in await world.workers())


async def outcome(act: Callable[[World], Awaitable[object]], world: World) -> object:
    """What came of it: a result, or the error with its facts but for the World's name."""
    try:
        result = await act(world)
    except OutlastError as error:
        return plain(error)
    if isinstance(result, list):
        return [plain(part) if isinstance(part, OutlastError) else part for part in result]  # pyright: ignore[reportUnknownVariableType] the results of commit_many
    return dict(result) if isinstance(result, Mapping) else result  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] blobs by hash


def plain(error: OutlastError) -> object:
    return type(error), {name: fact for name, fact in error.facts.items() if name != "world"}


OpenAgain: TypeAlias = Callable[[ManualClock], AbstractAsyncContextManager[World]]


async def live(story: list[Step], open_again: OpenAgain) -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    async with open_again(clock) as real:
        pair = Pair(MemoryWorld(store), store, real, clock)
        for verb, *words in story:
            await getattr(pair, str(verb))(*words)
        await pair.compare()
    async with open_again(clock) as real:
        await Pair(pair.model, store, real, clock).compare()


def live_in_sqlite(story: list[Step]) -> None:
    with TemporaryDirectory(dir=WITHOUT_DISK) as directory:
        path = Path(directory) / "world.db"

        def open_again(clock: ManualClock) -> AbstractAsyncContextManager[World]:
            return open_sqlite(path, clock=clock)

        anyio.run(live, [*beginning, *story], open_again)


def live_in_postgres(story: list[Step], server: PostgresServer) -> None:
    url = server.new_url()

    def open_again(clock: ManualClock) -> AbstractAsyncContextManager[World]:
        return open_postgres(url, clock=clock)

    anyio.run(live, [*beginning, *story], open_again)


@given(story=st.lists(steps, min_size=30, max_size=60))
def test_sqlite_cannot_be_told_from_memory(story: list[Step]) -> None:
    live_in_sqlite(story)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(story=st.lists(steps, min_size=50, max_size=150))
def test_sqlite_cannot_be_told_from_memory_through_long_lives(story: list[Step]) -> None:
    live_in_sqlite(story)


@pytest.mark.server
@settings(max_examples=min(20, settings().max_examples * 2 // 3))
@given(story=st.lists(steps, min_size=30, max_size=60))
def test_postgres_cannot_be_told_from_memory(postgres: PostgresServer, story: list[Step]) -> None:
    live_in_postgres(story, postgres)


@pytest.mark.server
@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(story=st.lists(steps, min_size=50, max_size=150))
def test_postgres_cannot_be_told_from_memory_through_long_lives(
    postgres: PostgresServer, story: list[Step]
) -> None:
    live_in_postgres(story, postgres)
