"""A tool that says a try had no effect is tried again, durably and in sight; nothing else is."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, get_args

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.engine.waits import LOOK_S
from outlast.errors import BadTool
from outlast.gate import Gate
from outlast.records import CallOutcome, CallRetracted, CallStarted
from outlast.records.kinds import Policy
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, TryAgain, Verdict, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records, until

POLICIES: tuple[Policy, ...] = get_args(Policy)


class HastyClock(ManualClock):
    """Moves on by ten seconds whenever it is looked at."""

    def elapsed(self) -> float:
        self.turn(10.0)
        return self.now()


@pytest.fixture
def clock() -> HastyClock:
    return HastyClock()


@pytest.fixture
async def world(clock: HastyClock) -> AsyncIterator[World]:
    async with open_memory(MemoryStore(clock)) as opened:
        yield opened


class Till:
    """A tool that has an effect at its n-th try only, and says so."""

    def __init__(self, policy: Policy, works_at: int = 3, retries: int = 3) -> None:
        self.tries = 0
        self.paid = 0
        self.after_s = 0.0
        self._works_at = works_at
        self.tool = self._make(policy, retries)

    def _make(self, policy: Policy, retries: int) -> Tool:
        async def paid(io: ToolIO) -> Verdict:
            return Done("paid") if self.paid else NotDone()

        async def pay(io: ToolIO) -> str:
            """Pay."""
            self.tries += 1
            if self.tries < self._works_at:
                raise TryAgain(f"busy {self.tries}", after_s=self.after_s)
            self.paid += 1
            return "paid"

        return tool(replay=policy, verify=paid if policy == "verify" else None, retries=retries)(pay)

    @property
    def agent(self) -> Agent:
        async def run(io: IO, prompt: str) -> object:
            result = await io.result("pay", {})
            return [result.status, result.value]

        return Agent("tester", Loop(run), tools=[self.tool])


async def life(
    world: World, clock: ManualClock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> RecordingGate:
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, frozenset({dead})).work(agent)
    return record


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_try_without_effect_is_tried_again_whatever_the_policy(
    world: World, clock: HastyClock, policy: Policy
) -> None:
    till = Till(policy)
    session = await opened(world, till.agent)
    await Desk(world, clock).work(till.agent)
    assert (await session.result(1)).value == ["ok", "paid"]
    assert (till.tries, till.paid) == (3, 1)
    log = await records(world)
    seen = [record.reason for record in log if isinstance(record, CallRetracted)]
    assert seen == ["try 1 had no effect: busy 1", "try 2 had no effect: busy 2"]
    assert sum(isinstance(record, CallStarted) for record in log) == 2


async def test_after_the_last_try_the_call_ends_as_an_error(world: World, clock: HastyClock) -> None:
    till = Till("never", works_at=9, retries=2)
    session = await opened(world, till.agent)
    await Desk(world, clock).work(till.agent)
    assert (await session.result(1)).value == ["error", "busy 3"]


@pytest.mark.parametrize("error", [ToolFailed("no"), ConnectionError("cut"), OSError(), TimeoutError()])
async def test_nothing_else_that_a_tool_raises_is_tried_again(
    world: World, clock: HastyClock, error: Exception
) -> None:
    tries = 0

    async def pay(io: ToolIO) -> str:
        """Pay."""
        nonlocal tries
        tries += 1
        raise error

    async def run(io: IO, prompt: str) -> object:
        return (await io.result("pay", {})).status

    agent = Agent("tester", Loop(run), tools=[tool(replay="safe", retries=5)(pay)])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert ((await session.result(1)).value, tries) == ("error", 1)


async def test_a_tool_may_ask_for_a_longer_pause_of_a_minute_at_most(world: World) -> None:
    clock, till = ManualClock(), Till("safe", works_at=2)
    till.after_s = 3600.0
    session = await opened(world, till.agent)
    desk = Desk(world, clock)

    def pauses() -> bool:
        writer = desk.control.writer
        turn = None if writer is None else writer.state.turn
        return turn is not None and any(call.tries for call in turn.calls.values())

    async with desk.working(till.agent) as working:
        await until(pauses)
        clock.turn(59.0)
        done, _ = await asyncio.wait({working}, timeout=3 * LOOK_S)
        assert not done
        clock.turn(2.0)
        await working
    assert (await session.result(1)).value == ["ok", "paid"]


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_death_between_two_tries_leaves_no_doubt_and_uses_up_no_more_tries(
    clock: HastyClock, policy: Policy
) -> None:
    async with open_memory(MemoryStore(clock)) as world:
        till = Till(policy)
        await opened(world, till.agent)
        where = spots((await life(world, clock, till.agent, "w-1")).crossings)
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world:
            till = Till(policy, works_at=3, retries=3)
            session = await opened(world, till.agent)
            await life(world, clock, till.agent, "w-1", death=spot)
            await life(world, clock, till.agent, "w-2", dead="w-1")
            status, value = (await session.result(1)).value
            log = await records(world)
            if policy == "never":
                begun_and_cut = str(spot).startswith(
                    ("in-effect", "after-effect", "after-intent", "after-start")
                )
                assert status == "ok" or begun_and_cut or "outcome-queued" in str(spot), f"{spot}: {value}"
            else:
                assert (status, value) == ("ok", "paid"), str(spot)
            assert till.paid <= (2 if policy in {"safe", "keyed"} else 1), str(spot)
            assert sum(isinstance(record, CallRetracted) for record in log) <= 3
            assert sum(isinstance(record, CallOutcome) for record in log) == 1


async def test_a_turn_that_is_cancelled_between_two_tries_knows_that_nothing_happened(
    world: World,
) -> None:
    clock = ManualClock()  # stands: the pause never ends by itself
    till = Till("never")
    session = await opened(world, till.agent)
    desk = Desk(world, clock)
    async with desk.working(till.agent) as working:
        async for event in session.follow():
            if event.kind == "call.retracted":
                break
        await session.cancel()
        await working
    (outcome,) = [record for record in await records(world) if isinstance(record, CallOutcome)]
    assert outcome.status == "cancelled"
    assert "before it began" in outcome.result.value()


@pytest.mark.parametrize("make", [lambda: tool(retries=-1)])
def test_a_tool_cannot_be_tried_fewer_times_than_once(make: Callable[[], Any]) -> None:
    async def pay(io: ToolIO) -> str:
        return ""

    with pytest.raises(BadTool, match="retries"):
        make()(pay)
