"""A call that kills whoever runs it, asked for again and again by the model, does not go on for ever."""

import asyncio

import pytest

from outlast.adapter import Attempt, ModelAsk, Send, ToolAsk, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.engine.budget import LOST_TIMES
from outlast.errors import HarnessError
from outlast.records import CallIntent, TurnParked
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, agent_of, opened, records


class Obstinate(Scripted):
    """Its model asks for the same tool for ever; with `breaks` the harness dies of it, not the worker."""

    def __init__(self, *, breaks: bool) -> None:
        super().__init__()
        self.breaks = breaks

    async def advance(self, attempt: Attempt) -> TurnResult:
        asked = [call for call in attempt.turn.calls.values() if call.intent.kind == "model"]
        attempt.calls.delivered([call.intent.call for call in asked])
        name = f"id-{len(asked)}"
        opening = await attempt.calls.open_model(ModelAsk("main", "m", name, {}, []))
        assert isinstance(opening, Send)
        await attempt.calls.settle_model(opening.call, {}, [ToolAsk(name, "boom", {})], None)
        if self.breaks:
            raise HarnessError(harness="it", reason="killed")
        await attempt.calls.run_tool("boom", {}, harness_id=name)
        return TurnResult("done")


@pytest.mark.crash
@pytest.mark.parametrize("breaks", [False, True], ids=["the worker dies", "the harness dies"])
async def test_a_turn_that_loses_its_attempts_for_ever_is_parked(
    monkeypatch: pytest.MonkeyPatch, *, breaks: bool
) -> None:
    monkeypatch.setattr("outlast.engine.pauses.RETRY_S", (0.0,))
    ran = asyncio.Event()

    @tool()
    async def boom(io: ToolIO) -> None:
        """Kill whoever runs it."""
        ran.set()
        await asyncio.Event().wait()

    agent = agent_of([], boom, adapter=Obstinate(breaks=breaks))
    async with open_memory() as world:
        await opened(world, agent)
        attempts = 0
        while True:
            desk = Desk(world, name=f"w{attempts}", dead=frozenset({f"w{attempts - 1}"}))
            claim = await desk.claim(agent)
            if claim is None:
                break
            attempts += 1
            ran.clear()
            job = asyncio.get_running_loop().create_task(desk.advance(claim, agent))
            killed = asyncio.get_running_loop().create_task(ran.wait())
            await asyncio.wait({job, killed}, return_when=asyncio.FIRST_COMPLETED)
            desk.control.lose("kill -9")
            killed.cancel()
            await asyncio.wait({job})
            assert attempts < 200
        log = await records(world)
    (parked,) = [record for record in log if isinstance(record, TurnParked)]
    assert parked.why == "stuck"
    most = LOST_TIMES * agent.recovery_budget
    asked = [one for one in log if isinstance(one, CallIntent) and one.kind == "model"]
    assert attempts <= most + 3
    assert len(asked) <= most + 1
