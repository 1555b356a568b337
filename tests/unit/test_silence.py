"""A program that lives and does nothing does not hold its turn for ever; one that waits is left alone."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from outlast.adapter import MAIN, Agent, Attempt, Gateway, ModelAsk, Places, Process, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.calls import Send
from outlast.clock import ManualClock
from outlast.engine.attempt import Surroundings
from outlast.engine.silence import START_S
from outlast.fold import SessionState
from outlast.records import AttemptEnded
from outlast.tool import ToolIO, tool
from outlast.workspace import Note
from outlast.world import World
from tests.unit.engine_desk import Desk, agent_of, opened, records

LIMIT_S = 0.02
STEPS = 8


@pytest.fixture
def clock() -> ManualClock:
    """Only what a program does makes time pass."""
    return ManualClock()


async def pass_by(clock: ManualClock, seconds: float) -> None:
    """Let time pass, and whoever watches look."""
    clock.turn(seconds)
    await asyncio.sleep(2 * LIMIT_S)


@dataclass
class Slow:
    """A program that says a word now and then, and lives for ever."""

    clock: ManualClock

    async def write(self, data: bytes) -> None:
        raise NotImplementedError

    async def close_stdin(self) -> None:
        raise NotImplementedError

    async def lines(self) -> AsyncIterator[bytes]:
        for _ in range(STEPS):
            await pass_by(self.clock, LIMIT_S / 2)
            yield b"still here"

    async def wait(self) -> int:
        raise NotImplementedError

    async def kill(self) -> None:
        raise NotImplementedError

    def errors(self) -> str:
        return "its last words"


@dataclass
class Programs:
    """Nothing is started (`outlast.adapter.Processes`)."""

    clock: ManualClock

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AsyncGenerator[Process]:
        yield Slow(self.clock)


Then: TypeAlias = Callable[[Attempt, Process], Awaitable[object]]


class Program(Scripted):
    """A harness whose program asks its model once, unless it is still starting, and then does this."""

    def __init__(self, then: Then, *, unseen: bool = False, starting: bool = False) -> None:
        super().__init__(script=[])
        self.then = then
        self.unseen = unseen
        self.starting = starting

    async def advance(self, attempt: Attempt) -> TurnResult:
        async with attempt.processes.start(["program"], env={}, cwd=Path("/")) as process:
            if not self.starting:
                asked = await attempt.calls.open_model(ask("first", unseen=self.unseen))
                assert isinstance(asked, Send)
                if not self.unseen:
                    await attempt.calls.settle_model(asked.call, {"content": []}, [], None)
            await self.then(attempt, process)
        return TurnResult("done")


def ask(match: str, *, unseen: bool = False) -> ModelAsk:
    return ModelAsk(MAIN, "a-model", match, {}, [], unseen=unseen)


async def failures(world: World, clock: ManualClock, program: Program) -> list[str]:
    """Why attempts ended before their turn, once the first worker has had its turn."""

    @asynccontextmanager
    async def machine(state: SessionState, agent: Agent, note: Note) -> AsyncGenerator[Surroundings]:
        at = Path("/nonexistent")
        yield Surroundings(cast("Gateway", None), Programs(clock), Places(at, at), silence_s=LIMIT_S)

    @tool(replay="safe")
    async def ponder(io: ToolIO) -> str:
        """Take long."""
        await pass_by(clock, 2 * LIMIT_S)
        return "done"

    agent = agent_of([], ponder, adapter=program)
    await opened(world, agent)
    await Desk(world, clock=clock, surroundings=machine).work_once(agent)
    return [record.error for record in await records(world) if isinstance(record, AttemptEnded)]


def silent_for(clock: ManualClock, seconds: float) -> Then:
    async def then(attempt: Attempt, process: Process) -> None:
        clock.turn(seconds)
        await asyncio.Event().wait()

    return then


async def test_a_program_that_falls_silent_ends_its_attempt_with_its_last_words(
    world: World, clock: ManualClock
) -> None:
    (why,) = await failures(world, clock, Program(silent_for(clock, LIMIT_S)))
    assert f"silent for {LIMIT_S:g} s" in why
    assert why.endswith("its last words.")


async def test_a_program_whose_model_is_asked_past_us_may_not_be_silent_either(
    world: World, clock: ManualClock
) -> None:
    (why,) = await failures(world, clock, Program(silent_for(clock, LIMIT_S), unseen=True))
    assert f"silent for {LIMIT_S:g} s" in why


async def test_a_program_that_has_asked_for_nothing_yet_has_time_to_start(
    world: World, clock: ManualClock
) -> None:
    async def starts(attempt: Attempt, process: Process) -> None:
        await pass_by(clock, START_S - 1.0)

    assert await failures(world, clock, Program(starts, starting=True)) == []


async def test_a_program_that_never_asks_for_anything_ends_its_attempt(
    world: World, clock: ManualClock
) -> None:
    (why,) = await failures(world, clock, Program(silent_for(clock, START_S), starting=True))
    assert f"silent for {START_S:g} s" in why


async def test_a_program_that_waits_for_its_tool_is_left_alone(world: World, clock: ManualClock) -> None:
    async def waits(attempt: Attempt, process: Process) -> None:
        assert (await attempt.calls.run_tool("ponder", {})).value == "done"

    assert await failures(world, clock, Program(waits)) == []


async def test_a_program_that_waits_for_its_model_is_left_alone(world: World, clock: ManualClock) -> None:
    async def waits(attempt: Attempt, process: Process) -> None:
        asked = await attempt.calls.open_model(ask("second"))
        assert isinstance(asked, Send)
        await pass_by(clock, 2 * LIMIT_S)
        await attempt.calls.settle_model(asked.call, {"content": []}, [], None)

    assert await failures(world, clock, Program(waits)) == []


async def test_a_program_that_says_something_is_not_silent(world: World, clock: ManualClock) -> None:
    async def speaks(attempt: Attempt, process: Process) -> None:
        assert [line async for line in process.lines()] == [b"still here"] * STEPS

    assert await failures(world, clock, Program(speaks)) == []


async def test_what_a_command_beside_the_program_says_breaks_its_silence(
    world: World, clock: ManualClock
) -> None:
    async def beside(attempt: Attempt, process: Process) -> None:
        async with attempt.processes.start(["command"], env={}, cwd=Path("/")) as command:
            assert [line async for line in command.lines()] == [b"still here"] * STEPS

    assert await failures(world, clock, Program(beside)) == []
