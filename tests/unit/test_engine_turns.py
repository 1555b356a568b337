"""How a turn ends and how it goes on: budget, back-off, hand-over, cancel, steers, queued prompts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pytest

from outlast.adapter import MAIN, Agent, Attempt, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.engine import stopping
from outlast.engine.budget import CUT_TIMES
from outlast.engine.context import Context
from outlast.engine.inbox import CANCELLED
from outlast.engine.pauses import RETRY_S
from outlast.errors import HarnessError, InputConflict, TurnStopped
from outlast.fold import SessionState
from outlast.gate import Point
from outlast.records import (
    AttemptEnded,
    CallIntent,
    PromptQueued,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnSettled,
)
from outlast.records.events import Event
from outlast.recovery import CANCELLED_IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, StrikingGate, spots
from outlast.tool import ToolIO, tool
from outlast.world import Claim, World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.at_once import at_once
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say

T = TypeVar("T")
IN_MODEL = Spot(Point.IN_EFFECT, "model")
SCRIPT = [say("one two"), call("add", number=1), say("three four")]


@tool(replay="safe")
async def add(io: ToolIO, number: int) -> int:
    """Add one."""
    return number + 1


async def lose_a_worker(world: World, agent: Agent, number: int, spot: Spot = IN_MODEL) -> None:
    """A worker takes the session over and dies at the spot."""
    mortal = MortalWorld(world)
    dead = frozenset(f"dead-{before}" for before in range(number))
    desk = Desk(mortal, gate=DeathGate(spot, mortal), name=f"dead-{number}", dead=dead)
    with pytest.raises(Killed):
        await desk.work(agent)


def heir(world: World, losses: int) -> Desk:
    return Desk(world, dead=frozenset(f"dead-{number}" for number in range(losses)))


async def test_a_turn_that_kills_every_worker_is_parked_as_stuck_with_the_evidence(world: World) -> None:
    agent = agent_of(SCRIPT, add)
    session = await opened(world, agent)
    for number in range(agent.recovery_budget + 1):
        await lose_a_worker(world, agent, number)
    await heir(world, 6).work(agent)
    head = await session.head()
    turn = (await session.state()).turn
    assert turn is not None
    assert turn.parked is not None
    assert (head.parked, turn.parked.why) == (True, "stuck")
    evidence = turn.parked.evidence
    assert evidence["fruitless_attempts"] == 6
    assert [one["worker"] for one in evidence["attempts"]] == [f"dead-{number}" for number in range(6)] + [
        "worker-1"
    ]
    assert await heir(world, 6).claim(agent) is None, "a parked turn waits for a person"


async def test_a_stuck_turn_ends_by_cancel_and_the_next_prompt_runs(world: World) -> None:
    agent = agent_of(SCRIPT, add)
    session = await opened(world, agent)
    for number in range(agent.recovery_budget + 1):
        await lose_a_worker(world, agent, number)
    await heir(world, 6).work(agent)
    await session.cancel()
    next_turn = await session.send("again", id="in-2")
    await heir(world, 6).work(agent)
    assert (await session.result(1)).status == "cancelled"
    assert (await next_turn.result()).status == "done"


async def test_a_turn_that_settles_a_call_in_each_attempt_is_never_stuck(world: World) -> None:
    agent = agent_of([call("add", number=number) for number in range(9)], add)
    session = await opened(world, agent)
    for number in range(9):
        await lose_a_worker(world, agent, number, Spot(Point.AFTER_OUTCOME, "safe"))
    await heir(world, 9).work(agent)
    assert (await session.result(1)).value == list(range(1, 10))


class Broken(Scripted):
    """A harness that cannot be started for a while."""

    def __init__(self, failures: int, error: BaseException) -> None:
        super().__init__(script=SCRIPT)
        self.left = failures
        self.error = error

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return await super().advance(attempt)


ERRORS: list[BaseException] = [
    HarnessError(harness="the tester", reason="it is not there"),
    ValueError("half a pair: \ud800"),
    SystemExit(2),
    ExceptionGroup("several", [ValueError("a"), OSError("b")]),
    asyncio.CancelledError("of its own making"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_failing_harness_is_tried_again_later_and_later(error: BaseException) -> None:
    clock = ManualClock()
    async with open_memory(MemoryStore(clock)) as world:
        agent = agent_of(SCRIPT, add, adapter=Broken(3, error))
        session = await opened(world, agent)
        desk = Desk(world, clock=clock)
        for pause in RETRY_S[:3]:
            await desk.work(agent)
            assert (await session.head()).wake_at_s == pytest.approx(clock.now() + pause)
            assert await desk.claim(agent) is None
            clock.turn(pause + 0.01)
        await desk.work(agent)
        assert (await session.result(1)).status == "done"
    ended = [record for record in await records(world) if isinstance(record, AttemptEnded)]
    assert [record.why for record in ended] == ["failed"] * 3


async def test_a_harness_that_fails_for_ever_is_parked_as_stuck() -> None:
    clock = ManualClock()
    async with open_memory(MemoryStore(clock)) as world:
        agent = agent_of(SCRIPT, add, adapter=Broken(99, ValueError("no")))
        session = await opened(world, agent)
        desk = Desk(world, clock=clock)
        for _ in range(agent.recovery_budget + 2):
            await desk.work(agent)
            clock.turn(60)
        turn = (await session.state()).turn
        assert turn is not None
        assert turn.parked is not None
        assert turn.parked.why == "stuck"
        assert "ValueError: no" in turn.parked.evidence["attempts"][-2]["ended"]


class Held:
    """A tool that runs until it is let go or cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.runs = 0
        self.running = 0

        async def hold(io: ToolIO) -> str:
            """Run for long."""
            self.runs += 1
            self.running += 1
            self.began.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                if stubborn:
                    await self.go.wait()
                raise
            finally:
                self.running -= 1
            return "held"

        self.tool = tool(replay="safe")(hold)
        self.never = tool(name="hold")(hold)


