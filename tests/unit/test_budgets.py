"""How often a turn is tried: the harness's failures, the provider's and hand-overs are counted apart."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from outlast import Agent, Outcome, Session
from outlast.adapters.scripted import Scripted
from outlast.clock import SystemClock
from outlast.errors import HarnessError, ModelCallFailed
from outlast.fold import AttemptState, SessionState, TurnState, apply_record
from outlast.gateway import Open, open_gateway
from outlast.records import AttemptEnded, AttemptOpened, Payload, SessionOpened, TurnOpened
from outlast.worker import WorkerConfig, open_worker
from outlast.worlds.memory import open_memory
from tests.at_once import at_once

End = tuple[Outcome | None, SessionState]
"""How a turn ended, None if it was parked, and what the log says."""
PROMPT = '[{"do": "model", "text": "hello"}]'


def failing(times: int, error: Exception) -> Scripted:
    left = [times]

    async def model(text: str) -> AsyncGenerator[str, None]:
        if left[0]:
            left[0] -= 1
            raise error
        yield text

    return Scripted(model=model)


async def carried(directory: Path, agent: Agent) -> End:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(open_memory())
        upstream = Open("http://127.0.0.1:9")
        gateway = await stack.enter_async_context(open_gateway(upstream=upstream, clock=clock))
        worker = await stack.enter_async_context(
            open_worker(world, {"a": agent}, gateway, WorkerConfig(directory))
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        session = await Session.open(world, "s", agent="a")
        turn = await session.send(PROMPT)
        tasks.start_soon(worker.work)
        async for event in turn.follow():
            if event.kind == "turn.parked":
                worker.drain()
                return None, await session.state()
        worker.drain()
        return await turn.result(), await session.state()
    raise AssertionError


@pytest.fixture(scope="module")
async def ends(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, End]:
    """How turns end whose attempts fail. They are carried at once, for most of each is pauses."""
    overloaded = ModelCallFailed(status=529, reason="overloaded")
    broken = HarnessError(harness="it", reason="it broke")
    agents = {
        "the provider failed twice": Agent("a", failing(2, overloaded), recovery_budget=0),
        "the provider goes on failing": Agent("a", failing(9, overloaded), provider_retries=1),
        "the harness failed twice": Agent("a", failing(2, broken), recovery_budget=0),
    }
    found = await at_once(carried(tmp_path_factory.mktemp("turn"), agent) for agent in agents.values())
    return dict(zip(agents, found, strict=True))


async def test_a_provider_that_fails_in_passing_uses_no_recovery_budget(ends: Mapping[str, End]) -> None:
    outcome, _ = ends["the provider failed twice"]
    assert outcome is not None
    assert outcome.status == "done"


async def test_a_harness_that_fails_does(ends: Mapping[str, End]) -> None:
    outcome, state = ends["the harness failed twice"]
    assert outcome is None
    assert state.turn is not None
    assert state.turn.parked is not None
    assert state.turn.parked.why == "stuck"
    assert "it broke" in str(state.turn.parked.evidence)


async def test_a_provider_that_goes_on_failing_parks_the_turn_with_its_words(ends: Mapping[str, End]) -> None:
    outcome, state = ends["the provider goes on failing"]
    assert outcome is None
    assert state.turn is not None
    assert state.turn.parked is not None
    assert state.turn.parked.evidence["refused_by_provider"] == 2
    assert "529: overloaded" in str(state.turn.parked.evidence)


@pytest.mark.parametrize(("why", "counted"), [("failed", 1), ("provider", 0), ("handed_over", 0)])
def test_only_a_failure_of_the_harness_counts_against_the_turn(why: str, counted: int) -> None:
    state = SessionState(session="s")
    apply_record(state, SessionOpened("s", "a", "scripted"))
    state.fence = 1
    apply_record(state, AttemptOpened("w"))
    apply_record(state, TurnOpened(1, "in", Payload()))
    apply_record(state, AttemptEnded(1, why))  # pyright: ignore[reportArgumentType] - one of the three
    state.fence = 2
    apply_record(state, AttemptOpened("w"))
    assert isinstance(state.turn, TurnState)
    assert state.turn.fruitless == counted
    assert isinstance(state.turn.attempts[-1], AttemptState)
