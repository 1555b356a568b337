"""A loop of one's own: what it has done is read back, what it waits for costs nothing, another way is shown."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import Clock, ManualClock
from outlast.errors import NothingCame, ToolError
from outlast.gate import Gate, Point
from outlast.records import CallIntent, CallOutcome, TurnParked
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Tool, ToolFailed, ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records

DAY_S = 86_400.0


class Shop:
    """What is outside."""

    def __init__(self) -> None:
        self.paid: Counter[int] = Counter()

    def tools(self) -> list[Tool]:
        async def pay(io: ToolIO, cents: int) -> str:
            """Pay once."""
            self.paid[cents] += 1
            return f"paid {cents}"

        async def refuse(io: ToolIO) -> str:
            """Refuse."""
            raise ToolFailed("no")

        return [tool(pay), tool(replay="safe")(refuse)]


def agent_of(function: LoopFunction, shop: Shop) -> Agent:
    return Agent("tester", Loop(function), tools=shop.tools())


async def test_a_loop_ends_its_turn_with_what_it_returns(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        first = await io.tool("pay", cents=1)
        with pytest.raises(ToolError, match="refuse ended as error: no"):
            await io.tool("refuse")
        return [
            prompt,
            first,
            await io.now() == clock.now(),
            0 <= await io.random() < 1,
            len(await io.uuid()),
        ]

    shop = Shop()
    session = await opened(world, agent_of(run, shop))
    await Desk(world, clock).work(agent_of(run, shop))
    assert (await session.result(1)).value == ["go", "paid 1", True, True, 36]


async def test_what_a_loop_raises_ends_its_turn_as_failed(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        raise ValueError("half a thought")

    session = await opened(world, agent_of(run, Shop()))
    await Desk(world, clock).work(agent_of(run, Shop()))
    outcome = await session.result(1)
    assert (outcome.status, outcome.error) == ("failed", "ValueError: half a thought")


async def everything(io: IO, prompt: str) -> object:
    """Each thing a loop can do, in lanes too."""
    started = await io.now()
    token = await io.uuid()

    async def side(lane: IO) -> object:
        return [await lane.tool("pay", cents=10), await lane.random()]

    async def other(lane: IO) -> object:
        inner = await lane.gather(lambda deep: deep.tool("pay", cents=20), lambda deep: deep.uuid())
        return [inner, await lane.patched("v2")]

    before = await io.tool("pay", cents=1)
    both = await io.gather(side, other)
    try:
        await io.tool("refuse")
    except ToolError as error:
        both.append(str(error))
    return [started, token, before, both, await io.once("ten", lambda: 10)]


async def life(
    world: World, clock: Clock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> RecordingGate:
    """One worker, to its death or until nothing is left to do."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    desk = Desk(mortal, clock, gate, name, frozenset({dead}))
    with suppress(Killed):
        await desk.work(agent)
    return record


async def uncut(clock: ManualClock, function: LoopFunction) -> tuple[object, list[Spot]]:
    """What the turn ends with if nobody dies, and where one can die."""
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, agent_of(function, Shop()))
        record = await life(world, clock, agent_of(function, Shop()), "w-1")
        return (await session.result(1)).value, spots(record.crossings)


async def test_a_loop_killed_at_every_point_does_everything_once(clock: ManualClock) -> None:
    _, where = await uncut(clock, everything)
    assert len(where) > 25
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world:
            shop = Shop()
            session = await opened(world, agent_of(everything, shop))
            await life(world, clock, agent_of(everything, shop), "w-1", death=spot)
            await life(world, clock, agent_of(everything, shop), "w-2", dead="w-1")
            outcome = await session.result(1)
            assert max(shop.paid.values(), default=0) <= 1, str(spot)
            doubts = "is not known" in outcome.error
            assert outcome.status == ("failed" if doubts else "done"), str(spot)
            calls = [record for record in await records(world) if isinstance(record, CallIntent)]
            assert len({(call.lane, call.kind, call.ordinal) for call in calls}) == len(calls), str(spot)


