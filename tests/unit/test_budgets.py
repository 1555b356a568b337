"""A turn that has used up what it may is parked, with the figures, and goes on when a person says so."""

from typing import Any

import pytest

from outlast.adapter import Agent, Budget
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import ManualClock
from outlast.errors import ModelCallFailed
from outlast.model import Answer, Request, Show, quiet
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, call, opened, say
from tests.unit.listed_model import Listed, says


def talker(budget: Budget, *, answers: int = 6) -> Agent:
    """Each answer of its model costs a cent and a hundred tokens."""
    usage = {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.01}
    script = [{**say(f"answer {number}"), "usage": usage} for number in range(answers)]
    return Agent("tester", Scripted(script=script), budget=budget)


async def parked(session: Session) -> dict[str, Any]:
    """What the open turn is parked for."""
    turn = (await session.state()).turn
    assert turn is not None
    assert turn.parked is not None
    assert turn.parked.why == "budget"
    return dict(turn.parked.evidence)


@pytest.mark.parametrize(
    ("budget", "evidence"),
    [
        (Budget(turn_usd=0.02), {"limit": "turn_usd", "used": 0.02, "of": 0.02}),
        (Budget(turn_tokens=200), {"limit": "turn_tokens", "used": 200, "of": 200}),
        (Budget(turn_calls=2), {"limit": "turn_calls", "used": 2, "of": 2}),
        (Budget(session_usd=0.02), {"limit": "session_usd", "used": 0.02, "of": 0.02}),
        (Budget(session_tokens=150), {"limit": "session_tokens", "used": 200, "of": 150}),
    ],
)
async def test_a_turn_stops_before_the_call_beyond_and_goes_on_when_released(
    world: World, clock: ManualClock, budget: Budget, evidence: dict[str, Any]
) -> None:
    agent = talker(budget)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert await parked(session) == evidence
    for _ in range(2):  # each release gives it the same again
        await session.retry(by="ann")
        await Desk(world, clock).work(agent)
    outcome = await session.result(1)
    assert (outcome.status, len(outcome.value)) == ("done", 6)
    assert outcome.usage.cost_usd == pytest.approx(0.06)


async def test_the_budget_of_a_session_counts_its_turns_together(world: World, clock: ManualClock) -> None:
    agent = talker(Budget(session_usd=0.08))
    session = await opened(world, agent, "s-1", "one", "two")
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    assert (await parked(session))["used"] == pytest.approx(0.08)
    await session.cancel()
    await Desk(world, clock).work(agent)
    assert (await session.result(2)).status == "cancelled"


async def test_the_tools_of_a_loop_count_and_so_does_time(world: World, clock: ManualClock) -> None:
    async def step(io: ToolIO) -> str:
        """An hour of work."""
        clock.turn(3600.0)
        return "done"

    async def run(io: IO, prompt: str) -> object:
        return [await io.tool("step") for _ in range(4)]

    agent = Agent("tester", Loop(run), tools=[tool(step)], budget=Budget(turn_s=7200.0, turn_calls=3))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert await parked(session) == {"limit": "turn_s", "used": 7200.0, "of": 7200.0}
    await session.retry()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"


async def test_what_the_log_has_costs_nothing_again(world: World, clock: ManualClock) -> None:
    agent = talker(Budget(turn_calls=3))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    richer = talker(Budget(turn_calls=6))
    await session.retry()
    await Desk(world, clock).work(richer)
    assert (await session.result(1)).usage.cost_usd == pytest.approx(0.06)


async def test_the_calls_of_an_answer_beyond_the_limit_do_not_begin(world: World, clock: ManualClock) -> None:
    """Those that a harness runs itself, and those that the worker runs for it."""
    ran: list[object] = []

    async def act(arguments: object) -> str:
        ran.append(arguments)
        return "done"

    @tool(replay="safe")
    async def look(io: ToolIO) -> str:
        """Look."""
        ran.append("look")
        return "seen"

    script = [say("I begin", call("Bash", at=1), call("look"), call("Bash", at=2)), say("so be it")]
    adapter = Scripted(script=script, built_ins={"Bash": BuiltIn(act, "never")})
    agent = Agent("tester", adapter, tools=[look], budget=Budget(turn_calls=3))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert ran == [{"at": 1}, "look"]
    assert (await parked(session))["limit"] == "turn_calls"
    await session.retry()
    await Desk(world, clock).work(agent)
    assert ran == [{"at": 1}, "look", {"at": 2}]
    assert (await session.result(1)).status == "done"


async def test_no_input_cuts_short_the_pause_that_a_provider_asked_for(
    world: World, clock: ManualClock
) -> None:
    asked: list[float] = []

    class Tired(Listed):
        async def ask(self, request: Request, show: Show = quiet) -> Answer:
            asked.append(clock.now())
            if len(asked) == 1:
                later = ModelCallFailed(status=429, reason="later")
                later.retry_after_s = 3600.0
                raise later
            return await super().ask(request, show)

    agent = Agent("tester", Assistant(Tired(says("hello")), "Talk."), budget=Budget(turn_usd=1.0))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    before = (await session.state()).turn
    for number in range(3):
        await session.signal("anything", number)
        await Desk(world, clock, name=f"worker-{number}").work(agent)
    assert len(asked) == 1
    state = await session.state()
    assert state.turn is not None
    assert before is not None
    counts = [(turn.fruitless, turn.lost, turn.refused) for turn in (before, state.turn)]
    assert counts[0] == counts[1], "an attempt that only went on to wait counts for nothing"
    clock.turn(3601.0)
    await Desk(world, clock).work(agent)
    assert asked[1] - asked[0] >= 3600.0
    assert (await session.result(1)).status == "done"
