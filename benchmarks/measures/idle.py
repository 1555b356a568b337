"""What a worker costs while nothing is to be done: 1,000 sessions whose turns are over, one `outlast work` process.

CPU time of the worker and of its supervisor, as the kernel counts it, over windows of some seconds.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import calling, carry, returning
from benchmarks.workers import crew

SESSIONS = 1_000
LIMIT = 1.0


async def idle(bench: Bench) -> Sequence[Row]:
    """Less than 1 % of one processor."""
    async with bench.open() as world:
        agent = calling(1, returning(lambda: "done", "safe"), "steady")
        await carry(bench, world, agent, [f"idle-{number}" for number in range(SESSIONS)])
    window_s, shares = bench.times(8, 3), list[float]()
    async with crew(bench, "benchmarks.cast:steady", 1) as workers:
        [worker] = workers.workers.values()
        await asyncio.sleep(2)
        for _ in range(3):
            before, began_s = _cpu_s(worker.pid) + _cpu_s(worker.supervisor.pid), time.monotonic()
            await asyncio.sleep(window_s)
            used = _cpu_s(worker.pid) + _cpu_s(worker.supervisor.pid) - before
            shares.append(100 * used / (time.monotonic() - began_s))
    value = median(shares)
    return [
        Row(
            name=f"CPU of a worker on {SESSIONS:,} idle sessions",
            world=bench.world,
            value=value,
            unit="%",
            target=f"< {LIMIT:g} %",
            met=value < LIMIT,
            spread=spread(shares, 2),
        )
    ]


def _cpu_s(pid: int) -> float:
    """Seconds on a processor, of all threads that live."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9