async def test_a_hand_over_leaves_the_turn_to_another_worker_at_once(world: World) -> None:
    held = Held()
    agent = agent_of([say("one two"), call("hold")], held.tool)
    session = await opened(world, agent)
    first = Desk(world)
    async with first.working(agent, once=True):
        await held.began.wait()
        first.control.hand_over()
        claim = await claimed(Desk(world, name="worker-2"), agent)
        assert held.running == 0, "its tool still runs"
        assert (claim.proof, claim.previous) == ("free", None)
    held.go.set()
    await Desk(world, name="worker-2").advance(claim, agent)
    assert (await session.result(1)).value == ["one two", "held"]
    assert held.runs == 2


async def test_a_hand_over_waits_for_a_tool_that_cannot_be_stopped(world: World) -> None:
    held = Held(stubborn=True)
    agent = agent_of([call("hold")], held.tool)
    await opened(world, agent)
    first = Desk(world)
    async with first.working(agent, once=True):
        await held.began.wait()
        first.control.hand_over()
        for _ in range(200):
            await asyncio.sleep(0)
        assert held.running == 1
        assert await Desk(world, name="worker-2").claim(agent) is None, "it was let go under a running tool"
        held.go.set()
        await claimed(Desk(world, name="worker-2"), agent)


class Swallowing(Scripted):
    """An adapter whose code takes each cancellation for a mere disturbance."""

    def __init__(self, *, swallows: int) -> None:
        super().__init__(script=[])
        self.began, self.over = asyncio.Event(), asyncio.Event()
        self.left = swallows
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.began.set()
        while not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                self.left -= 1
                if self.left < 0:
                    raise
        try:
            await attempt.calls.run_tool("add", {"number": 1}, lane=MAIN)
        except TurnStopped as stopped:
            self.refused.set_result(str(stopped))
        return TurnResult("done")


