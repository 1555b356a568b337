"""The CI waiter: days without a worker, then one model call."""

import pytest

from examples.ci_waiter import PATIENCE_S, waiter, waiter_of
from outlast.clock import ManualClock
from outlast.session import Session
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says, texts

DAY_S = 86_400.0


@pytest.mark.parametrize("state", ["failed", "passed"])
async def test_three_days_of_waiting_cost_no_worker_and_the_signal_is_the_answer(state: str) -> None:
    clock, model = ManualClock(), Listed(says("The price is negative."))
    agent = waiter_of(model)
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "s-1", agent=agent, clock=clock)
        await session.send("build 81", id="in-1")
        desk = Desk(world, clock)
        for _ in range(3):
            await desk.work(agent)
            assert (await session.head()).worker is None
            clock.turn(DAY_S)
        assert len(desk.claims) == 3, "one look a day, for the reminder"
        signal = {"state": state, "log": "test_pay: AssertionError"}
        await session.signal("ci", signal, id="delivery-1")
        await session.signal("ci", signal, id="delivery-1")
        await desk.work(agent)
        value = (await session.result(1)).value
    if state == "failed":
        assert value == {"build": "build 81", "state": "failed", "why": "The price is negative."}
        assert "test_pay: AssertionError" in texts(model.requests[0])[0]
    else:
        assert value == {"build": "build 81", "state": "passed"}
        assert not model.requests


async def test_a_build_that_never_ends_is_given_up() -> None:
    clock, agent = ManualClock(), waiter_of(Listed())
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "s-1", agent=agent, clock=clock)
        await session.send("build 81", id="in-1")
        for _ in range(int(PATIENCE_S / DAY_S) + 1):
            await Desk(world, clock).work(agent)
            clock.turn(DAY_S)
        assert (await session.result(1)).value == {"build": "build 81", "state": "given up"}


def test_the_agent_of_the_example_can_be_named() -> None:
    assert waiter.name == "ci-waiter"
