"""How long the only worker takes to come back: from the start of its process to the next call of the turn it left.

A worker advances a turn and gets SIGKILL; nobody else is there. Then `outlast work` is started again: interpreter,
imports, supervisor, World, proof that the one before is dead, claim, log, the next call.
"""

import asyncio
import time
from collections.abc import Sequence

from benchmarks import cast
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.workers import Crew, crew
from outlast.session import Session

LIMIT_MS = 1_000.0


async def restart(bench: Bench) -> Sequence[Row]:
    """At most 1 s."""
    async with bench.open() as world, crew(bench, "benchmarks.cast:steady", 1) as workers:
        session = await Session.open(world, "restart", agent=cast.steady)
        await session.send("go")
        taken = [await _once(workers) for _ in range(bench.times(15, 4))]
    value = median(taken)
    return [
        Row(
            name="restart of the only worker -> next call",
            world=bench.world,
            value=value,
            unit="ms",
            target=f"<= {LIMIT_MS:,.0f} ms",
            met=value <= LIMIT_MS,
            spread=spread(taken),
        )
    ]


async def _once(workers: Crew) -> float:
    [worker] = workers.workers.values()
    first = await workers.ear.next(lambda call: call.pid == worker.pid)
    newest = await workers.ear.next(lambda call: call.call >= first.call + 10)
    worker.kill()
    await asyncio.to_thread(worker.end)
    workers.workers.clear()
    at_s = time.monotonic()
    process = workers.launch()
    call = await workers.ear.next(lambda call: call.pid != worker.pid and call.call > newest.call + 5)
    assert process.stdout is not None
    workers.admit(process, await asyncio.to_thread(process.stdout.readline))
    return (call.at_s - at_s) * 1e3
