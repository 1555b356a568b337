"""The World in Postgres under SIGKILL: of its server while it works, and of the processes that write to it."""

import random
from functools import partial

import anyio
import anyio.to_thread
import pytest

from outlast.engine.batch import patiently
from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    held,
    opened,
    renew,
    whole,
)
from outlast.world import START, Commit, Delta, Gap, Input, Item, Lease, World
from outlast.worlds.postgres import Pace, open_postgres
from tests.crash.writers import SESSIONS, SOON_S, kept, killed
from tests.servers.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.crash

PATIENCE_S = 60.0


class Ledger:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}
        self.inputs: list[str] = []
        self._grown = anyio.Event()

    def note(self, session: str, seq: int) -> None:
        """A commit was acknowledged."""
        self.commits[session] = seq
        self._grown.set()

    async def grow(self, count: int) -> None:
        """Wait until so many more commits are acknowledged."""
        wanted = sum(self.commits.values()) + count
        with anyio.fail_after(SOON_S):
            while sum(self.commits.values()) < wanted:
                self._grown = anyio.Event()
                await self._grown.wait()


async def write(world: World, lease: Lease, ledger: Ledger, until: anyio.Event) -> None:
    """Inputs, deltas and commits of one session, each put again until it is known that it landed."""
    session, seq = lease.session, 2
    while not until.is_set():
        new = Input(f"in-{seq}", "d", b"input %d" % seq)
        await patiently(partial(world.put_input, session, new), patience_s=PATIENCE_S)
        ledger.inputs.append(f"{session} {new.id}")
        deltas = [Delta(b"%d.%d" % (seq, index)) for index in range(2)]
        await patiently(partial(world.publish, lease, seq, 0, deltas), patience_s=PATIENCE_S)
        body = b"%d of %s" % (seq + 1, session.encode())
        entry = (lease, commit(seq + 1, lease.fence, body, sealed=2, consumes=(new.id,)))
        [refused] = await patiently(partial(world.commit_many, [entry]), patience_s=PATIENCE_S)
        assert refused is None, repr(refused)
        seq += 1
        ledger.note(session, seq)


async def test_what_was_acknowledged_outlives_sigkill_of_the_server_under_load_and_nothing_is_twice(
    seed: int,
) -> None:
    draw = random.Random(seed)
    ledger, until = Ledger(), anyio.Event()
    with postgres_server() as server:
        url = server.new_url()
        async with open_postgres(url, pace=Pace(patience_s=10.0, connect_s=SOON_S)) as world:
            leases = [await held(world, session) for session in SESSIONS]
            async with anyio.create_task_group() as writers:
                for lease in leases:
                    writers.start_soon(write, world, lease, ledger, until)
                for _ in range(4):
                    await ledger.grow(draw.randrange(5, 60))
                    await anyio.to_thread.run_sync(server.kill)
                    await anyio.to_thread.run_sync(server.start)
                await ledger.grow(20)
                until.set()
            renew(world, "w1")
            await check(world, ledger)
        async with open_postgres(url) as world:
            await check(world, ledger)


async def check(world: World, ledger: Ledger) -> None:
    for session, seq in ledger.commits.items():
        commits = await whole(world, session)
        assert len(commits) == seq
        assert [there.header.seq for there in commits] == list(range(1, seq + 1))
        for there in commits[2:]:
            assert there.body == b"%d of %s" % (there.header.seq, session.encode())
        assert await world.inputs(session) == []
        # Deltas may be lost with the server, whole: those that count and are gone come as a gap.
        shown = sum(
            item.what.count if isinstance(item.what, Gap) else 1
            for item in await read_all(world, session, seq)
            if not isinstance(item.what, Commit)
        )
        assert shown == 2 * (seq - 2)
    for name in ledger.inputs:
        session, input_id = name.split()
        there = await world.find_input(session, input_id)
        assert there is not None
        assert there.consumed_by == int(input_id.removeprefix("in-")) + 1


async def read_all(world: World, session: str, seq: int) -> list[Item]:
    items: list[Item] = []
    async for item in world.follow(session, START):
        items.append(item)
        if isinstance(item.what, Commit) and item.cursor.seq == seq:
            return items
    return items


async def test_a_server_that_comes_back_finds_its_workers_and_watchers_still_there() -> None:
    with postgres_server() as server:
        url = server.new_url()
        async with open_postgres(url, pace=Pace(connect_s=SOON_S, poll_s=0.2)) as world:
            lease = await held(world)
            liveness = world.open_liveness()
            async with world.subscribe("s") as hints:
                with anyio.fail_after(SOON_S):
                    await world.store.poll.listening.wait()
                await anyio.to_thread.run_sync(server.kill)
                await anyio.to_thread.run_sync(server.start)
                with anyio.fail_after(SOON_S):
                    while not world.store.poll.listening.is_set():
                        await hints.wait(0.1)
                entry = (lease, commit(3, 1))
                assert await patiently(partial(world.commit_many, [entry])) == [None]
                assert await hints.wait(SOON_S)
            renew(world, "w1")
            liveness.close()
            [row] = await world.workers()
            assert row.worker == "w1"


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=[pytest.mark.full, pytest.mark.timeout(600)])])
async def test_what_was_acknowledged_outlives_sigkill_of_its_writers(
    postgres: PostgresServer, seed: int, kills: int
) -> None:
    draw = random.Random(seed)
    url = postgres.new_url()
    acknowledged: dict[str, int] = {}
    async with open_postgres(url) as world:
        for session in SESSIONS:
            await opened(world, session)
        for kill in range(kills):
            acknowledged |= await killed("postgres", url, kill, draw)
        await kept(world, acknowledged)
        # The last of them may have been killed in the middle of a claim: whoever comes next still gets each session.
        for session in SESSIONS:
            assert (await claimed(world, "heir", session, dead=[f"w{kills - 1}"])).proof == "proved"
