"""A turn of very many calls is taken over from a snapshot within it, at the cost of what came behind that."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec
import pytest

from benchmarks.long_log import write_turn
from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.engine.load import load_state
from outlast.engine.spacing import RECORD_WEIGHT, SNAPSHOT_WEIGHT, Spacing
from outlast.fold import SessionState, records_of
from outlast.gate import Point
from outlast.records import Snapshot
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.world import Commit, World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, opened

CALLS = 150
OFTEN = partial(Spacing, 20_000, worth=2_000, part=1_000)
"""A snapshot every few calls."""
MANY = 10_000
MANY_S = 5.0
"""Seconds of a processor; it takes a tenth of one."""


class Walk:
    """A loop of so many calls with long results, and how often each took effect."""

    def __init__(self, calls: int = CALLS) -> None:
        self.ran: Counter[int] = Counter()

        @tool
        async def work(io: ToolIO, number: int) -> str:
            """Do a piece of the work."""
            self.ran[number] += 1
            return f"{number} " * (10_000 if number % 3 == 0 else 10)

        async def run(io: IO, prompt: str) -> object:
            results = [await io.tool("work", number=number) for number in range(calls)]
            return [len(result) for result in results]

        self.agent = Agent("tester", Loop(run), tools=[work])

    async def die_in(self, world: World, call: int, name: str, *, dead: Sequence[str] = ()) -> None:
        """A worker carries the turn up to a call, and dies once that has taken effect and been written down."""
        mortal = MortalWorld(world)
        gate = DeathGate(Spot(Point.AFTER_OUTCOME, "never", call), mortal)
        with pytest.raises(Killed):
            await Desk(mortal, gate=gate, name=name, dead=frozenset(dead), spacing=OFTEN).work(self.agent)


class Reads(AroundWorld):
    """Counts the commits and blobs that are read."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.commits_read: list[int] = []
        self.round_trips = 0

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        found = await super().commits(session, after, limit)
        self.commits_read.extend(commit.header.seq for commit in found)
        return found

    async def get_many(self, session: str, hashes: Sequence[str]) -> dict[str, bytes]:
        self.round_trips += 1
        return dict(await super().get_many(session, hashes))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_memory() as found:
        yield found


async def snapshots(world: World) -> list[Snapshot]:
    """Those in the log, with what each weighs."""
    found = [record for commit in await world.commits("s-1") for record in records_of("s-1", commit)]
    return [record for record in found if isinstance(record, Snapshot)]


def bare(state: SessionState) -> SessionState:
    """The state without what is only a hint."""
    return msgspec.structs.replace(state, held=[])


async def test_a_turn_is_taken_over_from_a_snapshot_within_it(world: World) -> None:
    walk = Walk()
    session = await opened(world, walk.agent)
    await walk.die_in(world, 100, "dead-1")
    newest = (await session.head()).snapshot_seq
    assert newest > 100
    await walk.die_in(world, 30, "dead-2", dead=["dead-1"])
    assert (await session.head()).snapshot_seq > newest
    reads = Reads(world)
    desk = Desk(reads, name="heir", dead=frozenset({"dead-1", "dead-2"}), spacing=OFTEN)
    newest = (await session.head()).snapshot_seq
    await desk.work(walk.agent)
    assert min(reads.commits_read) == newest
    assert reads.round_trips < CALLS / 3  # some results are fetched in one go, and some parts
    assert (await session.result(1)).status == "done"
    assert set(walk.ran.values()) == {1}


async def test_every_snapshot_of_a_turn_says_what_the_log_says(world: World) -> None:
    walk = Walk(60)
    session = await opened(world, walk.agent)
    await walk.die_in(world, 55, "dead-1")
    whole = await load_state(world, "s-1")
    commits = await world.commits("s-1")
    within = [commit.header.seq for commit in commits if commit.header.snapshot]
    assert len(within) > 3
    for seq in within:
        assert bare(await load_state(world, "s-1", seq)) == bare(whole)
    await Desk(world, name="heir", dead=frozenset({"dead-1"}), spacing=OFTEN).work(walk.agent)
    assert (await session.result(1)).status == "done"


async def test_a_settled_call_is_written_down_in_one_snapshot_only(world: World) -> None:
    walk = Walk()
    await opened(world, walk.agent)
    await walk.die_in(world, 140, "dead-1")
    found = await snapshots(world)
    sizes = [len(record.bare.json) + record.bare.size for record in found]
    assert len(sizes) > 5
    assert max(sizes) < 2 * min(sizes) + 1_000  # whatever the age of the turn
    held = [sum(shelf.count for shelf in record.kept.calls.values()) for record in found]
    assert held == sorted(held)
    assert held[-1] > 100


async def test_the_end_of_a_long_turn_is_followed_by_a_snapshot_without_its_calls(world: World) -> None:
    walk = Walk(40)
    session = await opened(world, walk.agent)
    await Desk(world, spacing=OFTEN).work(walk.agent)
    head = await session.head()
    (commit,) = await world.commits("s-1", head.snapshot_seq - 1, 1)
    assert (commit.header.turn_open, head.worker) == (False, None)
    assert not (await snapshots(world))[-1].kept.calls


async def test_a_turn_of_many_calls_reads_no_more_than_what_came_behind_its_newest_snapshot(
    world: World,
) -> None:
    ran: list[int] = []

    @tool(replay="safe")
    async def work(io: ToolIO, number: int) -> str:
        """Do a piece of the work."""
        ran.append(number)
        return "done"

    async def run(io: IO, prompt: str) -> object:
        return len([await io.tool("work", number=number) for number in range(MANY + 1)])

    agent = Agent("tester", Loop(run), tools=[work])
    await write_turn(world, "s-1", agent, MANY, "work")
    reads = Reads(world)
    began_s = time.process_time()
    await Desk(reads).work(agent)
    assert time.process_time() - began_s < MANY_S
    assert ran == [MANY]
    read = [
        commit for commit in await world.commits("s-1", limit=MANY) if commit.header.seq in reads.commits_read
    ]
    assert (
        sum(commit.header.events for commit in read) * RECORD_WEIGHT < SNAPSHOT_WEIGHT + 100 * RECORD_WEIGHT
    )
