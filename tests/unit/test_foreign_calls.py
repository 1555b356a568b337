"""What a framework does through its seams: asked once, found by the model's own ids, in whatever order it is done."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from outlast.adapter import Agent, ToolAsk, ToolResult
from outlast.adapters.foreign import NOT_RUN, ForeignAnswer, ForeignCall, ForeignRequest, Replay
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import Clock, ManualClock
from outlast.errors import ModelCallFailed, ModelCallRejected
from outlast.gate import Gate
from outlast.model import Show
from outlast.records import CallIntent, CallOutcome, CallRetracted, TurnParked, Usage
from outlast.rules import deny
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, ToolIO, Verdict, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records

Call = tuple[str, dict[str, Any]]


class Outside:
    """Providers and shops, which remember what was done to them."""

    def __init__(self, *answers: list[Call] | Exception) -> None:
        self.answers: list[list[Call] | Exception] = list(answers)
        self.asked: Counter[int] = Counter()
        self.done: Counter[str] = Counter()
        self.keys: set[str] = set()

    async def send(self, at: int, show: Show) -> ForeignAnswer:
        """What a provider says to the request with `at` answers in it."""
        self.asked[at] += 1
        said = self.answers[at] if at < len(self.answers) else []
        if isinstance(said, Exception):
            raise said
        show("text", f"answer {at}")
        calls: list[dict[str, Any]] = [
            {"id": f"id-{at}-{place}", "name": name, "args": args} for place, (name, args) in enumerate(said)
        ]
        asks = [ToolAsk(call["id"], call["name"], call["args"]) for call in calls]
        return ForeignAnswer({"say": f"answer {at}", "calls": calls}, asks, Usage(10, 1))

    async def run(self, name: str, call: ForeignCall) -> ToolResult:
        """A tool of the framework's."""
        self.done[name] += 1
        self.keys.add(f"{name} {call.key}")
        call.show(f"{name} runs")
        if name == "nested":
            inner = await call.io.foreign_model(
                ForeignRequest("small", [{"ask": name}]), lambda show: self.send(100, show)
            )
            return ToolResult("ok", inner["say"])
        return ToolResult("ok", f"{name} done")


def framework(outside: Outside, *, skips: str = "") -> LoopFunction:
    """A loop that is none of ours: it runs the tools of an answer at once, the last first."""

    async def run(io: IO, prompt: str) -> object:
        messages: list[Any] = [{"user": prompt}]
        while True:
            at = sum("say" in message for message in messages)
            request = ForeignRequest("big", messages, {"tools": ["pay", "look", "nested"]})
            answer = await io.foreign_model(request, lambda show, at=at: outside.send(at, show))
            messages.append(dict(answer))
            if not answer["calls"]:
                return [message.get("say") or message.get("results") for message in messages[1:]]
            calls = [call for call in answer["calls"] if call["name"] != skips]
            jobs = [one(io, outside, call) for call in reversed(calls)]
            messages.append({"results": sorted(await asyncio.gather(*jobs))})

    return run


async def one(io: IO, outside: Outside, call: Mapping[str, Any]) -> str:
    """One call of a tool, as the model will read it."""
    name = call["name"]
    result = await io.foreign_tool(call["id"], name, call["args"], lambda own: outside.run(name, own))
    return f"{result.status}: {result.value}"


def agent_of(outside: Outside, *, skips: str = "", **foreign: Replay | str) -> Agent:
    said: Any = {"look": "safe", "nested": "safe", "pay": "never", **foreign}
    return Agent("tester", Loop(framework(outside, skips=skips), foreign=said))


