"""A program waits for days through a tool call: nothing runs meanwhile, and what comes is the call's result."""

from typing import Any

import pytest

from outlast.adapter import Agent, Attempt, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.offers import ASK, WAIT, read_offer
from outlast.tool import ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, call, opened, say

DAY_S = 86_400.0


class Counting(Scripted):
    """Counts how often the harness is started."""

    started = 0

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.started += 1
        return await super().advance(attempt)


@pytest.mark.parametrize(
    ("name", "arguments", "until_s"),
    [
        (WAIT, {"signal": "ci"}, 0.0),
        (WAIT, {"signal": "ci", "seconds": 60}, 1060.0),
        (WAIT, {"seconds": 5}, 1005.0),
        (WAIT, {"until": "1970-01-01T00:20:00+00:00"}, 1200.0),
        (WAIT, {"until": "1970-01-01T00:20:00", "seconds": 9000}, 1200.0),
        (WAIT, {"until": "1960-01-01T00:00:00Z"}, 1.0),
        (ASK, {"question": "May I?"}, 0.0),
    ],
)
def test_what_a_call_waits_for_is_read_from_its_arguments(
    name: str, arguments: dict[str, Any], until_s: float
) -> None:
    offer = read_offer(name, arguments, 1000.0)
    assert offer is not None
    assert offer.until_s == until_s


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (WAIT, {}),
        (WAIT, {"seconds": 0}),
        (WAIT, {"until": "tomorrow"}),
        (ASK, {"question": " "}),
        ("pay", {"signal": "ci"}),
    ],
)
def test_what_says_nothing_to_wait_for_is_no_wait(name: str, arguments: dict[str, Any]) -> None:
    assert read_offer(name, arguments, 1000.0) is None


async def test_a_program_waits_for_days_without_being_started(world: World, clock: ManualClock) -> None:
    paid: list[int] = []

    async def pay(io: ToolIO, cents: int) -> str:
        """Pay once."""
        paid.append(cents)
        return "paid"

    script = [
        say("I wait", call(WAIT, signal="ci", seconds=3 * DAY_S), call("pay", cents=5)),
        say("all is well"),
    ]
    adapter = Counting(script=script)
    agent = Agent("tester", adapter, tools=[tool(pay)])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    head = await session.head()
    assert (head.worker, head.turn_open, head.wake_at_s) == (None, True, clock.now() + 3 * DAY_S)
    assert paid == [5]  # what ran beside the wait came to its end first
    await session.signal("another")
    await Desk(world, clock).work(agent)
    clock.turn(DAY_S)
    await session.signal("ci", {"run": 7, "green": True})
    await Desk(world, clock).work(agent)
    outcome = await session.result(1)
    assert outcome.value == ["I wait", {"run": 7, "green": True}, "paid", "all is well"]
    assert adapter.started == 2
    assert paid == [5]


async def test_a_wait_of_a_program_ends_by_time_and_says_so(world: World, clock: ManualClock) -> None:
    script = [say("I wait", call(WAIT, signal="ci", seconds=60), call(WAIT, seconds=30)), say("nobody came")]
    agent = Agent("tester", Scripted(script=script))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    clock.turn(31)
    await Desk(world, clock).work(agent)
    clock.turn(30)
    await Desk(world, clock).work(agent)
    value = (await session.result(1)).value
    assert value[1] == {"status": "interrupted", "value": "The time was over before it came."}
    assert value[2:] == [None, "nobody came"]


async def test_a_program_asks_a_person_and_a_senseless_wait_is_told_so(
    world: World, clock: ManualClock
) -> None:
    script = [say("I ask", call(ASK, question="May I push?", choices=["yes", "no"]), call(WAIT)), say("fine")]
    agent = Agent("tester", Scripted(script=script))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.head()).parked
    await session.decide(2, value="yes")
    await Desk(world, clock).work(agent)
    value = (await session.result(1)).value
    assert value[1] == "yes"
    assert value[2]["status"] == "error"
    assert "nothing to wait for" in value[2]["value"]


async def test_a_cancel_ends_a_wait_of_a_program(world: World, clock: ManualClock) -> None:
    agent = Agent("tester", Scripted(script=[say("I wait", call(WAIT, signal="ci"))]))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.cancel()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "cancelled"