async def test_what_waits_costs_no_worker_and_goes_on_when_its_time_has_come(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        await io.tool("pay", cents=1)
        await io.sleep(30 * DAY_S)
        return await io.tool("pay", cents=2)

    shop = Shop()
    session = await opened(world, agent_of(run, shop))
    desk = Desk(world, clock)
    await desk.work(agent_of(run, shop))
    head = await session.head()
    assert (head.worker, head.turn_open, head.parked) == (None, True, False)
    assert head.status.startswith("turn 1 waiting")
    clock.turn(30 * DAY_S - 1)
    await desk.work(agent_of(run, shop))
    assert len(desk.claims) == 1
    clock.turn(2)
    await desk.work(agent_of(run, shop))
    assert (await session.result(1)).value == "paid 2"
    assert shop.paid == {1: 1, 2: 1}


async def test_a_signal_ends_one_wait_whether_it_comes_before_or_after(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        async def one(lane: IO) -> object:
            return await lane.wait_for("ci")

        async def two(lane: IO) -> object:
            await lane.tool("pay", cents=1)
            return await lane.wait_for("ci")

        return await io.gather(one, two)

    agent = agent_of(run, Shop())
    session = await opened(world, agent)
    await session.signal("ci", {"run": 1}, id="sig-1")
    desk = Desk(world, clock)
    await desk.work(agent)
    assert (await session.head()).parked  # until an input comes
    await session.signal("other")
    await desk.work(agent)
    await session.signal("ci", {"run": 2}, id="sig-2")
    await session.signal("ci", {"run": 2}, id="sig-2")
    await desk.work(agent)
    assert (await session.result(1)).value == [{"run": 1}, {"run": 2}]
    kept = [signal.name for signal in (await session.state()).signals]
    assert kept == ["other"]


async def test_a_wait_whose_time_is_over_says_so(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        try:
            return await io.wait_for("ci", timeout_s=3 * DAY_S)
        except NothingCame as error:
            return str(error)

    session = await opened(world, agent_of(run, Shop()))
    await Desk(world, clock).work(agent_of(run, Shop()))
    clock.turn(3 * DAY_S)
    await Desk(world, clock).work(agent_of(run, Shop()))
    assert (await session.result(1)).value == "Nothing came for the signal 'ci' within 259200 s."


async def test_a_person_answers_once_and_a_second_answer_changes_nothing(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        return [await io.ask("May I?", choices=["yes", "no"]), await io.ask("Sure?")]

    agent = agent_of(run, Shop())
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.decide(1, value="yes", by="ann")
    await session.decide(1, value="no", by="bob")
    await Desk(world, clock).work(agent)
    await session.decide(2, "run_again")  # a question is no call that could be
    await session.decide(2, "failed", "ask somebody else")
    await Desk(world, clock).work(agent)
    outcome = await session.result(1)
    assert (outcome.status, outcome.error) == ("failed", "ask ended as error: ask somebody else")
    answers = [record for record in await records(world) if isinstance(record, CallOutcome)]
    assert answers[0].result.value() == "yes"


async def test_a_cancel_ends_a_turn_that_waits(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await io.wait_for("never")

    agent = agent_of(run, Shop())
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    await session.cancel()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "cancelled"


async def test_a_loop_that_goes_another_way_is_parked_with_both_sides(
    world: World, clock: ManualClock
) -> None:
    async def before(io: IO, prompt: str) -> object:
        await io.tool("pay", cents=1)
        return await io.sleep(DAY_S)

    async def after(io: IO, prompt: str) -> object:
        await io.tool("pay", cents=2)
        return await io.sleep(DAY_S)

    shop = Shop()
    session = await opened(world, agent_of(before, shop))
    await Desk(world, clock).work(agent_of(before, shop))
    clock.turn(DAY_S)
    await Desk(world, clock).work(agent_of(after, shop))
    (parked,) = [record for record in await records(world) if isinstance(record, TurnParked)]
    assert parked.why == "diverged"
    assert parked.evidence["logged"] == ["tool", "pay", {"cents": 1}]
    assert parked.evidence["now"] == ["tool", "pay", {"cents": 2}]
    assert shop.paid == {1: 1}
    await session.retry()
    await Desk(world, clock).work(agent_of(before, shop))
    assert (await session.result(1)).status == "done"
    assert shop.paid == {1: 1}


async def test_a_loop_that_ends_before_what_the_log_has_is_parked(world: World, clock: ManualClock) -> None:
    async def before(io: IO, prompt: str) -> object:
        await io.tool("pay", cents=1)
        return await io.sleep(DAY_S)

    async def after(io: IO, prompt: str) -> object:
        return "nothing to do"

    session = await opened(world, agent_of(before, Shop()))
    await Desk(world, clock).work(agent_of(before, Shop()))
    clock.turn(DAY_S)
    await Desk(world, clock).work(agent_of(after, Shop()))
    assert (await session.head()).status.startswith("turn 1 diverged")


async def test_code_may_change_under_an_open_turn_behind_patched(world: World, clock: ManualClock) -> None:
    async def before(io: IO, prompt: str) -> object:
        await io.sleep(DAY_S)
        return await io.tool("pay", cents=1)

    async def after(io: IO, prompt: str) -> object:
        await io.sleep(DAY_S)
        if await io.patched("twice"):
            await io.tool("pay", cents=7)
        await io.sleep(DAY_S)
        return await io.tool("pay", cents=1)

    shop = Shop()
    old = await opened(world, agent_of(before, shop), "old")
    await Desk(world, clock).work(agent_of(before, shop))
    clock.turn(DAY_S)
    for _ in range(3):
        await Desk(world, clock).work(agent_of(after, shop))
        clock.turn(DAY_S)
    assert (await old.result(1)).value == "paid 1"
    assert shop.paid == {7: 1, 1: 1}


async def test_a_lane_does_one_thing_at_a_time(world: World, clock: ManualClock) -> None:
    async def run(io: IO, prompt: str) -> object:
        return await asyncio.gather(io.tool("pay", cents=1), io.tool("pay", cents=2))

    session = await opened(world, agent_of(run, Shop()))
    await Desk(world, clock).work(agent_of(run, Shop()))
    outcome = await session.result(1)
    assert outcome.status == "failed"
    assert "Use io.gather" in outcome.error


async def test_nothing_of_a_loop_runs_on_while_its_turn_waits(world: World, clock: ManualClock) -> None:
    shop = Shop()

    async def run(io: IO, prompt: str) -> object:
        try:
            return await io.wait_for("ci")
        finally:
            await io.tool("pay", cents=3)

    session = await opened(world, agent_of(run, shop))
    await Desk(world, clock).work(agent_of(run, shop))
    assert shop.paid == {}
    await session.signal("ci", "green")
    await Desk(world, clock).work(agent_of(run, shop))
    assert (await session.result(1)).value == "green"
    assert shop.paid == {3: 1}


async def test_what_is_in_doubt_waits_for_a_person_and_runs_again_only_if_told(
    world: World, clock: ManualClock
) -> None:
    shop = Shop()

    async def wire(io: ToolIO, cents: int) -> str:
        """Pay, and ask a person if nobody knows."""
        shop.paid[cents] += 1
        return "wired"

    async def run(io: IO, prompt: str) -> object:
        return await io.tool("wire", cents=5)

    agent = Agent("tester", Loop(run), tools=[tool(on_doubt="ask")(wire)])
    session = await opened(world, agent)
    await life(world, clock, agent, "w-1", death=Spot(Point.AFTER_EFFECT, "never"))
    await life(world, clock, agent, "w-2", dead="w-1")
    assert (await session.head()).status.startswith("turn 1 decision")
    await session.decide(99, "done", "no such call")
    await session.decide(1, "run_again", by="ann")
    await session.decide(1, "done", "too late", by="bob")
    await life(world, clock, agent, "w-3")
    assert (await session.result(1)).value == "wired"
    assert shop.paid == {5: 2}