@pytest.mark.parametrize("swallows", [1, 99])
async def test_a_harness_that_swallows_cancellations_does_not_keep_its_session(
    world: World, swallows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "PATIENCE_S", 0.05)
    swallowing = Swallowing(swallows=swallows)
    agent = agent_of([], add, adapter=swallowing)
    session = await opened(world, agent)
    async with Desk(world).working(agent):
        await swallowing.began.wait()
        await session.cancel(1)
        assert (await session.result(1)).status == "cancelled"
        swallowing.over.set()
        await asyncio.sleep(0)
    if swallows == 99:
        assert (await asyncio.wait_for(swallowing.refused, 5)) == CANCELLED


async def test_handing_over_uses_no_recovery_budget(world: World) -> None:
    held = Held()
    agent = replace(agent_of([call("hold")], held.tool), recovery_budget=1)
    session = await opened(world, agent)
    for number in range(CUT_TIMES - 1):
        await handed_over(world, agent, held, f"worker-{number}")
    held.go.set()
    await Desk(world).work(agent)
    assert (await session.result(1)).value == ["held"]


async def test_a_call_that_is_cut_off_again_and_again_is_no_longer_tried(world: World) -> None:
    held = Held()
    agent = agent_of([call("hold")], held.tool)
    session = await opened(world, agent)
    for number in range(CUT_TIMES):
        await handed_over(world, agent, held, f"worker-{number}")
    await Desk(world).work(agent)
    state = await session.state()
    assert state.turn is not None
    assert state.turn.parked is not None
    assert state.turn.parked.why == "stuck"
    assert state.turn.parked.evidence["open_calls"][0]["cut_by_a_deadline"] == CUT_TIMES
    held.go.set()
    await session.retry()
    await Desk(world).work(agent)
    assert (await session.result(1)).value == ["held"]


async def handed_over(world: World, agent: Agent, held: Held, name: str) -> None:
    """A worker begins the call and hands the turn over while it runs."""
    held.began.clear()
    desk = Desk(world, name=name)
    claim = await claimed(desk, agent)
    advancing = asyncio.get_running_loop().create_task(desk.advance(claim, agent))
    await held.began.wait()
    desk.control.hand_over()
    await advancing


async def claimed(desk: Desk, agent: Agent) -> Claim:
    """The session, as soon as it can be had."""
    return await until(lambda: desk.claim(agent))


async def until(ask: Callable[[], Awaitable[T | None]]) -> T:
    """What it answers, as soon as that is something."""
    async with asyncio.timeout(5):
        while True:
            if found := await ask():
                return found
            await asyncio.sleep(0.001)


async def _knows(context: Context) -> bool:
    return context.stopping == CANCELLED or context.closed


class CancelGate(StrikingGate):
    """Puts a cancel at a spot and waits until the attempt knows of it."""

    def __init__(self, spot: Spot, session: Session) -> None:
        super().__init__(spot, lambda: None, before=self._cancel)
        self._session = session
        self.desk: Desk | None = None

    async def _cancel(self, _: int) -> None:
        await self._session.cancel(1)
        assert self.desk is not None
        context = self.desk.control.context
        if context is not None:
            await until(partial(_knows, context))


async def test_a_turn_can_be_cancelled_at_every_point(world: World) -> None:
    @tool
    async def pay(io: ToolIO) -> str:
        """Pay."""
        return "paid"

    agent = agent_of([say("one two", call("pay")), call("pay"), say("three")], pay)
    recorded = RecordingGate()
    await opened(world, agent)
    await Desk(world, gate=recorded).work(agent)

    async def cancelled_at(spot: Spot) -> None:
        async with open_memory() as own:
            session = await opened(own, agent)
            gate = CancelGate(spot, session)
            desk = gate.desk = Desk(own, gate=gate)
            await desk.work(agent)
            # Before its turn is open and after it is over, a cancel changes nothing.
            over = spot.point in {Point.CLAIMED, Point.BEFORE_SETTLE, Point.AFTER_SETTLE, Point.RELEASED}
            outcome = await session.result(1)
            assert outcome.status == ("done" if over else "cancelled"), str(spot)
            assert (await session.head()).waiting_inputs == 0, str(spot)
            after = await session.send("again", id="in-2")
            await Desk(own).work(agent)
            assert (await after.result()).status == "done", str(spot)

    await at_once(cancelled_at(spot) for spot in spots(recorded.crossings))


