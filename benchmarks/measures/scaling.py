"""What more worker processes bring: 32 sessions, each in the midst of a turn of `safe` calls with results of 4 KB.

One, two or four `outlast work` processes share the sessions. Once all turns are under way, commits are counted over
some seconds, by the number of each session's newest: a `safe` call is one commit. This process sleeps meanwhile. The
store has its part of the same processors, so that twice the workers are never twice the calls on a machine with two.
"""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.busy import busy
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.workers import crew
from outlast.session import Session
from outlast.world import World

SESSIONS = 32
CREWS = (1, 2, 4)
FACTOR = 1.6
UNDER_WAY = 20
"""Commits of a session."""
PATIENCE_S = 60.0


async def scaling(bench: Bench) -> Sequence[Row]:
    """Four processes carry at least 1.6 times what one does."""
    rates = {count: await _rates(bench.below(f"crew{count}"), count) for count in CREWS}
    factor = median(rates[CREWS[-1]]) / median(rates[CREWS[0]])
    rows = [
        Row(
            name=f"{SESSIONS} sessions in {count} worker process{'es' if count > 1 else ''}",
            world=bench.world,
            value=median(found),
            unit="calls/s",
            spread=spread(found),
        )
        for count, found in rates.items()
    ]
    return [
        *rows,
        Row(
            name=f"{CREWS[0]} -> {CREWS[-1]} worker processes",
            world=bench.world,
            value=factor,
            unit="x",
            target=f">= {FACTOR} x",
            met=factor >= FACTOR,
        ),
    ]


async def _rates(bench: Bench, count: int) -> list[float]:
    names = [f"busy-{number}" for number in range(SESSIONS)]
    async with bench.open() as world:
        for name in names:
            await (await Session.open(world, name, agent=busy)).send("go")
        share = str(SESSIONS // count)
        async with crew(bench, "benchmarks.busy:busy", count, environ={"OUTLAST_CONCURRENCY": share}):
            async with asyncio.timeout(PATIENCE_S):
                while min(await _commits(world, names)) < UNDER_WAY:  # noqa: ASYNC110 - other processes make them
                    await asyncio.sleep(0.1)
            rates: list[float] = []
            for _ in range(bench.times(4, 2)):
                before, began_s = sum(await _commits(world, names)), time.monotonic()
                await asyncio.sleep(bench.times(2, 1))
                made = sum(await _commits(world, names)) - before
                rates.append(made / (time.monotonic() - began_s))
            return rates


async def _commits(world: World, names: Sequence[str]) -> list[int]:
    return [(await world.get(name)).seq for name in names]
