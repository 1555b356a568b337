"""Workers whose clocks differ from the World's: a time that has passed in the World has come, and nothing spins."""

from typing import TypeAlias

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import Clock, ClockAhead, ManualClock, SystemClock
from outlast.errors import NothingCame
from outlast.notify import Notice
from outlast.world import World
from outlast.worlds.postgres import open_postgres
from tests.servers.postgres import PostgresServer
from tests.unit.engine_desk import Desk, agent_of, opened, say

Skew: TypeAlias = float
SKEWS: list[Skew] = [-3600.0, -0.5, 0.5, 3600.0]
"""How many seconds a worker's clock is ahead of the World's."""
PAUSE_S = 60.0


async def sleeps(io: IO, prompt: str) -> object:
    await io.sleep(PAUSE_S)
    return "rested"


async def waits(io: IO, prompt: str) -> object:
    try:
        return await io.wait_for("ci", timeout_s=PAUSE_S)
    except NothingCame:
        return "rested"


async def until_woken(world: World, clock: ManualClock, desk: Desk, agent: Agent) -> None:
    """Work, let the time pass up to when the session wakes, and work again."""
    await desk.work(agent)
    wake_at_s = (await world.get("s-1")).wake_at_s
    clock.turn(max(0.0, (wake_at_s or 0.0) - clock.now()))
    await desk.work(agent)


@pytest.mark.parametrize("run", [sleeps, waits])
@pytest.mark.parametrize("skew", SKEWS)
async def test_a_turn_that_is_woken_goes_on_whatever_its_worker_s_clock_says(
    world: World, clock: ManualClock, run: LoopFunction, skew: Skew
) -> None:
    agent = Agent("tester", Loop(run))
    session = await opened(world, agent)
    desk = Desk(world, ClockAhead(clock, skew))
    await until_woken(world, clock, desk, agent)
    assert (await session.result(1)).value == "rested"
    assert len(desk.claims) == 2


class Deaf:
    """Hears from the second time on."""

    def __init__(self) -> None:
        self.tries = 0

    async def tell(self, notice: Notice) -> str:
        self.tries += 1
        return "no line" if self.tries == 1 else ""


@pytest.mark.parametrize("skew", SKEWS)
async def test_somebody_is_told_again_once_whatever_the_worker_s_clock_says(
    world: World, clock: ManualClock, skew: Skew
) -> None:
    agent, deaf = agent_of([say("one")]), Deaf()
    await opened(world, agent)
    desk = Desk(world, ClockAhead(clock, skew), notifier=deaf)
    await until_woken(world, clock, desk, agent)
    assert (await world.get("s-1")).wake_at_s is None
    assert (deaf.tries, len(desk.claims)) == (2, 2)


@pytest.mark.parametrize("skew", SKEWS)
async def test_a_scheduled_prompt_comes_once_whatever_the_worker_s_clock_says(
    world: World, clock: ManualClock, skew: Skew
) -> None:
    agent = agent_of([say("one")])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.schedule("again", at=clock.now() + PAUSE_S)
    desk = Desk(world, ClockAhead(clock, skew))
    await until_woken(world, clock, desk, agent)
    assert (await session.result(2)).status == "done"
    assert len(desk.claims) <= 3


@pytest.mark.server
async def test_a_worker_behind_its_postgres_does_not_claim_a_turn_again_and_again(
    postgres: PostgresServer,
) -> None:
    async def naps(io: IO, prompt: str) -> object:
        await io.sleep(PAUSE_S)
        return "rested"

    behind: Clock = ClockAhead(SystemClock(), -PAUSE_S - 1.0)
    async with open_postgres(postgres.new_url()) as world:
        agent = Agent("tester", Loop(naps))
        session = await opened(world, agent)
        desk = Desk(world, behind)
        await desk.work(agent)
        assert (await session.result(1)).value == "rested"
        assert len(desk.claims) == 2