async def test_a_cancelled_turn_says_which_calls_may_have_happened(world: World) -> None:
    held = Held()
    agent = agent_of([call("hold")], held.never)
    session = await opened(world, agent)
    async with Desk(world).working(agent):
        await held.began.wait()
        await session.cancel(reason="no longer wanted")
        assert (await session.result(1)).status == "cancelled"
        assert held.running == 0
    settled = [event async for event in upto_end(session) if event.kind == "call.settled"]
    assert [event.status for event in settled] == ["in_doubt"]
    assert settled[0].payload.value() == CANCELLED_IN_DOUBT


async def upto_end(session: Session) -> AsyncGenerator[Event]:
    async for event in session.follow():
        yield event
        if event.kind == "turn.settled":
            return


async def consumed(session: Session, input_id: str) -> bool:
    found = await session.world.find_input(session.id, input_id)
    return found is not None and found.consumed_by is not None


async def test_a_cancel_of_another_turn_changes_nothing(world: World) -> None:
    held = Held()
    agent = agent_of([call("hold")], held.tool)
    session = await opened(world, agent)
    async with Desk(world).working(agent):
        await held.began.wait()
        await session.cancel(7, id="cancel-other")
        await until(lambda: consumed(session, "cancel-other"))
        held.go.set()
        assert (await session.result(1)).status == "done"


async def test_a_steer_that_its_turn_never_took_becomes_the_next_prompt(world: World) -> None:
    held = Held()
    agent = agent_of([call("hold")], held.tool)
    session = await opened(world, agent)
    steer = "mind the gap " * 1_000  # longer than what stands in a record
    async with Desk(world).working(agent):
        await held.began.wait()
        await session.steer(steer, id="steer-1")
        held.go.set()
        await session.result(2)
    assert (await session.result(2)).status == "done"
    queued = [
        record for record in await records(world) if isinstance(record, PromptQueued) and record.steered
    ]
    assert [record.input for record in queued] == ["steer-1"]
    assert await session.value(queued[0].prompt) == steer


async def test_a_steer_that_waited_when_the_worker_died_reaches_the_next_attempt(world: World) -> None:
    held = Held()
    waited = WaitsForSteer(script=[call("hold"), say("with steer")])
    agent = agent_of((), held.tool, adapter=waited)
    session = await opened(world, agent)
    mortal = MortalWorld(world)
    async with Desk(mortal, name="dead-0").working(agent):
        await held.began.wait()
        await session.steer("mind the gap", id="steer-1")
        mortal.die()
    held.go.set()
    waited.wait = True
    await heir(world, 1).work(agent)
    assert (await session.result(1)).status == "done"
    taken = [record for record in await records(world) if isinstance(record, SteerTaken)]
    assert [(record.input, record.text) for record in taken] == [("steer-1", "mind the gap")]


class WaitsForSteer(Scripted):
    """Goes on once a steer has come."""

    wait = False

    async def advance(self, attempt: Attempt) -> TurnResult:
        if self.wait:
            async for _ in attempt.steers.arrivals():
                break
        return await super().advance(attempt)


async def test_prompts_behind_a_running_turn_run_in_their_order(world: World) -> None:
    agent = agent_of(SCRIPT, add)
    session = await opened(world, agent, "s-1", "first", "second", "third")
    await Desk(world).work(agent)
    opened_turns = [record for record in await records(world) if isinstance(record, TurnOpened)]
    assert [record.input for record in opened_turns] == ["in-1", "in-2", "in-3"]
    assert [(await session.result(number)).status for number in (1, 2, 3)] == ["done"] * 3


