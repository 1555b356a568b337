"""A session that grows old is taken over from its newest snapshot, and that says the same as its whole log."""

from collections.abc import Sequence

import msgspec
import pytest

from outlast.engine.load import load_state
from outlast.engine.spacing import SNAPSHOT_AFTER
from outlast.fold import SessionState
from outlast.gate import Point
from outlast.records import Snapshot
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.world import Commit, World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say

CALLS = 12


@tool
async def add(io: ToolIO, number: int) -> str:
    """Add one, at length."""
    return str(number + 1) * 5_000  # stands behind a blob


AGENT = agent_of([say("one two"), *(call("add", number=number) for number in range(CALLS))], add)


class Counted(AroundWorld):
    """Counts what is read of a log."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.read: list[int] = []

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        found = await super().commits(session, after, limit)
        self.read.extend(commit.header.seq for commit in found)
        return found


def compared(state: SessionState) -> SessionState:
    """The state without what is only a hint."""
    return msgspec.structs.replace(state, held=[])


async def grow_old(world: World) -> None:
    """Turn after turn until there is a snapshot."""
    session = await opened(world, AGENT)
    turns = 1
    while not (await session.head()).snapshot_seq:
        turns += 1
        await session.send("go", id=f"in-{turns}")
        await Desk(world).work(AGENT)


async def test_the_end_of_a_turn_writes_a_snapshot_once_enough_was_committed() -> None:
    async with open_memory() as world:
        await grow_old(world)
        head = await world.get("s-1")
        assert SNAPSHOT_AFTER < head.snapshot_seq < SNAPSHOT_AFTER + 4 * CALLS
        assert sum(isinstance(record, Snapshot) for record in await records(world)) == 1
        commit = (await world.commits("s-1", head.snapshot_seq - 1, 1))[0]
        assert (commit.header.snapshot, commit.header.turn_open) == (True, False)


async def test_a_state_loaded_from_its_snapshot_is_that_of_the_whole_log() -> None:
    async with open_memory() as world:
        await grow_old(world)
        head = await world.get("s-1")
        whole = await load_state(world, "s-1")
        assert compared(await load_state(world, "s-1", head.snapshot_seq)) == compared(whole)


async def test_a_take_over_reads_from_the_snapshot_only() -> None:
    async with open_memory() as world:
        await grow_old(world)
        snapshot_seq = (await world.get("s-1")).snapshot_seq
        session = await opened(world, AGENT, "s-1", "go")
        last = await session.send("go", id="in-last")
        mortal = MortalWorld(world)
        spot = Spot(Point.AFTER_OUTCOME, "never", 3)
        dying = Desk(mortal, name="dead", gate=DeathGate(spot, mortal))
        with pytest.raises(Killed):
            await dying.work(AGENT)
        counted = Counted(world)
        await Desk(counted, dead=frozenset({"dead"})).work(AGENT)
        assert (await last.result()).status == "done"
        assert min(counted.read) == snapshot_seq
        assert len(counted.read) == len(set(counted.read))
        assert compared(await load_state(world, "s-1", snapshot_seq)) == compared(
            await load_state(world, "s-1")
        )


async def test_the_next_snapshot_counts_from_the_last() -> None:
    async with open_memory() as world:
        await grow_old(world)
        first = (await world.get("s-1")).snapshot_seq
        session = await opened(world, AGENT, "s-1", "go")
        number = 0
        while (await session.head()).snapshot_seq == first:
            number += 1
            await session.send("go", id=f"more-{number}")
            await Desk(world).work(AGENT)
        assert (await session.head()).snapshot_seq - first > SNAPSHOT_AFTER
        newest = (await session.head()).snapshot_seq
        assert compared(await load_state(world, "s-1", newest)) == compared(await load_state(world, "s-1"))
