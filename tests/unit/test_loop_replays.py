"""A loop of one's own that is walked again finds what it found the first time, and what is taken down does no more."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.errors import ModelCallFailed, ToolError
from outlast.gate import Gate, Point
from outlast.model import Answer, AssistantMessage, Request, Show, TextPart, quiet, user
from outlast.records import AttemptEnded, CallIntent, Decided, TurnParked
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, Spot
from outlast.tool import Tool, ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records

DAY_S = 86_400.0


def agent_of(function: LoopFunction, *tools: Tool) -> Agent:
    return Agent("tester", Loop(function), tools=tools)


async def live(
    world: World, clock: ManualClock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> None:
    """One worker, to its death or until nothing is left to do."""
    mortal = MortalWorld(world)
    gate: Gate | None = None if death is None else DeathGate(death, mortal)
    desk = Desk(mortal, clock, name=name, dead=frozenset({dead}))
    if gate is not None:
        desk.gate = gate
    with suppress(Killed):
        await desk.work(agent)


class Receipt(msgspec.Struct):
    """What a tool may return."""

    cents: int


async def test_what_a_call_returns_is_the_same_the_first_time_and_ever_after(
    world: World, clock: ManualClock
) -> None:
    seen: list[object] = []

    @tool
    async def refund(io: ToolIO, cents: int) -> Receipt:
        """Refund."""
        return Receipt(cents)

    async def run(io: IO, prompt: str) -> object:
        seen.append([await io.tool(refund, cents=5), await io.once("pair", lambda: (1, {"a": (2,)}))])
        await io.sleep(DAY_S)
        return None

    agent = agent_of(run, refund)
    await opened(world, agent)
    await Desk(world, clock).work(agent)
    clock.turn(DAY_S)
    await Desk(world, clock).work(agent)
    assert seen == [[{"cents": 5}, [1, {"a": [2]}]]] * 2


async def test_what_failed_once_fails_the_same_way_ever_after(world: World, clock: ManualClock) -> None:
    seen: list[str] = []

    def half() -> object:
        if seen:
            return "all is well"
        raise ValueError("half a thought")

    async def run(io: IO, prompt: str) -> object:
        for make in (half, object):
            try:
                seen.append(str(await io.once("thought", make)))
            except ToolError as error:
                seen.append(str(error))
        await io.sleep(DAY_S)
        return None

    agent = agent_of(run)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    clock.turn(DAY_S)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"
    assert seen[0] == "once thought ended as error: ValueError: half a thought"
    assert seen[2:] == seen[:2]


async def test_a_word_to_run_a_call_again_is_about_one_run(world: World, clock: ManualClock) -> None:
    wired: list[int] = []

    async def wire(io: ToolIO, cents: int) -> str:
        """Pay, and ask a person if nobody knows."""
        wired.append(cents)
        return "wired"

    async def run(io: IO, prompt: str) -> object:
        return await io.tool("wire", cents=5)

    agent = agent_of(run, tool(on_doubt="ask")(wire))
    session = await opened(world, agent)
    after_effect = Spot(Point.AFTER_EFFECT, "never")
    await live(world, clock, agent, "w-1", death=after_effect)
    await live(world, clock, agent, "w-2", dead="w-1")
    await session.decide(1, "run_again")
    await live(world, clock, agent, "w-3", death=after_effect)
    await live(world, clock, agent, "w-4", dead="w-3")
    assert wired == [5, 5]
    assert (await session.head()).status.startswith("turn 1 decision")
    await session.decide(1, "done", "as the bank says")
    await live(world, clock, agent, "w-5")
    assert (await session.result(1)).value == "as the bank says"
    assert wired == [5, 5]


@dataclass
class Failing:
    """A model that fails in a way that passes, so many times."""

    failures: int
    before: Callable[[], Awaitable[None]] | None = None
    name: str = "m-1"
    provider: str = "tests"
    context_tokens: int = 0
    asked: list[Request] = field(default_factory=list[Request])

    def versions(self) -> dict[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        self.asked.append(request)
        if len(self.asked) <= self.failures:
            if self.before is not None:
                await self.before()
            raise ModelCallFailed(status=529, reason="it is tired")
        return Answer(message=AssistantMessage((TextPart("well"),)), stop="end")


async def test_a_provider_that_fails_lets_nothing_more_begin(world: World, clock: ManualClock) -> None:
    model, done = Failing(1), Counter[str]()

    @tool
    async def tidy(io: ToolIO, name: str) -> str:
        """Tidy up."""
        done[name] += 1
        return name

    async def run(io: IO, prompt: str) -> object:
        try:
            answer = await io.model(model, [user("hello")])
        finally:
            await io.tool(tidy, name="after the answer")
        return answer.message.text

    agent = agent_of(run, tidy)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert done == {}
    clock.turn(60.0)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == "well"
    assert done == {"after the answer": 1}


async def test_a_provider_that_fails_one_lane_lets_what_the_others_do_end(
    world: World, clock: ManualClock
) -> None:
    """A tool that is under way is not made doubtful, and nothing is begun after it."""
    begun, failed = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def both_are_there() -> None:
        await begun.wait()
        failed.set()

    model = Failing(1, both_are_there)

    @tool
    async def slow(io: ToolIO, name: str) -> str:
        """Take some time."""
        done.append(f"{name} began")
        begun.set()
        await failed.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        done.append(f"{name} ended")
        return name

    async def side(io: IO) -> object:
        return [await io.tool(slow, name="one"), await io.tool(slow, name="two")]

    async def ask(io: IO) -> object:
        return (await io.model(model, [user("hello")])).message.text

    async def run(io: IO, prompt: str) -> object:
        return await io.gather(side, ask)

    agent = agent_of(run, slow)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert done == ["one began", "one ended"]
    ended = [record.why for record in await records(world) if isinstance(record, AttemptEnded)]
    assert ended == ["provider"]
    clock.turn(60.0)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == [["one", "two"], "well"]
    assert done == ["one began", "one ended", "two began", "two ended"]


async def test_a_loop_that_holds_on_while_it_is_taken_down_has_not_gone_another_way(
    world: World, clock: ManualClock
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(replay="safe")
    async def slow(io: ToolIO, name: str) -> str:
        """Take some time."""
        begun.set()
        await go_on.wait()
        return name

    @tool
    async def tidy(io: ToolIO) -> str:
        """Tidy up."""
        return "tidy"

    async def run(io: IO, prompt: str) -> object:
        first: object = None
        try:
            first = await io.tool(slow, name="one")
        finally:
            with suppress(asyncio.CancelledError):
                await io.tool(tidy)
            return [first, await io.tool(slow, name="two")]  # noqa: B012 - that is what is tried

    agent = agent_of(run, slow, tidy)
    session = await opened(world, agent)
    desk = Desk(world, clock)
    async with desk.working(agent, once=True) as working:
        await begun.wait()
        desk.control.hand_over()
        await asyncio.wait({working})
    found = await records(world)
    assert not [record for record in found if isinstance(record, TurnParked)]
    assert len([record for record in found if isinstance(record, CallIntent)]) == 1
    go_on.set()
    await Desk(world, clock, name="worker-2").work(agent)
    assert (await session.result(1)).value == ["one", "two"]


class SlowToRead(AroundWorld):
    """Blobs take a moment to come."""

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        await asyncio.sleep(0.01)
        return await super().get_many(session, hashes)


async def test_a_signal_that_waits_ends_the_next_wait_though_the_lane_before_goes_on(
    world: World, clock: ManualClock
) -> None:
    second = asyncio.Event()

    @tool
    async def watch(io: ToolIO) -> str:
        """Goes on until the second wait is over."""
        await second.wait()
        return "seen"

    async def first(lane: IO) -> object:
        return [len(await lane.wait_for("ci")), await lane.tool(watch)]

    async def other(lane: IO) -> object:
        found = await lane.wait_for("ci")
        second.set()
        return found

    async def run(io: IO, prompt: str) -> object:
        return await io.gather(first, other)

    agent = agent_of(run, watch)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.signal("ci", "x" * 50_000, id="sig-1")
    await session.signal("ci", "green", id="sig-2")
    desk = Desk(world, clock)
    await live_until_kept(desk, agent)
    desk = Desk(SlowToRead(world), clock, name="worker-2", dead=frozenset({"worker-1"}))
    await desk.work(agent)
    assert (await session.result(1)).value == [[50_000, "seen"], "green"]
    assert len(desk.claims) == 1


async def live_until_kept(desk: Desk, agent: Agent) -> None:
    """A worker that takes the signals out of the inbox and dies before it has done anything about them."""
    mortal = MortalWorld(desk.world)
    desk.world, desk.gate = mortal, DeathGate(Spot(Point.FOLDED), mortal)
    with suppress(Killed):
        await desk.work(agent)


async def test_a_decision_stands_in_the_log_with_who_took_it(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await io.ask("May I?")

    agent = agent_of(run)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.decide(1, value="yes", by="ann", id="dec-1")
    await Desk(world, clock).work(agent)
    decided = [record for record in await records(world) if isinstance(record, Decided)]
    assert [(record.input, record.ruling, record.by) for record in decided] == [("dec-1", "done", "ann")]