async def test_a_prompt_that_waits_in_the_log_survives_a_death_at_every_point(world: World) -> None:
    agent = agent_of([call("add", number=1)], add)
    recorded = RecordingGate()
    await opened(world, agent, "uncut", "first", "second")
    await Desk(world, gate=recorded).work(agent)
    for number, spot in enumerate(spots(recorded.crossings)):
        session = await opened(world, agent, f"s-{number}", "first", "second")
        mortal = MortalWorld(world)
        with pytest.raises(Killed):
            await Desk(mortal, name=f"dead-{number}", gate=DeathGate(spot, mortal)).work(agent)
        await Desk(world, name=f"heir-{number}", dead=frozenset({f"dead-{number}"})).work(agent)
        async with asyncio.timeout(5):
            assert (await session.result(2)).status == "done", str(spot)


async def test_the_same_input_twice_is_one_turn_and_another_content_an_error(world: World) -> None:
    agent = agent_of(SCRIPT, add)
    session = await opened(world, agent)
    await session.send("go", id="in-1")
    await Desk(world).work(agent)
    again = await session.send("go", id="in-1")
    await Desk(world).work(agent)
    assert await again.number() == 1
    assert sum(isinstance(record, TurnSettled) for record in await records(world)) == 1
    with pytest.raises(InputConflict):
        await session.send("something else", id="in-1")


async def test_steers_behind_a_parked_turn_wait_as_prompts(world: World) -> None:
    agent = agent_of(SCRIPT, add)
    session = await opened(world, agent)
    for number in range(agent.recovery_budget + 1):
        await lose_a_worker(world, agent, number)
    await session.steer("hello?", id="steer-1")
    await heir(world, 6).work(agent)
    state: SessionState = await session.state()
    assert [prompt.input for prompt in state.queue] == ["steer-1"]
    assert (await session.head()).waiting_inputs == 0
    assert sum(isinstance(record, TurnParked) for record in await records(world)) == 1


async def test_a_call_in_doubt_that_a_person_must_decide_about_parks_the_turn(world: World) -> None:
    paid: list[str] = []

    @tool(on_doubt="ask")
    async def pay(io: ToolIO) -> str:
        """Pay."""
        paid.append(io.key)
        return "paid"

    agent = agent_of([call("pay"), call("pay")], pay)
    session = await opened(world, agent)
    await lose_a_worker(world, agent, 0, Spot(Point.AFTER_EFFECT, "never"))
    await heir(world, 1).work(agent)
    turn = (await session.state()).turn
    assert turn is not None
    assert turn.parked is not None
    assert (turn.parked.why, turn.parked.evidence) == ("decision", {"in_doubt": [1]})
    await heir(world, 1).work(agent)
    assert len(paid) == 1
    await session.cancel()
    await heir(world, 1).work(agent)
    assert (await session.result(1)).status == "cancelled"
    assert len(paid) == 1


async def test_a_tool_that_is_gone_is_in_doubt_and_a_stricter_policy_of_today_holds(world: World) -> None:
    runs: list[str] = []

    @tool(replay="safe")
    async def look(io: ToolIO) -> str:
        """Look."""
        runs.append(io.key)
        return "seen"

    lax, script = agent_of([call("look")], look), [call("look")]
    for number, today in enumerate((agent_of(script), agent_of(script, replace(look, policy="never")))):
        session = await opened(world, lax, f"s-{number}")
        mortal = MortalWorld(world)
        spot = DeathGate(Spot(Point.AFTER_EFFECT, "safe"), mortal, before=partial(_durable, world, session))
        with pytest.raises(Killed):
            await Desk(mortal, gate=spot, name=f"dying-{number}").work(lax)
        await Desk(world, dead=frozenset({f"dying-{number}"})).work(today)
        outcome = await session.result(1)
        assert outcome.value[0]["status"] == "in_doubt"
    assert len(runs) == 2


async def _durable(world: World, session: Session, number: int) -> None:
    """Wait until the intent of the call, which nobody waits for, is in the log."""

    async def written() -> bool:
        return any(isinstance(record, CallIntent) for record in await records(world, session.id))

    await until(written)
