"""How long after SIGKILL a real Claude Code turn goes on, over Claude Code's own start-up.

As `kill`, with the unmodified program and a scripted model: the advancing worker gets SIGKILL while a tool of a step
drawn at random runs. Measured is the time to the arrival of the first model request that no worker had sent: the dead
tree is proved dead, the session claimed, files rebuilt, the tool run again, Claude Code resumed. Beside every kill
Claude Code is started once without outlast, in a fresh home, until its first model request: the floor.
"""

import asyncio
import random
from collections.abc import Sequence

from benchmarks import cast
from benchmarks.claude import PROMPT, arrival, bare_start, claude_crew, workspace
from benchmarks.frame import Bench, Row, median, percentile, spread
from benchmarks.workers import Crew
from outlast.clock import SystemClock
from outlast.session import Session
from outlast.testing.models import SpawnedModels
from outlast.world import World

LIMIT_MS = 500.0
SEED = 2


async def kill_claude_code(bench: Bench) -> Sequence[Row]:
    """At most 0.5 s over its start-up, the median of 20."""
    kills, draw = bench.times(20, 4), random.Random(SEED)
    taken: list[float] = []
    bare: list[float] = []
    async with bench.open() as world, claude_crew(bench, 2) as (models, workers):
        for number in range(kills):
            bare.append(await bare_start(bench, models, number) * 1e3)
            taken.append(await _once(bench, world, models, workers, f"claude-{number}", draw.randint(1, 3)))
    over = [after - before for before, after in zip(bare, taken, strict=True)]
    value = median(over)
    return [
        Row(
            name=f"Claude Code: SIGKILL -> next model request, over its start-up, {kills} kills, p50",
            world=bench.world,
            value=value,
            unit="ms",
            floor=median(bare),
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=f"{spread(over)}; p95 {percentile(over, 0.95):,.0f}",
        ),
        Row(
            name="… the whole time",
            world=bench.world,
            value=median(taken),
            unit="ms",
            spread=spread(taken),
        ),
    ]


async def _once(
    bench: Bench, world: World, models: SpawnedModels, workers: Crew, name: str, step: int
) -> float:
    session = await Session.open(world, name, agent=cast.claude, workspace=workspace(bench, name))
    seen = len(await models.requests())
    await session.send(PROMPT)
    began = await workers.ear.next(lambda call: call.session == name)
    for _ in range(step - 1):
        began = await workers.ear.next(lambda call: call.session == name)
    asked = max(request.step or 0 for request in await models.requests() if request.n > seen)
    dead = workers.workers.pop(began.pid)
    at_s = SystemClock().now()
    dead.kill()
    request = await arrival(models, seen, "bench", asked + 1)
    await asyncio.to_thread(dead.end)
    await session.cancel()
    await session.result(1)
    await workers.hire()
    return (request.at - at_s) * 1e3
