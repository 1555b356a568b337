"""A loop that begins again with a state: what it did before costs no more, and counts all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from outlast.adapter import Agent, Budget
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.errors import BadInput
from outlast.gate import Point
from outlast.records import CallIntent, Snapshot, TurnContinued, TurnParked
from outlast.rules import ask
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import Tool, ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records

ROUNDS = 5


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    async with open_memory(MemoryStore(clock)) as opened:
        yield opened


def pay() -> Tool:
    @tool
    async def pay(io: ToolIO, cents: int) -> int:
        """Pay once."""
        return cents

    return pay


def agent_of(function: LoopFunction, budget: Budget | None = None) -> Agent:
    return Agent("tester", Loop(function), tools=[pay()], budget=budget)


async def rounds(io: IO, prompt: str) -> object:
    """Pay in each round, and begin the next."""
    state: dict[str, Any] = io.state or {"paid": []}
    paid = [*state["paid"], await io.tool("pay", cents=len(state["paid"]))]
    if len(paid) < ROUNDS:
        await io.continue_as_new({"paid": paid})
    return [prompt, paid]


async def test_a_loop_begins_again_in_the_same_turn_with_what_it_hands_on(
    world: World, clock: ManualClock
) -> None:
    session = await opened(world, agent_of(rounds))
    await Desk(world, clock).work(agent_of(rounds))
    assert (await session.result(1)).value == ["go", [0, 1, 2, 3, 4]]
    found = await records(world)
    assert sum(isinstance(one, TurnContinued) for one in found) == ROUNDS - 1
    assert [one.ordinal for one in found if isinstance(one, CallIntent)] == [0, 1, 2, 3, 4]


async def test_a_word_for_the_turn_counts_behind_a_beginning(world: World, clock: ManualClock) -> None:
    async def payer(io: IO, prompt: str) -> object:
        if io.state is None:
            await io.tool("pay", cents=1)
            await io.continue_as_new(1)
        return [await io.tool("pay", cents=1), await io.tool("pay", cents=2)]

    agent = replace(agent_of(payer), rules=[ask("pay")])
    session = await opened(world, agent)
    for call in (1, 3):
        await Desk(world, clock).work(agent)
        turn = (await session.state()).turn
        assert turn is not None
        assert turn.parked is not None
        assert turn.parked.evidence["asks"] == [call]
        await session.decide(call, "allow", for_turn=True)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == [1, 2]


async def test_a_call_knows_how_many_came_before_it_also_behind_a_beginning(
    world: World, clock: ManualClock
) -> None:
    async def payer(io: IO, prompt: str) -> None:
        for cents in range(3):
            await io.tool("pay", cents=cents)
        if io.state is None:
            await io.continue_as_new(1)
        await io.wait_for("more")

    session = await opened(world, agent_of(payer))
    await Desk(world, clock).work(agent_of(payer))
    turn = (await session.state()).turn
    assert turn is not None
    assert (turn.count(), turn.count(before=6), turn.count(before=5)) == (6, 5, 4)


async def test_the_calls_before_are_read_no_more_and_count_for_the_budget(
    world: World, clock: ManualClock
) -> None:
    agent = agent_of(rounds, Budget(turn_calls=3))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    state = await session.state()
    assert state.turn is not None
    assert isinstance(state.turn.parked, TurnParked)
    assert state.turn.parked.evidence == {"limit": "turn_calls", "used": 3, "of": 3}
    assert (len(state.turn.calls), state.turn.past) == (1, 2)
    assert "3 calls" in (await session.head()).status
    await session.retry()
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == ["go", [0, 1, 2, 3, 4]]


async def test_a_long_turn_that_begins_again_is_read_from_a_snapshot(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        done: int = io.state or 0
        for _ in range(60):
            await io.tool("pay", cents=1)
        if done < 3:
            await io.continue_as_new(done + 1)
        return await io.wait_for("end")

    session = await opened(world, agent_of(run))
    await Desk(world, clock).work(agent_of(run))
    head = await session.head()
    assert 0 < head.snapshot_seq < head.seq
    assert any(isinstance(one, Snapshot) for one in await records(world))
    await session.signal("end", "well")
    await Desk(world, clock).work(agent_of(run))
    assert (await session.result(1)).value == "well"


async def test_a_loop_cannot_begin_again_beside_something_that_is_under_way(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        said: list[str] = []

        async def side(lane: IO) -> None:
            await lane.continue_as_new(1)

        async def main_of(lane: IO) -> None:
            await io.continue_as_new(1)

        for job in (side, main_of):
            with pytest.raises(BadInput) as refused:
                await io.gather(job)
            said.append(str(refused.value))
        with pytest.raises(BadInput, match="unsupported"):
            await io.continue_as_new(object())
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await io.sleep(100.0)
        with pytest.raises(BadInput, match=r"calls are open: 1 \(sleep\)"):
            await io.continue_as_new(1)
        return said

    session = await opened(world, agent_of(run))
    await Desk(world, clock).work(agent_of(run))
    outcome = await session.result(1)
    assert outcome.status == "done", outcome
    side, main = outcome.value
    assert "Call io.continue_as_new in the main lane" in side
    assert "Use io.gather" in main


async def test_nothing_runs_behind_it_whatever_the_loop_catches(world: World, clock: ManualClock) -> None:
    ran: list[str] = []

    async def run(io: IO, prompt: str) -> object:
        if io.state:
            return await io.tool("pay", cents=io.state)
        try:
            await io.continue_as_new(7)
        except Exception:  # noqa: BLE001 - this is what must not catch it
            ran.append("caught")
        finally:
            with suppress(BaseException):
                await io.tool("pay", cents=1)
                ran.append("paid")
        return "went on"

    session = await opened(world, agent_of(run))
    await Desk(world, clock).work(agent_of(run))
    assert (await session.result(1)).value == 7
    assert ran == []


async def test_a_loop_that_swallows_it_or_groups_it_begins_again_all_the_same(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        step: int = io.state or 0
        if step == 0:
            with suppress(BaseException):
                await io.continue_as_new(1)
            return "swallowed"
        if step == 1:
            async with asyncio.TaskGroup():
                await io.continue_as_new(2)
        return step

    session = await opened(world, agent_of(run))
    await Desk(world, clock).work(agent_of(run))
    assert (await session.result(1)).value == 2


class Slow:
    """Holds the loop where it has begun again, until it is cancelled."""

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        if point is Point.AFTER_CONTINUE:
            await asyncio.Event().wait()


async def test_a_loop_that_is_cancelled_while_it_begins_again_has_begun(
    world: World, clock: ManualClock
) -> None:
    async def run(io: IO, prompt: str) -> object:
        if io.state is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await io.continue_as_new(1)
            await io.tool("pay", cents=1)
        return io.state

    session = await opened(world, agent_of(run))
    await Desk(world, clock, Slow()).work(agent_of(run))
    assert (await session.result(1)).value == 1
    assert not any(isinstance(one, CallIntent) for one in await records(world))


async def test_an_io_of_before_is_no_use(world: World, clock: ManualClock) -> None:
    kept: list[IO] = []

    async def run(io: IO, prompt: str) -> object:
        kept.append(io)
        if io.state is None:
            await io.continue_as_new(1)
        return await kept[0].tool("pay", cents=1)

    session = await opened(world, agent_of(run))
    await Desk(world, clock).work(agent_of(run))
    outcome = await session.result(1)
    assert outcome.status == "failed"
    assert "An io from before the loop began again was asked for tool" in outcome.error


async def test_a_loop_that_came_another_way_to_its_new_beginning_is_parked(
    world: World, clock: ManualClock
) -> None:
    async def old(io: IO, prompt: str) -> object:
        await io.tool("pay", cents=1)
        return await io.wait_for("end")

    async def new(io: IO, prompt: str) -> object:
        if io.state is None:
            await io.continue_as_new(1)
        return "done"

    session = await opened(world, agent_of(old))
    await Desk(world, clock).work(agent_of(old))
    await session.signal("end")
    await Desk(world, clock).work(agent_of(new))
    assert (await session.head()).status.startswith("turn 1 diverged")


@pytest.mark.parametrize("point", [Point.BEFORE_CONTINUE, Point.AFTER_CONTINUE])
async def test_what_was_done_before_it_is_done_once_whenever_the_worker_dies(
    world: World, clock: ManualClock, point: Point
) -> None:
    session: Session = await opened(world, agent_of(rounds))
    mortal = MortalWorld(world)
    with suppress(Killed):
        gate = DeathGate(Spot(point, "", 2), mortal)
        await Desk(mortal, clock, gate, "w-1").work(agent_of(rounds))
    assert mortal.dead
    await Desk(world, clock, name="w-2", dead=frozenset({"w-1"})).work(agent_of(rounds))
    assert (await session.result(1)).value == ["go", [0, 1, 2, 3, 4]]
    found = await records(world)
    assert sum(isinstance(one, CallIntent) for one in found) == ROUNDS
    assert sum(isinstance(one, TurnContinued) for one in found) == ROUNDS - 1


async def test_a_steer_that_was_put_into_no_request_before_it_is_told_again(
    world: World, clock: ManualClock
) -> None:
    told: list[object] = []

    async def run(io: IO, prompt: str) -> object:
        told.append(list(io.steers()))
        if io.state is None:
            await io.continue_as_new(1)
        return "done"

    session = await opened(world, agent_of(run))
    desk = Desk(world, clock)
    claim = await desk.claim(agent_of(run))
    assert claim is not None
    steering = Steering(session)
    desk.gate = steering
    await desk.advance(claim, agent_of(run))
    assert told == [
        ["mind the gap"],
        ["mind the gap"],
        [],
        [],
    ]  # the last two are of the turn that it becomes
    assert (await session.result(2)).value == "done"  # no request took it: it is the next prompt


class Steering:
    """Steers the turn once it is open."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        if point is Point.TURN_OPENED:
            await self._session.steer("mind the gap", id="steer-1")