async def life(
    world: World, clock: Clock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> RecordingGate:
    """One worker, to its death or until nothing is left to do."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, frozenset({dead})).work(agent)
    return record


STORY: list[list[Call]] = [
    [("look", {}), ("pay", {"cents": 1}), ("nested", {})],
    [("pay", {"cents": 2})],
    [],
]


@pytest.mark.crash
async def test_a_framework_killed_at_every_point_pays_and_asks_once(clock: ManualClock) -> None:
    async with open_memory(MemoryStore(clock)) as world:
        await opened(world, agent_of(Outside()))
        where = spots((await life(world, clock, agent_of(Outside(*STORY)), "w-1")).crossings)
        whole = [type(record).__name__ for record in await records(world)]
    assert len(where) > 30
    assert whole.count("CallIntent") == 8
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world:
            outside = Outside(*STORY)
            session = await opened(world, agent_of(outside))
            await life(world, clock, agent_of(outside), "w-1", death=spot)
            await life(world, clock, agent_of(outside), "w-2", dead="w-1")
            outcome = await session.result(1)
            assert outcome.status == "done", f"{spot}: {outcome.error}"
            assert outside.done["pay"] <= 2, str(spot)
            log = await records(world)
            finished = Counter(one.call for one in log if isinstance(one, CallOutcome) and one.usage)
            assert set(finished.values()) == {1}, str(spot)
            assert sum(outside.asked.values()) <= 5, str(spot)
            assert not [one for one in log if isinstance(one, TurnParked)], str(spot)


async def test_an_order_of_tasks_that_changes_changes_nothing(world: World, clock: ManualClock) -> None:
    outside = Outside(*STORY)
    session = await opened(world, agent_of(outside))
    await Desk(world, clock).work(agent_of(outside))
    assert (await session.result(1)).value == [
        "answer 0",
        ["ok: answer 100", "ok: look done", "ok: pay done"],
        "answer 1",
        ["ok: pay done"],
        "answer 2",
    ]
    assert len({key for key in outside.keys if key.startswith("pay")}) == 2


async def test_what_the_framework_passes_over_is_ended(world: World, clock: ManualClock) -> None:
    outside = Outside([("look", {}), ("pay", {})], [])
    agent = agent_of(outside, skips="pay")
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    outcomes = [record for record in await records(world) if isinstance(record, CallOutcome)]
    left = [one for one in outcomes if one.status == "interrupted"]
    assert [one.result.value() for one in left] == [NOT_RUN]


async def test_a_provider_that_fails_for_now_is_asked_again_and_what_it_showed_is_void(
    world: World, clock: ManualClock
) -> None:
    outside = Outside(ModelCallFailed(status=529, reason="overloaded"))
    session = await opened(world, agent_of(outside))
    await Desk(world, clock).work(agent_of(outside))
    assert (await session.head()).turn_open
    outside.answers[:] = [[]]
    clock.turn(60)
    await Desk(world, clock).work(agent_of(outside))
    assert (await session.result(1)).value == ["answer 0"]
    assert [one for one in await records(world) if isinstance(one, CallRetracted)]


async def test_a_refusal_is_the_frameworks_to_act_on_the_same_in_every_attempt(
    world: World, clock: ManualClock
) -> None:
    outside = Outside(ModelCallRejected(status=400, reason="no such model."))
    session = await opened(world, agent_of(outside))
    await Desk(world, clock).work(agent_of(outside))
    outcome = await session.result(1)
    assert outcome.status == "failed"
    assert "no such model" in outcome.error


async def test_a_tool_that_no_answer_asked_for_is_refused(world: World, clock: ManualClock) -> None:
    outside = Outside()

    async def run(io: IO, prompt: str) -> object:
        return await one(io, outside, {"id": "made-up", "name": "pay", "args": {}})

    agent = Agent("tester", Loop(run, foreign={}))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert "no model of this turn has asked for" in (await session.result(1)).error
    assert not outside.done


async def test_a_rule_stands_before_a_frameworks_tool(world: World, clock: ManualClock) -> None:
    outside = Outside([("pay", {"cents": 1})], [])
    agent = Agent("tester", Loop(framework(outside), foreign={}), rules=[deny("pay", why="no money")])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value[1] == [
        "error: This call is not allowed: no money. It did not run."
    ]
    assert not outside.done


@pytest.mark.parametrize("landed", [True, False])
async def test_an_open_call_is_verified_before_it_runs_again(clock: ManualClock, landed: bool) -> None:  # noqa: FBT001
    async def verify(io: ToolIO, cents: int) -> Verdict:
        return Done(f"verified {cents}") if landed else NotDone()

    async with open_memory(MemoryStore(clock)) as world:
        outside = Outside([("pay", {"cents": 3})], [])
        agent = agent_of(outside, pay=Replay(verify=verify))
        session = await opened(world, agent)
        where = spots((await life(world, clock, agent, "w-1")).crossings)
        assert (await session.result(1)).status == "done"
    (death,) = [spot for spot in where if spot.point == "after-effect" and spot.policy == "verify"]
    async with open_memory(MemoryStore(clock)) as world:
        outside = Outside([("pay", {"cents": 3})], [])
        agent = agent_of(outside, pay=Replay(verify=verify))
        session = await opened(world, agent)
        await life(world, clock, agent, "w-1", death=death)
        await life(world, clock, agent, "w-2", dead="w-1")
        assert (await session.result(1)).value[1] == ["ok: verified 3" if landed else "ok: pay done"]
        assert outside.done["pay"] == (1 if landed else 2)


async def test_a_call_in_doubt_is_compensated(clock: ManualClock) -> None:
    made_good: list[int] = []

    @tool
    async def pay_back(io: ToolIO, cents: int) -> str:
        """Pay it back."""
        made_good.append(cents)
        return "paid back"

    async with open_memory(MemoryStore(clock)) as world:
        outside = Outside([("pay", {"cents": 3, "note": "x"})], [])
        agent = agent_of(outside, pay=Replay(compensate=pay_back))
        await opened(world, agent)
        where = spots((await life(world, clock, agent, "w-1")).crossings)
    (death,) = [spot for spot in where if spot.point == "in-effect" and spot.policy == "never"]
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, agent)
        await life(world, clock, agent, "w-1", death=death)
        await life(world, clock, agent, "w-2", dead="w-1")
        assert "pay_back ran as a call of its own" in (await session.result(1)).value[1][0]
        assert made_good == [3]


async def test_the_next_turn_finds_the_conversation_in_the_frameworks_json(
    world: World, clock: ManualClock
) -> None:
    outside = Outside([("pay", {})], [])
    talks: list[Any] = []

    async def run(io: IO, prompt: str) -> object:
        talks.append(await io.talk())
        request = ForeignRequest("big", [{"user": prompt}])
        answer = await io.foreign_model(request, lambda show: outside.send(0, show))
        return await one(io, outside, answer["calls"][0])

    agent = Agent("tester", Loop(run, foreign={}))
    await opened(world, agent, "s-1", "first", "second")
    await Desk(world, clock).work(agent)
    assert talks[0] is None
    assert talks[1].messages == [{"user": "first"}]
    assert talks[1].by_id == {"id-0-0": ToolResult("ok", "pay done")}


async def test_intents_of_the_frameworks_calls_stand_in_the_commit_of_the_answer(
    world: World, clock: ManualClock
) -> None:
    outside = Outside([("pay", {"cents": 1})], [])
    await opened(world, agent_of(outside))
    await Desk(world, clock).work(agent_of(outside))
    log = await records(world)
    at = next(number for number, record in enumerate(log) if isinstance(record, CallOutcome))
    intent = log[at + 1]
    assert isinstance(intent, CallIntent)
    assert (intent.harness_id, intent.name, intent.policy, intent.granted) == ("id-0-0", "pay", "never", True)
