"""How long after SIGKILL a turn of a harness goes on, over the program's own start-up.

Two workers; the one that advances the turn gets SIGKILL while a tool of a step drawn at random runs. Measured is the
time to the arrival of the first model request that no worker had sent: the dead tree is proved dead, the session
claimed by the other worker, files rebuilt, the tool run again, the program resumed. Beside every kill the bare program
is started once in a fresh home: from its start to its first model request, which is taken off.
"""

import asyncio
import random
from collections.abc import Sequence

from benchmarks.frame import Bench, Row, median, percentile, spread
from benchmarks.harnesses import Desk, desk_of, each_harness, prompt
from outlast.clock import SystemClock

LIMIT_MS = 1_000.0
SEED = 3
ANSWER_S = 120.0


async def harness_resume(bench: Bench) -> Sequence[Row]:
    """At most 1 s over its start-up, p50 and p95 of 50."""
    return await each_harness(bench, _of)


async def _of(bench: Bench, harness: str) -> Sequence[Row]:
    kills, draw = bench.times(50, 3), random.Random(SEED)
    bare: list[float] = []
    taken: list[float] = []
    async with desk_of(bench, harness, workers=2) as desk:
        for number in range(kills):
            bare.append(await _start(desk))
            taken.append(await _killed(desk, f"resume-{number}", draw.randint(1, 3)))
    over = [after - before for before, after in zip(bare, taken, strict=True)]
    name = f"{harness}: SIGKILL -> next model request, over its start-up, {kills} kills"
    return [
        _row(bench, f"{name}, p50", over, 0.5, median(bare)),
        _row(bench, f"{harness}: … p95", over, 0.95, percentile(bare, 0.95)),
        Row(f"{harness}: … the whole time, p50", bench.world, median(taken), "ms", spread=spread(taken)),
    ]


def _row(bench: Bench, name: str, over: Sequence[float], part: float, floor: float) -> Row:
    value = median(over) if part == 0.5 else percentile(over, part)
    return Row(
        name=name,
        world=bench.world,
        value=value,
        unit="ms",
        floor=floor,
        target=f"<= {LIMIT_MS:,.0f} ms",
        met=value <= LIMIT_MS,
        spread=spread(over),
    )


async def _start(desk: Desk) -> float:
    taken = await desk.alone("hello")
    (first, *_) = await desk.requests("hello", taken.began)
    return (first.at - taken.began) * 1e3


async def _killed(desk: Desk, name: str, step: int) -> float:
    session, ear = await desk.open(name), desk.workers.ear
    sent = SystemClock().now()
    await session.send(prompt("looks"))
    began = await ear.next(lambda call: call.session == name, ANSWER_S)
    for _ in range(step - 1):
        began = await ear.next(lambda call: call.session == name, ANSWER_S)
    asked = max(request.step or 0 for request in await desk.requests("looks", sent))
    dead = desk.workers.workers.pop(began.pid)
    at_s = SystemClock().now()
    dead.kill()
    arrived = await _arrival(desk, at_s, asked + 1)
    await asyncio.to_thread(dead.end)
    await session.cancel()
    await session.result(1)
    await desk.workers.hire()
    return (arrived - at_s) * 1e3


async def _arrival(desk: Desk, after: float, step: int) -> float:
    async with asyncio.timeout(ANSWER_S):
        while True:
            for request in await desk.requests("looks", after):
                if (request.step or 0) >= step:
                    return request.at
            await asyncio.sleep(0.01)
