"""A signal may say that what is waited for failed: the wait raises in a loop, in every attempt the same."""

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.errors import InputConflict, ToolError
from outlast.fold import SessionState
from outlast.gate import Point
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, opened


async def loop(io: IO, prompt: str) -> object:
    try:
        return await io.wait_for("ci")
    except ToolError as error:
        return [str(error), error.facts["status"]]


AGENT = Agent("tester", Loop(loop))
ENDED = ["the signal 'ci' ended as error: the build is red", "error"]


@pytest.mark.parametrize("death", [None, Point.BEFORE_INTENT, Point.OUTCOME_QUEUED, Point.AFTER_OUTCOME])
async def test_a_signal_that_says_so_ends_its_wait_as_a_failure(death: Point | None) -> None:
    async with open_memory() as world:
        session = await opened(world, AGENT)
        await session.signal("ci", "the build is red", failed=True, id="run-1")
        if death is not None:
            mortal = MortalWorld(world)
            gate = DeathGate(Spot(death, "wait"), mortal)
            with pytest.raises(Killed):
                await Desk(mortal, gate=gate, name="dead").work(AGENT)
        await Desk(world, dead=frozenset({"dead"})).work(AGENT)
        assert (await session.result(1)).value == ENDED
        state: SessionState = await session.state()
        assert not state.signals


async def test_the_same_signal_that_failed_and_did_not_is_two() -> None:
    async with open_memory() as world:
        session = await opened(world, AGENT)
        await session.signal("ci", "the build is red", failed=True, id="run-1")
        await session.signal("ci", "the build is red", failed=True, id="run-1")
        with pytest.raises(InputConflict):
            await session.signal("ci", "the build is red", id="run-1")
