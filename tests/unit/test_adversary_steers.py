"""A steer that waits for a turn whose provider fails does not take the pauses away."""

from itertools import pairwise

from outlast.adapter import Attempt, ModelAsk, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.clock import SystemClock
from outlast.engine.pauses import PROVIDER_RETRY_S
from outlast.errors import ModelCallFailed
from outlast.records import AttemptEnded
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, agent_of, opened, records, until


class Hurried(SystemClock):
    """Passes many times as fast."""

    def now(self) -> float:
        return super().now() * 10


class Overloaded(Scripted):
    def __init__(self, retry_after_s: float = 0.0) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s

    async def advance(self, attempt: Attempt) -> TurnResult:
        await attempt.calls.open_model(ModelAsk("main", "m", "match", {}, []))
        await attempt.calls.void_model(1, "HTTP 529", retry_after_s=self.retry_after_s)
        raise ModelCallFailed(status=529, reason="overloaded")


async def test_a_steer_that_waits_takes_no_pause_between_attempts_away() -> None:
    agent, clock = agent_of([], adapter=Overloaded()), Hurried()
    async with open_memory(clock=clock) as world:
        session = await opened(world, agent)
        desk = Desk(world, clock)
        await desk.work(agent)
        await session.steer("hurry")
        async with desk.working(agent):
            await until(lambda: len(desk.claims) >= 4)
        ends = [record.at_s for record in await records(world) if isinstance(record, AttemptEnded)]
    pauses = [later - earlier for earlier, later in pairwise(ends)]
    assert all(pause >= due for pause, due in zip(pauses[1:], PROVIDER_RETRY_S[1:], strict=False))


async def test_a_cancel_ends_the_pause_that_a_waiting_steer_is_held_through(world: World) -> None:
    agent = agent_of([], adapter=Overloaded(retry_after_s=3600.0))
    session = await opened(world, agent)
    desk = Desk(world)
    await desk.work(agent)
    await session.steer("hurry")
    async with desk.working(agent) as task:
        await until(lambda: len(desk.claims) == 2)
        await session.cancel(1)
        await task
    assert (await session.result(1)).status == "cancelled"
