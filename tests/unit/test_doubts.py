"""What a doubter tried: turns that wait, park, ask and are cut, at the wrong moment."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from outlast.adapter import (
    Agent,
    Attempt,
    Budget,
    Deny,
    Gateway,
    Let,
    ModelAsk,
    Resolved,
    Send,
    ToolAsk,
    ToolResult,
    TurnResult,
    Waiting,
)
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import ManualClock
from outlast.engine.budget import cut_off
from outlast.errors import BadInput, ToolError
from outlast.gate import Point
from outlast.model import Message, user
from outlast.offers import ASK, WAIT
from outlast.records import CallIntent, CallStarted, PromptQueued
from outlast.rules import Rule, ask, deny
from outlast.session import Session
from outlast.state import CallState, TurnState
from outlast.testing.faults import AroundWorld
from outlast.tool import Tool, ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, call, opened, records, say, until
from tests.unit.listed_model import Listed, says

T = TypeVar("T")


class FarWorld(AroundWorld):
    """Every look at its inbox takes some rounds of the event loop, as one over a network does."""

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        if operation == "inputs":
            for _ in range(100):
                await asyncio.sleep(0)
        return await ask()


async def test_a_steer_for_a_program_that_waits_becomes_a_prompt_and_wakes_it_once(
    world: World, clock: ManualClock
) -> None:
    far = FarWorld(world)
    agent = Agent("tester", Scripted(script=[say("I wait", call(WAIT, signal="ci"))]))
    session = await opened(world, agent)
    await Desk(far, clock).work(agent)
    await session.steer("hurry")
    desk = Desk(far, clock)
    await desk.work(agent)
    assert len(desk.claims) == 1
    assert [one.input for one in await records(world) if isinstance(one, PromptQueued) and one.steered]


async def test_an_answer_that_comes_while_the_turn_is_given_back_is_not_slept_over(
    world: World, clock: ManualClock
) -> None:
    """Everything waits; then a person answers one question, before the attempt has ended."""
    sessions: list[Session] = []

    class Late(Loop):
        late = True

        async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
            end = await super().advance(attempt)
            if self.late:
                self.late = False
                (question,) = [c for c in attempt.turn.open_calls() if c.intent.name == "person"]
                await sessions[0].decide(question.intent.call, value="yes")
                await until(lambda: question.outcome is not None)
            return end

    heard: list[object] = []

    async def run(io: IO, prompt: str) -> object:
        async def asks(lane: IO) -> object:
            heard.append(await lane.ask("May I?"))
            return heard[-1]

        return await io.gather(asks, lambda lane: lane.wait_for("ci"))

    agent = Agent("tester", Late(run))
    sessions.append(await opened(world, agent))
    await Desk(world, clock).work(agent)
    assert heard == ["yes"]


class WithSubAgent(Scripted):
    """A sub-agent wants to run a tool of the harness's own."""

    ran = 0

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        if name == "Task":
            return Resolved(name, "harness", "safe", spawns=str(arguments["prompt"]))
        return Resolved(name, "harness", "never")

    async def advance(self, attempt: Attempt) -> TurnResult:
        calls = attempt.calls
        main = await calls.open_model(ModelAsk("main", "m", "first", {}, [{"role": "user", "content": "go"}]))
        if isinstance(main, Send):
            await calls.settle_model(
                main.call, {"text": "off"}, [ToolAsk("t-1", "Task", {"prompt": "push"})], None
            )
        assert isinstance(await calls.start_tool("t-1", "Task", {"prompt": "push"}), Let)
        message = {"role": "user", "content": "push"}
        begun = await calls.open_model(ModelAsk("agent", "m", "sub", {}, [message]))
        if isinstance(begun, Send):
            asks = [ToolAsk("t-2", "Bash", {"command": "git push"})]
            await calls.settle_model(begun.call, {"text": "I push"}, asks, None)
        verdict = await calls.start_tool("t-2", "Bash", {"command": "git push"})
        if isinstance(verdict, Let):
            self.ran += 1
            await calls.settle_tool("t-2", ToolResult("ok", "pushed"))
        await calls.settle_tool("t-1", ToolResult("ok", "done"))
        return TurnResult("done", "done")


async def test_a_person_is_asked_about_what_a_sub_agent_wants_to_do(world: World, clock: ManualClock) -> None:
    adapter = WithSubAgent()
    agent = Agent("tester", adapter, rules=[ask("Bash")])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    turn = (await session.state()).turn
    assert turn is not None
    assert turn.parked is not None
    assert turn.parked.evidence["asks"] == [4]
    await session.decide(4, "allow")
    await Desk(world, clock).work(agent)
    assert ((await session.result(1)).status, adapter.ran) == ("done", 1)


