"""A turn that is handed over again and again and settles nothing is parked; one that merely waits is not."""

from collections.abc import AsyncIterator

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.engine.budget import HANDED_TIMES
from outlast.gate import Gate, OpenGate, Point
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened


@tool(replay="safe")
async def work(io: ToolIO) -> str:
    """Do a piece of the work."""
    return "done"


SCRIPTED = agent_of([call("work")], work)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    async with open_memory(clock=clock) as found:
        yield found


class TooLate:
    """The time of a worker is over when it has read the log."""

    def __init__(self, inner: Gate | None = None) -> None:
        self.desk: Desk | None = None
        self._inner = inner or OpenGate()

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        await self._inner.cross(point, call=call, policy=policy)
        if point is Point.FOLDED and self.desk is not None:
            self.desk.control.hand_over()


async def begun(world: World, agent: Agent) -> Session:
    """Its turn is open, and whoever opened it is dead."""
    session = await opened(world, agent)
    mortal = MortalWorld(world)
    gate = DeathGate(Spot(Point.BEFORE_INTENT, "safe"), mortal)
    with pytest.raises(Killed):
        await Desk(mortal, name="first", gate=gate).work(agent)
    return session


async def handed_over(
    world: World, agent: Agent, name: str, clock: ManualClock, death: Point | None = None
) -> None:
    """A worker claims the turn and hands it over; or dies on the way."""
    mortal = MortalWorld(world)
    gate = TooLate(None if death is None else DeathGate(Spot(death), mortal))
    dead = frozenset({"first", *(f"dead-{number}" for number in range(9))})
    gate.desk = Desk(mortal, clock, gate, name, dead)
    if death is None:
        await gate.desk.work_once(agent)
        return
    with pytest.raises(Killed):
        await gate.desk.work_once(agent)


async def times(session: Session) -> int:
    turn = (await session.state()).turn
    assert turn is not None
    return turn.handed


async def test_a_turn_that_settles_nothing_before_each_hand_over_is_stuck(
    world: World, clock: ManualClock
) -> None:
    session = await begun(world, SCRIPTED)
    for number in range(HANDED_TIMES):
        assert await times(session) == number
        await handed_over(world, SCRIPTED, f"worker-{number}", clock)
    await handed_over(world, SCRIPTED, "worker-last", clock)
    turn = (await session.state()).turn
    assert turn is not None
    assert turn.parked is not None
    assert (turn.parked.why, turn.parked.evidence["handed_over_in_vain"]) == ("stuck", HANDED_TIMES)
    assert not (await session.head()).is_ready(clock.now())
    await session.retry()
    await Desk(world, clock, name="steady").work(SCRIPTED)
    assert (await session.result(1)).value == ["done"]


@pytest.mark.parametrize("death", [Point.CLAIMED, Point.FOLDED, Point.RELEASED])
async def test_hand_overs_are_counted_once_whoever_dies_between_them(
    death: Point, world: World, clock: ManualClock
) -> None:
    session = await begun(world, SCRIPTED)
    for number in range(3):
        await handed_over(world, SCRIPTED, f"worker-{number}", clock)
    await handed_over(world, SCRIPTED, "dead-1", clock, death)
    counted = 4 if death is Point.RELEASED else 3  # it was handed over, and that is durable
    assert await times(session) == counted
    await handed_over(world, SCRIPTED, "worker-4", clock)
    assert await times(session) == counted + 1


async def test_a_call_that_settles_makes_the_count_begin_anew(world: World, clock: ManualClock) -> None:
    agent = agent_of([call("work"), call("work")], work)
    session = await begun(world, agent)
    for number in range(HANDED_TIMES - 1):
        await handed_over(world, agent, f"worker-{number}", clock)
    await Desk(world, clock, name="steady", dead=frozenset()).work(agent)
    state = await session.state()
    assert (state.turn, (await session.result(1)).value) == (None, ["done", "done"])


async def test_hand_overs_of_a_turn_that_waits_do_not_count(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await io.wait_for("news")

    agent = Agent("tester", Loop(run))
    session = await opened(world, agent)
    await Desk(world, clock, name="steady").work(agent)
    for number in range(HANDED_TIMES + 2):
        await session.signal("other", number)  # wakes the session, and is nothing to its wait
        await handed_over(world, agent, f"worker-{number}", clock)
    assert await times(session) == 0
    await session.signal("news", "at last")
    await Desk(world, clock, name="another").work(agent)
    assert (await session.result(1)).value == "at last"
