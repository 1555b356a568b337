"""What the picture of a large turn costs, as ratios within one run."""

import time

from outlast.clock import SystemClock
from outlast.picturing import picture_of
from outlast.session import Session
from outlast.timeline import Timeline
from outlast.worlds.memory import MemoryStore, MemoryWorld
from tests.acceptance.pasts import long

ROUNDS = 3


async def picture_s(calls: int) -> tuple[float, Timeline]:
    """The seconds of CPU that the picture of a turn of so many calls takes, the least of three; and that picture."""
    world = MemoryWorld(MemoryStore(SystemClock()))
    await long(world, "s", 1_800_000_000.0, calls)
    session, took, timeline = Session(world, "s", SystemClock()), float("inf"), Timeline()
    for _ in range(ROUNDS):
        began = time.process_time()
        timeline = (await picture_of(session, details=0)).timeline
        took = min(took, time.process_time() - began)
    return took, timeline


async def test_the_picture_of_ten_times_the_calls_costs_ten_times_as_much() -> None:
    few, _ = await picture_s(1_000)
    many, timeline = await picture_s(10_000)
    assert timeline.turns[0].calls == 10_000
    assert many <= 25 * few