async def test_a_model_that_cannot_be_asked_does_not_keep_a_person_from_being_asked(
    world: World, clock: ManualClock
) -> None:
    model = Listed(BadInput(detail="it reads no images"), says("never asked"))

    async def pay(io: ToolIO, cents: int) -> str:
        """Pay once."""
        return "paid"

    async def run(io: IO, prompt: str) -> object:
        asked: list[Message] = [user("go")]
        with pytest.raises(BadInput, match="images"):
            await io.model(model, asked)
        return await io.tool("pay", cents=5)

    agent = Agent("tester", Loop(run), tools=[tool(pay)], rules=[ask("pay")])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.decide(2, "allow")
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == "paid"
    assert len(model.requests) == 1  # how it was refused is read from the log


async def test_what_runs_is_not_cut_off_when_a_budget_is_used_up(world: World, clock: ManualClock) -> None:
    go = asyncio.Event()

    async def slow(io: ToolIO) -> str:
        """Takes longer than the other."""
        await go.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        return "slow"

    async def quick(io: ToolIO) -> str:
        """Takes no time."""
        return "quick"

    async def run(io: IO, prompt: str) -> object:
        async def two(lane: IO) -> object:
            await lane.tool("quick")
            go.set()
            return await lane.tool("quick")

        return await io.gather(lambda lane: lane.tool("slow"), two)

    agent = Agent("tester", Loop(run), tools=[tool(slow), tool(quick)], budget=Budget(turn_calls=2))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    state = await session.state()
    assert state.turn is not None
    assert state.turn.word == "budget"
    assert state.turn.open_calls() == []
    await session.retry()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == ["slow", "quick"]


@pytest.mark.parametrize("size", [10, 10_000])
async def test_a_question_of_any_length_can_be_answered(world: World, clock: ManualClock, size: int) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await io.ask("?" * size)

    agents = [
        Agent("tester", Loop(run)),
        Agent("tester", Scripted(script=[say("I ask", call(ASK, question="?" * size))])),
    ]
    for number, agent in enumerate(agents, 1):
        session = await opened(world, agent, f"s-{number}")
        await Desk(world, clock).work(agent)
        await session.decide(number, value="yes")
        await Desk(world, clock).work(agent)
        assert "yes" in (await session.result(1)).value


class Twice(Scripted):
    """A harness that asks twice at once for the same call."""

    def __init__(self, runs_in: str) -> None:
        super().__init__(built_ins={} if runs_in == "worker" else {"pay": BuiltIn(_nothing)})
        self.said: list[object] = []

    async def advance(self, attempt: Attempt) -> TurnResult:
        calls = attempt.calls
        main = await calls.open_model(ModelAsk("main", "m", "first", {}, [{"role": "user", "content": "go"}]))
        assert isinstance(main, Send)
        arguments = {"cents": 5}
        await calls.settle_model(main.call, {"text": "I pay"}, [ToolAsk("t-1", "pay", arguments)], None)
        if "pay" in attempt.tools:
            both = [calls.run_tool("pay", arguments, harness_id="t-1") for _ in range(2)]
            self.said += await asyncio.gather(*both)
        else:
            self.said += await asyncio.gather(*(calls.start_tool("t-1", "pay", arguments) for _ in range(2)))
        return TurnResult("done")


async def _nothing(_: object) -> str:
    return "done"


class SlowGate:
    """Crossing it takes a while."""

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_denied_call_that_is_asked_for_twice_at_once_is_denied_twice(
    world: World, clock: ManualClock
) -> None:
    paid: list[int] = []

    async def pay(io: ToolIO, cents: int) -> str:
        """Pay once."""
        paid.append(cents)
        return "paid"

    adapter = Twice("worker")
    agent = Agent("tester", adapter, tools=[tool(pay)], rules=[deny("pay")])
    session = await opened(world, agent)
    await Desk(world, clock, SlowGate()).work(agent)
    assert (await session.result(1)).status == "done"
    assert [cast("ToolResult", said).status for said in adapter.said] == ["error", "error"]
    assert paid == []


@pytest.mark.parametrize("rules", [[], [deny("other")], [deny("pay")]])
async def test_a_call_that_a_harness_asks_for_twice_at_once_is_let_go_once(
    world: World, clock: ManualClock, rules: list[Rule]
) -> None:
    adapter = Twice("harness")
    agent = Agent("tester", adapter, rules=rules)
    session = await opened(world, agent)
    await Desk(world, clock, SlowGate()).work(agent)
    assert (await session.result(1)).status == "done"
    let = [said for said in adapter.said if isinstance(said, Let)]
    assert len(let) == (0 if rules == [deny("pay")] else 1)
    started = [record for record in await records(world) if isinstance(record, CallStarted)]
    assert len(started) == len(let)
    assert all(isinstance(said, Let | Deny) for said in adapter.said)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (deny("deploy", where="prod"), {}),  # what it does by default
        (deny("deploy", times="3"), {"where": "here", "times": 3.0}),
        (deny("deploy", on="2026-*"), {"where": "here", "on": date(2026, 1, 31)}),
    ],
)
async def test_a_rule_sees_what_the_tool_is_given(
    world: World, clock: ManualClock, rule: Rule, arguments: dict[str, Any]
) -> None:
    done: list[object] = []

    async def deploy(io: ToolIO, where: str = "prod", times: int = 1, on: str = "") -> str:
        """Deploy."""
        done.append((where, times, on))
        return "deployed"

    async def run(io: IO, prompt: str) -> object:
        with suppress(ToolError):
            await io.tool("deploy", **arguments)
        return "done"

    agent = Agent("tester", Loop(run), tools=[tool(deploy)], rules=[rule])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    assert done == []


