"""What a tenant may use up in a period: counted once wherever workers die, and over all sessions."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from outlast.adapter import Agent, Budget
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.records import CallIntent, TurnReleased
from outlast.tally import day_of, period_of
from outlast.testing.faults import Killed, MortalWorld, RecordingGate
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.world.commit import DAY_S
from outlast.worlds.memory import MemoryStore, open_memory
from tests.crash.stage import Countdown
from tests.unit.engine_desk import Desk, call, opened, records, say
from tests.unit.test_budgets import parked, talker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    async with open_memory(MemoryStore(clock)) as found:
        yield found


BUDGETS = {
    "tenant_usd": Budget(tenant_usd=0.04),
    "tenant_tokens": Budget(tenant_tokens=400),
    "tenant_calls": Budget(tenant_calls=4),
}


@pytest.mark.parametrize("limit", BUDGETS)
async def test_the_sessions_of_a_tenant_share_its_budget(
    world: World, clock: ManualClock, limit: str
) -> None:
    agent = talker(BUDGETS[limit], answers=3)
    first, second = await opened(world, agent, "s-1"), await opened(world, agent, "s-2")
    await Desk(world, clock).work(agent)
    assert (await first.result(1)).status == "done"
    evidence = await parked(second)
    assert (evidence["limit"], evidence["used"]) == (limit, evidence["of"])
    other = world.for_tenant("other")
    third = await opened(other, agent, "s-1")
    await Desk(other, clock).work(agent)
    assert (await third.result(1)).status == "done", "another tenant has a budget of its own"


async def test_a_turn_goes_on_when_a_new_period_begins(world: World, clock: ManualClock) -> None:
    agent = talker(Budget(tenant_usd=0.02, tenant_period="day"), answers=3)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    until_s = (await parked(session))["until_s"]
    assert (await session.head()).wake_at_s == until_s == (day_of(clock.now()) + 1) * DAY_S
    clock.turn(until_s - clock.now() - 1.0)
    await Desk(world, clock).work(agent)
    assert (await session.head()).parked
    clock.turn(1.0)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    (released,) = [one for one in await records(world) if isinstance(one, TurnReleased)]
    assert not released.renews
    assert [one.cost_usd for one in await world.spent(0)] == [0.02, 0.01]


async def test_a_person_may_let_one_turn_go_on_for_as_much_again(world: World, clock: ManualClock) -> None:
    agent = talker(Budget(tenant_usd=0.02), answers=5)
    session = await opened(world, agent)
    for _ in range(2):
        await Desk(world, clock).work(agent)
        assert (await parked(session))["used"] == 0.02
        await session.retry()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    later = await opened(world, agent, "s-2")
    await Desk(world, clock).work(agent)
    assert (await parked(later))["used"] == 0.05


async def test_the_counters_say_what_the_logs_say_wherever_a_worker_dies(clock: ManualClock) -> None:
    usage = {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.5}

    @tool(replay="safe")
    async def look(io: ToolIO) -> str:
        """Look."""
        return "seen"

    script = [
        {**say("I look", call("look")), "usage": usage},
        call("look"),
        {**say("all is well"), "usage": usage},
    ]
    agent = Agent("tester", Scripted(script=script), tools=[look])
    death, crossed = 0, 1
    while death <= crossed:
        async with open_memory(MemoryStore(clock)) as world:
            session = await opened(world, agent)
            mortal, record = MortalWorld(world), RecordingGate()
            with suppress(Killed):
                await Desk(mortal, clock, Countdown(death, mortal), "w-1").work(agent)
            await Desk(world, clock, record, "w-2", frozenset({"w-1"})).work(agent)
            outcome = await session.result(1)
            made = [one for one in await records(world) if isinstance(one, CallIntent)]
            (day,) = await world.spent(0)
            assert (day.calls, day.cost_usd) == (len(made), outcome.usage.cost_usd), f"death {death}"
            crossed = max(crossed, len(record.crossings))
        death += 1
    assert death > 10


def test_periods_are_those_of_the_calendar() -> None:
    for month, days in ((2, 28), (12, 31)):
        at_s = datetime(2027, month, 17, 23, 59, tzinfo=UTC).timestamp()
        first, following = period_of("month", at_s)
        assert following - first == days
        assert period_of("day", at_s) == (first + 16, first + 17)
