"""An approval left for two weeks, a sleep of a month, new code meanwhile: it goes on right, or says what is wrong."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.records import TurnParked
from outlast.rules import ask
from outlast.session import Outcome, Session
from outlast.tool import Tool, ToolIO, tool
from outlast.worlds.sqlite import open_sqlite
from tests.unit.engine_desk import Desk, opened, records

DAY_S = 86_400.0


@dataclass
class Company:
    """A store on disk that is opened by one process after the other, each with the code of its time."""

    file: Path
    clock: ManualClock = field(default_factory=ManualClock)
    done: list[str] = field(default_factory=list[str])
    """What its tools did, in order."""
    workers: int = 0

    async def run(self, code: LoopFunction, *prompts: str, days: float = 0.0) -> Outcome | None:
        """Some days pass; then a process with this code carries the turns as far as they go, and ends.

        Returns how the last turn ended, if it did.
        """
        self.clock.turn(days * DAY_S)
        self.workers += 1
        agent = Agent("tester", Loop(code), tools=self._tools(), rules=[ask("ship_if_allowed")])
        async with open_sqlite(self.file, clock=self.clock) as world:
            session = await opened(world, agent, "s-1", *prompts) if prompts else None
            await Desk(world, self.clock, name=f"worker-{self.workers}").work(agent)
            session = session or await Session.find(world, "s-1", clock=self.clock)
            assert (await session.head()).worker is None
            state = await session.state()
            return None if state.turn is not None else await session.result(state.next_turn - 1)

    async def approve(self, *, days: float) -> None:
        """After some days a person says yes, once more, and then no; nobody works meanwhile."""
        self.clock.turn(days * DAY_S)
        async with open_sqlite(self.file, clock=self.clock) as world:
            session = await Session.find(world, "s-1", clock=self.clock)
            turn = (await session.state()).turn
            assert turn is not None
            (call,) = turn.open_calls()
            yes, no = ("done", "failed") if call.intent.kind == "wait" else ("allow", "deny")
            await session.decide(call.intent.call, yes, "yes", by="ann", id="yes")
            await session.decide(call.intent.call, yes, "yes", by="ann", id="yes")
            await session.decide(call.intent.call, no, "no", by="bob")

    async def parked(self) -> TurnParked:
        """Why the open turn does not go on."""
        async with open_sqlite(self.file, clock=self.clock) as world:
            return [one for one in await records(world) if isinstance(one, TurnParked)][-1]

    async def release(self) -> None:
        """`outlast retry`."""
        async with open_sqlite(self.file, clock=self.clock) as world:
            await (await Session.find(world, "s-1", clock=self.clock)).retry()

    def _tools(self) -> Sequence[Tool]:
        def named(name: str) -> Tool:
            async def run(io: ToolIO) -> str:
                """Do it once."""
                self.done.append(name)
                return name

            return tool(name=name)(run)

        return [named(name) for name in ("reserve", "check", "ship_if_allowed", "charge", "notify")]


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path / "world.db")


@dataclass(frozen=True)
class Absence:
    """What a turn waits for, and what must come about for it to go on."""

    wait: Callable[[IO], Awaitable[Any]]
    passes: Callable[[Company], Awaitable[None]]
    logged: Sequence[object]
    """The call that the log holds."""
    does: Sequence[str] = ()
    """What was begun before and is done when it is over, whatever the code asks for: a person has allowed it."""


async def _month(company: Company) -> None:
    company.clock.turn(30 * DAY_S)


async def _fortnight(company: Company) -> None:
    await company.approve(days=14)


ABSENCES = {
    "an answer after 14 days": Absence(
        lambda io: io.ask("May it be shipped?"),
        _fortnight,
        ["wait", "person", {"question": "May it be shipped?", "choices": []}],
    ),
    "leave after 14 days": Absence(
        lambda io: io.tool("ship_if_allowed"),
        _fortnight,
        ["tool", "ship_if_allowed", {}],
        ["ship_if_allowed"],
    ),
    "a sleep of 30 days": Absence(
        lambda io: io.sleep(30 * DAY_S), _month, ["wait", "sleep", {"for_s": 30 * DAY_S}]
    ),
}


@pytest.fixture(params=ABSENCES.values(), ids=list(ABSENCES))
def absence(request: pytest.FixtureRequest) -> Absence:
    return request.param


def first(absence: Absence) -> LoopFunction:
    """The code that the turn began with."""

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        await absence.wait(io)
        return await io.tool("charge")

    return order


def changed_behind(absence: Absence) -> LoopFunction:
    """Code with a call more behind the wait."""

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        await absence.wait(io)
        await io.tool("notify")
        return await io.tool("charge")

    return order


def changed_before(absence: Absence) -> LoopFunction:
    """Code with a call more before the wait."""

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        await io.tool("check")
        await absence.wait(io)
        return await io.tool("charge")

    return order


def patched_before(absence: Absence) -> LoopFunction:
    """The same, behind `patched`."""

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        if await io.patched("check"):
            await io.tool("check")
        await absence.wait(io)
        return await io.tool("charge")

    return order


def waits_no_more(absence: Absence) -> LoopFunction:
    """Code without the wait."""

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        return await io.tool("charge")

    return order


async def _left(company: Company, absence: Absence) -> None:
    assert await company.run(first(absence), "order 81") is None
    assert company.done == ["reserve"]
    assert await company.run(first(absence), days=0.5) is None, "it is too soon"
    await absence.passes(company)


async def _ends(company: Company, code: LoopFunction, done: Sequence[str]) -> None:
    """The turn is over, and this is what its tools did, in order."""
    ended = await company.run(code)
    assert ended is not None
    assert (ended.status, ended.value) == ("done", "charge")
    assert company.done == done


async def test_it_goes_on_where_it_was(company: Company, absence: Absence) -> None:
    await _left(company, absence)
    await _ends(company, first(absence), ["reserve", *absence.does, "charge"])


async def test_code_that_changed_behind_the_wait_goes_on_as_changed(
    company: Company, absence: Absence
) -> None:
    await _left(company, absence)
    await _ends(company, changed_behind(absence), ["reserve", *absence.does, "notify", "charge"])


@pytest.mark.parametrize("changed", [changed_before, waits_no_more])
async def test_code_that_changed_before_the_wait_begins_nothing_and_shows_both_sides(
    company: Company, absence: Absence, changed: Callable[[Absence], LoopFunction]
) -> None:
    await _left(company, absence)
    assert await company.run(changed(absence)) is None
    assert company.done == ["reserve", *absence.does]
    parked = await company.parked()
    now = "check" if changed is changed_before else "charge"
    assert parked.why == "diverged"
    assert (parked.evidence["logged"], parked.evidence["now"]) == (absence.logged, ["tool", now, {}])
    await company.release()
    assert await company.run(changed(absence)) is None, "it is still the wrong code"
    assert company.done == ["reserve", *absence.does]
    await company.release()
    await _ends(company, first(absence), ["reserve", *absence.does, "charge"])


async def test_behind_patched_the_old_turn_goes_the_old_way_and_the_next_turn_the_new(
    company: Company, absence: Absence
) -> None:
    await _left(company, absence)
    await _ends(company, patched_before(absence), ["reserve", *absence.does, "charge"])
    company.done.clear()
    assert await company.run(patched_before(absence), "order 81", "order 82") is None
    assert company.done == ["reserve", "check"]