async def test_a_rule_sees_what_a_harness_makes_of_the_arguments(world: World, clock: ManualClock) -> None:
    wrote: list[object] = []

    class Normal(Scripted):
        async def advance(self, attempt: Attempt) -> TurnResult:
            calls = attempt.calls
            opening = await calls.open_model(
                ModelAsk("main", "m", "first", {}, [{"role": "user", "content": "go"}])
            )
            assert isinstance(opening, Send)
            asks = [ToolAsk("t-1", "Write", {"path": "../etc/passwd"})]
            await calls.settle_model(opening.call, {"text": "I write"}, asks, None)
            verdict = await calls.start_tool("t-1", "Write", {"path": "/etc/passwd"})
            if isinstance(verdict, Let):
                wrote.append(verdict)
            return TurnResult("done")

    agent = Agent(
        "tester", Normal(built_ins={"Write": BuiltIn(_nothing)}), rules=[deny("Write", path="/etc/*")]
    )
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    assert wrote == []


async def test_a_lane_loses_no_steer_to_another(world: World, clock: ManualClock) -> None:
    """The lane that read a steer carries it, whichever lane asks its model first."""
    model = Listed(*(says(f"answer {at}") for at in range(2)))
    heard: list[list[str]] = []
    sessions: list[Session] = []

    async def run(io: IO, prompt: str) -> object:
        read, asked = asyncio.Event(), asyncio.Event()

        async def reads(lane: IO) -> object:
            while not (told := list(lane.steers())):  # noqa: ASYNC110 - a steer tells nobody
                await asyncio.sleep(0)  # until it is there
            heard.append(told)
            read.set()
            await asked.wait()
            return (await lane.model(model, [user("a"), *map(user, told)])).message.text

        async def asks(lane: IO) -> object:
            if not heard:
                await sessions[0].steer("hurry")
            await read.wait()
            answer = await lane.model(model, [user("b")])
            asked.set()
            return answer.message.text

        both = await io.gather(reads, asks)
        await io.wait_for("ci")
        return both

    agent = Agent("tester", Loop(run))
    sessions.append(await opened(world, agent))
    await Desk(world, clock).work(agent)
    await sessions[0].signal("ci")
    await Desk(world, clock).work(agent)
    assert (await sessions[0].state()).turn is None
    assert heard == [["hurry"], ["hurry"]]


async def test_many_calls_cost_no_more_each(world: World, clock: ManualClock) -> None:
    """Nothing looks at every call of the turn whenever one ends."""
    looked: Counter[str] = Counter()

    async def step(io: ToolIO) -> str:
        """A step."""
        return "done"

    async def run(io: IO, prompt: str) -> object:
        for _ in range(50):
            await io.tool("step")
        return "done"

    agent = Agent("tester", Loop(run), tools=[tool(replay="safe")(step)], budget=Budget(turn_calls=1000))
    session = await opened(world, agent)
    desk = Desk(world, clock)
    original = TurnState.open_calls

    def counted(self: TurnState) -> Any:
        looked["open_calls"] += 1
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TurnState, "open_calls", counted)
        await desk.work(agent)
    assert (await session.result(1)).status == "done"
    assert looked["open_calls"] < 20


async def test_a_name_that_no_signal_can_have_is_not_waited_for(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await io.wait_for("x" * 10_000)

    agents = [
        Agent("tester", Loop(run)),
        Agent("tester", Scripted(script=[say("I wait", call(WAIT, signal="x" * 10_000))])),
        Agent("tester", Scripted(script=[say("I wait", call(WAIT, signal="ci", note="x" * 10_000))])),
    ]
    for number, agent in enumerate(agents, 1):
        session = await opened(world, agent, f"s-{number}")
        await Desk(world, clock).work(agent)
        assert (await session.state()).turn is None


async def test_a_session_that_another_worker_carries_is_not_to_be_gone_on_with_at_once(
    tmp_path: Path,
) -> None:
    """Else whoever is woken wakes the next, and that one the next, for as long as the first one works."""
    agent = Agent("tester", Scripted(script=[say("hello")]))
    async with open_memory() as world:
        session = await opened(world, agent)
        assert await Desk(world).claim(agent) is not None
        config = WorkerConfig(tmp_path)
        async with open_worker(world, {"tester": agent}, cast("Gateway", None), config) as worker:
            left = await worker.advance(session.id, limit_s=5.0)
        assert not left.again


def test_a_call_that_pauses_before_its_next_try_is_not_cut_off() -> None:
    intent = CallIntent(1, 1, "main", 0, "tool", "pay")
    assert cut_off(CallState(intent, opened=3), 3)
    assert not cut_off(CallState(intent, opened=3, tries=1), 3)
    assert cut_off(CallState(intent, opened=3, started=3, tries=1), 3)
