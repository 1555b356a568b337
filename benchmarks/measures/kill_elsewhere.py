"""How long after SIGKILL a worker of another machine takes over, and how long until it makes the turn's next call.

Pairs of `outlast work` processes, each on a machine of its own as far as it knows, share a Postgres. One of a pair
advances a turn of short calls and gets SIGKILL after some of them, a number drawn at random. Nobody elsewhere can prove
its death: its lease runs out, unrenewed since at most a third of its length, and a worker that looks every second
claims the session. Before it goes on it leaves what the dead one may have started time to die (`kill_grace_s`), so the
next call comes that much later. Some pairs are killed side by side, each in a World of its own: most of it is waiting.
"""

import asyncio
import random
from collections.abc import Sequence

from benchmarks import cast
from benchmarks.frame import Bench, Row, median, percentile
from benchmarks.workers import Crew, crew
from outlast.clock import SystemClock
from outlast.engine.turn import KILL_GRACE_S
from outlast.fold import records_of
from outlast.records import AttemptOpened
from outlast.session import Session
from outlast.settings import Settings
from outlast.world import World

LEASE_S = Settings().lease_s
LIMIT_S = LEASE_S + 1.0
ANSWER_S = LIMIT_S + KILL_GRACE_S + 15.0
PAIRS = 4
SEED = 1


async def kill_elsewhere(bench: Bench) -> Sequence[Row]:
    """At most the lease and a second, the slowest of 40."""
    rounds, draw = bench.times(10, 1), random.Random(SEED)
    lanes = [_lane(bench.below(f"pair-{number}"), rounds, draw) for number in range(PAIRS)]
    timed = [pair for lane in await asyncio.gather(*lanes) for pair in lane]
    taken, called = [one for one, _ in timed], [one for _, one in timed]
    return [
        *_rows(
            bench,
            f"SIGKILL -> claimed on another host, {len(timed)} kills, lease {LEASE_S:g} s",
            taken,
            LIMIT_S,
        ),
        *_rows(bench, f"… -> next call, after {KILL_GRACE_S:g} s of grace", called, None),
    ]


def _rows(bench: Bench, name: str, values: Sequence[float], limit_s: float | None) -> list[Row]:
    slowest = max(values)
    return [
        Row(name=f"{name}, p50", world=bench.world, value=median(values), unit="s"),
        Row(name="… p95", world=bench.world, value=percentile(values, 0.95), unit="s"),
        Row(
            name="… max",
            world=bench.world,
            value=slowest,
            unit="s",
            target="" if limit_s is None else f"<= {limit_s:g} s",
            met=None if limit_s is None else slowest <= limit_s,
        ),
    ]


async def _lane(bench: Bench, rounds: int, draw: random.Random) -> list[tuple[float, float]]:
    """Seconds to the claim and to the next call, for each kill."""
    timed: list[tuple[float, float]] = []
    async with bench.open() as world, crew(bench, "benchmarks.cast:steady", 2, apart=True) as workers:
        for number in range(rounds):
            timed.append(await _once(world, workers, f"kill-{number}", draw.randint(5, 25)))
            await workers.hire()
    return timed


async def _once(world: World, workers: Crew, name: str, calls: int) -> tuple[float, float]:
    session = await Session.open(world, name, agent=cast.steady)
    await session.send("go")
    began = await workers.ear.next(lambda call: call.session == name and call.call >= calls)
    dead = workers.workers.pop(began.pid)
    died_s = SystemClock().now()
    at_s = dead.kill()
    call = await workers.ear.next(lambda call: call.session == name and call.pid != dead.pid, ANSWER_S)
    await asyncio.to_thread(dead.end)
    opened = [
        record
        for commit in await world.commits(name, 0, 10_000)
        for record in records_of(name, commit)
        if isinstance(record, AttemptOpened)
    ]
    await session.cancel()
    await session.result(1)
    return opened[-1].at_s - died_s, call.at_s - at_s
