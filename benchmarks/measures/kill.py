"""How long after SIGKILL another worker of the host makes the turn's next call.

Some `outlast work` processes under their supervisors share a World on disk. One of them advances a turn of short calls;
after some calls, a number drawn at random, it gets SIGKILL. Measured is the time from before the signal to the
beginning of the first call that the dead worker had not begun: its supervisor has proved it dead, another has claimed
the session, read its log, run the open call again and gone on. Then the next turn is begun; when one worker is left,
as many as died are started anew, and nothing is measured meanwhile.
"""

import asyncio
import random
from collections.abc import Sequence

from benchmarks import cast
from benchmarks.frame import Bench, Row, median, percentile
from benchmarks.workers import Crew, crew
from outlast.session import Session
from outlast.world import World

LIMIT_MS = 500.0
CREW = 5
SEED = 1


async def kill(bench: Bench) -> Sequence[Row]:
    """At most 0.5 s, the median of 200."""
    kills, draw = bench.times(200, 15), random.Random(SEED)
    taken: list[float] = []
    async with bench.open() as world, crew(bench, "benchmarks.cast:steady", CREW) as workers:
        for number in range(kills):
            if len(workers.workers) == 1:
                await workers.hire(CREW - 1)
            taken.append(await _once(world, workers, f"kill-{number}", draw.randint(5, 25)))
    value = median(taken)
    slowest = f"p95 {percentile(taken, 0.95):,.0f}, max {max(taken):,.0f}"
    return [
        Row(
            name=f"SIGKILL -> next call by another worker, {kills} kills, p50",
            world=bench.world,
            value=value,
            unit="ms",
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=f"{min(taken):,.0f}–{max(taken):,.0f}; {slowest}",
        ),
        Row(name="… p95", world=bench.world, value=percentile(taken, 0.95), unit="ms"),
        Row(name="… max", world=bench.world, value=max(taken), unit="ms"),
    ]


async def _once(world: World, workers: Crew, name: str, calls: int) -> float:
    session = await Session.open(world, name, agent=cast.steady)
    await session.send("go")
    began = await workers.ear.next(lambda call: call.session == name and call.call >= calls)
    dead = workers.workers.pop(began.pid)
    at_s = dead.kill()
    newest = began.call
    while True:
        call = await workers.ear.next(lambda call: call.session == name)
        if call.pid == dead.pid:
            newest = max(newest, call.call)
        elif call.call > newest:
            break
    await asyncio.to_thread(dead.end)
    await session.cancel()
    await session.result(1)
    return (call.at_s - at_s) * 1e3
