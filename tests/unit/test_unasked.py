"""Calls that a harness runs unasked, as soon as it has the answer: with that they are let begin, or are not."""

from collections.abc import Mapping
from typing import Any

import pytest

from outlast.adapter import (
    Agent,
    Attempt,
    Let,
    ModelAsk,
    Resolved,
    Send,
    Served,
    ToolAsk,
    ToolResult,
    TurnResult,
)
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.errors import HarnessError, TurnStopped
from outlast.fold import CallState, TurnState
from outlast.records import AttemptEnded, AttemptOpened, CallIntent, CallOutcome, CallStarted, Payload
from outlast.recovery import NEVER_BEGAN, Abilities, Declared, Doubt, Interrupt, Run, plan
from outlast.rules import Rule, ask, deny
from outlast.tool import Tool
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records

TYPE, LOOK = ToolAsk("t-1", "type", {"text": "y"}), ToolAsk("t-2", "look", {})
AGAIN = ToolAsk("t-3", "type", {"text": "n"})


class Hasty(Scripted):
    """It runs `type` as soon as it has the answer, and asks before it runs `look`."""

    def __init__(self, *asks: ToolAsk, breaks: bool = False) -> None:
        super().__init__()
        self._asks = asks
        self._breaks = breaks
        self.world: World | None = None
        self.ran: list[str] = []
        self.durable: list[str] = []
        """What the World had begun when the answer was handed over."""
        self.told: dict[str, ToolResult] = {}

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return Resolved(name, "harness", "never", unasked=name == "type")

    async def advance(self, attempt: Attempt) -> TurnResult:
        if any(step.call for step in attempt.plan) or not attempt.turn.calls:
            await self._answered(attempt)
        for state in attempt.turn.calls.values():
            if state.intent.kind == "tool":
                self.told[state.intent.harness_id] = await attempt.outcome(state.intent.call)
        return TurnResult("done", "done")

    async def _answered(self, attempt: Attempt) -> None:
        calls = attempt.calls
        match await calls.open_model(ModelAsk("main", "m", "match", {}, [])):
            case Send(call):
                await calls.settle_model(call, {"text": "go"}, self._asks, None)
            case Served(call):
                pass
            case other:
                raise AssertionError(other)
        await calls.begin_unasked(call)
        if self.world is not None:
            self.durable = [
                f"{one.call}" for one in await records(self.world) if isinstance(one, CallStarted)
            ]
        for one in self._asks:
            if one.name == "type" or isinstance(await calls.start_tool(one.harness_id, one.name, {}), Let):
                self.ran.append(one.harness_id)
                if self._breaks:
                    self._breaks = False
                    raise HarnessError(harness="hasty", reason="it died as it ran")
                await calls.settle_tool(one.harness_id, ToolResult("ok", "ran"))


def agent_of(hasty: Hasty, *rules: Rule) -> Agent:
    return Agent("tester", hasty, rules=rules)


async def ends(world: World) -> Mapping[int, str]:
    return {one.call: one.status for one in await records(world) if isinstance(one, CallOutcome)}


async def test_that_it_may_have_begun_is_durable_before_the_answer_is_handed_over(world: World) -> None:
    hasty = Hasty(TYPE, LOOK)
    hasty.world = world
    session = await opened(world, agent_of(hasty))
    await Desk(world).work(agent_of(hasty))
    assert (await session.result(1)).status == "done"
    assert (hasty.durable, hasty.ran) == (["2"], ["t-1", "t-2"])


async def test_an_answer_with_a_call_that_a_rule_denies_never_reaches_the_harness(world: World) -> None:
    hasty = Hasty(TYPE, LOOK)
    agent = agent_of(hasty, deny("type", text="y", why="Nobody says yes."))
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert (await session.result(1)).status == "done"
    assert hasty.ran == []
    assert await ends(world) == {1: "ok", 2: "error", 3: "interrupted"}
    assert "Nobody says yes." in str(hasty.told["t-1"].value)
    assert hasty.told["t-2"].value == NEVER_BEGAN
    log = await records(world)
    assert not [one for one in log if isinstance(one, CallStarted)]
    assert len([one for one in log if isinstance(one, AttemptOpened)]) == 2
    assert [one.why for one in log if isinstance(one, AttemptEnded)] == ["handed_over"]


async def test_none_begins_beside_one_that_is_denied(world: World) -> None:
    hasty = Hasty(AGAIN, TYPE)
    agent = agent_of(hasty, deny("type", text="y"), ask("type", text="n"))
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert hasty.ran == []
    assert not [one for one in await records(world) if isinstance(one, CallStarted)]
    assert (await ends(world))[3] == "error"
    assert (await session.head()).parked, "of the other a person is asked"


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_what_a_rule_wants_asked_is_not_handed_over_before_a_person_has_said_so(
    world: World, word: Any
) -> None:
    hasty = Hasty(TYPE)
    agent = agent_of(hasty, ask("type"))
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert (await session.head()).parked
    assert hasty.ran == []
    assert not [one for one in await records(world) if isinstance(one, CallStarted)]
    await session.decide(2, word)
    await Desk(world).work(agent)
    assert (await session.result(1)).status == "done"
    assert hasty.ran == (["t-1"] if word == "allow" else [])
    assert (await ends(world))[2] == ("ok" if word == "allow" else "error")


async def test_one_that_has_begun_is_in_doubt_and_its_answer_is_not_handed_over_again(
    world: World, clock: ManualClock
) -> None:
    hasty = Hasty(TYPE, LOOK, breaks=True)
    agent = agent_of(hasty)
    session = await opened(world, agent)
    desk = Desk(world, clock)
    await desk.work(agent)
    clock.turn(60.0)
    await desk.work(agent)
    assert (await session.result(1)).status == "done"
    assert hasty.ran == ["t-1"]
    assert {**await ends(world), 1: ""} == {1: "", 2: "in_doubt", 3: "interrupted"}


class Twice(Hasty):
    """It is to be given the answer twice."""

    refused = False

    async def _answered(self, attempt: Attempt) -> None:
        await super()._answered(attempt)
        try:
            await attempt.calls.begin_unasked(1)
        except TurnStopped:
            self.refused = True
            raise


async def test_an_answer_is_not_handed_over_twice_in_one_attempt(world: World) -> None:
    hasty = Twice(TYPE)
    agent = agent_of(hasty)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert (hasty.refused, hasty.ran) == (True, ["t-1"])
    assert (await session.result(1)).status == "done"


def test_recovery_gives_no_answer_again_with_a_call_that_runs_unasked() -> None:
    def call(number: int, asker: int, name: str) -> CallState:
        intent = CallIntent(
            number,
            1,
            "main",
            number,
            "tool",
            name,
            policy="never",
            runs_in="harness",
            granted=True,
            asked_by=asker,
        )
        return CallState(intent, 1)

    def declare(intent: CallIntent) -> Declared:
        return Declared("never", unasked=intent.name == "type")

    typed = call(2, 1, "type")
    typed.started = 1
    calls = [typed, call(3, 1, "look"), call(5, 4, "look"), call(7, 6, "type"), call(8, 6, "look")]
    turn = TurnState(1, "in-1", Payload(), calls={one.intent.call: one for one in calls})
    assert list(plan(turn, declare, Abilities("all"), 0.0)) == [
        Doubt(2, "tell"),
        Interrupt(3, NEVER_BEGAN),
        Run(5, again=False),
        Run(7, again=False),
        Interrupt(8, NEVER_BEGAN),
    ]
