"""What a session has cost and saved, from its log alone."""

import msgspec
import pytest

from outlast.costs import Avoided, Counting, SessionCost
from outlast.fold import records_of
from outlast.gate import Point
from outlast.records import Usage
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.world import World
from tests.unit.engine_desk import Desk, agent_of, call, opened
from tests.unit.mirroring import Mirroring
from tests.unit.test_traces import look, spending, wire

EACH = Usage(10, 3, 100, 0, 0.5)


def times(usage: Usage, count: int) -> Usage:
    return sum([usage] * count, start=Usage())


async def cost_of(world: World, session: str = "s-1") -> SessionCost:
    counting = Counting()
    for commit in await world.commits(session):
        counting.take(commit, records_of(session, commit))
    return counting.result()


SCRIPT = [spending("one", call("look")), spending("two", call("wire")), spending("three")]


async def struck(world: World, spot: Spot, *, mirrors: bool = False) -> SessionCost:
    """A turn whose worker is killed there and whose successor goes on."""
    adapter = Mirroring(script=SCRIPT) if mirrors else None
    agent = agent_of(SCRIPT, look, wire, adapter=adapter)
    await opened(world, agent)
    mortal = MortalWorld(world)
    desk = Desk(mortal, gate=DeathGate(spot, mortal), name="dead")
    with pytest.raises(Killed):
        await desk.work(agent)
    await Desk(world, dead=frozenset({"dead"})).work(agent)
    return await cost_of(world)


async def test_what_was_spent_is_what_the_calls_have_cost(world: World) -> None:
    agent = agent_of(SCRIPT, look, wire)
    await opened(world, agent, "s-1", "go", "again")
    await Desk(world).work(agent)
    found = await cost_of(world)
    assert [turn.status for turn in found.turns] == ["done", "done"]
    assert found.whole.usage == times(EACH, 6)
    assert (found.whole.model_calls, found.whole.tool_calls) == (6, 4)
    assert sum(found.days.values(), start=Usage()) == times(EACH, 6)
    assert found.whole.start_over == found.whole.own_continue == Avoided()
    assert found.whole.takeovers == 0


async def test_a_loop_of_ones_own_has_nothing_to_continue_from(world: World) -> None:
    found = await struck(world, Spot(Point.IN_EFFECT, "never", 1))
    assert found.whole.usage == times(EACH, 3)
    over = found.whole.start_over
    assert over == found.whole.own_continue
    assert over.work.usage == times(EACH, 2)
    assert (over.work.takeovers, over.work.model_calls, over.work.tool_calls) == (1, 2, 1)
    assert over.effects == 2  # the keyed one that is finished, and the one of which nobody knows


async def test_a_harness_continues_from_its_own_files_and_only_what_is_not_in_them_is_saved(
    world: World,
) -> None:
    found = await struck(world, Spot(Point.IN_EFFECT, "never", 1), mirrors=True)
    over, own = found.whole.start_over, found.whole.own_continue
    assert over.work.usage == times(EACH, 2)
    assert own.work.usage == times(EACH, 1)  # the second answer stands in no file yet
    assert (own.work.model_calls, own.work.tool_calls, own.effects) == (1, 0, 1)


async def test_two_kills_save_twice(world: World) -> None:
    agent = agent_of(SCRIPT, look, wire)
    await opened(world, agent)
    dead: set[str] = set()
    for name in ("first", "second"):
        mortal = MortalWorld(world)
        gate = DeathGate(Spot(Point.IN_EFFECT, "keyed", 1), mortal)
        desk = Desk(mortal, gate=gate, name=name, dead=frozenset(dead))
        with pytest.raises(Killed):
            await desk.work(agent)
        dead.add(name)
    await Desk(world, dead=frozenset(dead)).work(agent)
    whole = (await cost_of(world)).whole
    assert whole.start_over.work.usage == times(EACH, 2)
    assert whole.takeovers == 2
    assert whole.usage == times(EACH, 3)


async def test_a_fork_counts_what_it_did_itself(world: World) -> None:
    agent = agent_of(SCRIPT, look, wire)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    await session.fork(id="s-2")
    fork = await session.find(world, "s-2")
    await fork.send("again")
    await Desk(world).work(agent)
    assert (await cost_of(world)).whole.usage == times(EACH, 3)
    found = await cost_of(world, "s-2")
    assert found.whole.usage == times(EACH, 3)
    assert [turn.turn for turn in found.turns] == [2]


async def test_costs_are_json(world: World) -> None:
    found = await struck(world, Spot(Point.IN_EFFECT, "never", 1))
    text = msgspec.json.encode(found.turns)
    assert msgspec.json.decode(text)[0]["cost"]["usage"]["output_tokens"] == 9
