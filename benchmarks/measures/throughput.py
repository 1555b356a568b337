"""How many calls a second one worker carries: 32 sessions at once, 20 calls each, results of 4 KB.

Counted from when the worker looks for work to when it finds no more: claims, opening and settling of turns are in it.
The floor is a bare writer that puts 32 commits of the same bytes into each transaction.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.floor import open_floor
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import calling, carry, returning
from benchmarks.texts import source_text
from outlast.records.kinds import Policy

SESSIONS = 32
CALLS = 20
BYTES = 4096
LEAST = {"sqlite": 6_000, "postgres": 5_000, "memory": 0}


async def throughput(bench: Bench) -> Sequence[Row]:
    """`safe` calls: at least 6,000 a second, on Postgres 5,000; `never` and a long turn beside it."""
    return [
        await _rate(bench, "safe", CALLS, LEAST[bench.world]),
        await _rate(bench, "never", CALLS),
        await _rate(bench, "safe", bench.times(60, 40)),
    ]


async def _rate(bench: Bench, policy: Policy, calls: int, least: int = 0) -> Row:
    repeats = bench.times(7, 4)
    texts = list(zip(range(500), source_text(BYTES), strict=False))
    body = msgspec.json.encode(texts[0][1])
    rates: list[float] = []
    costs: list[tuple[float, float]] = []
    floors: list[float] = []
    count = 0

    def text() -> str:
        nonlocal count
        count += 1
        return texts[count % len(texts)][1]

    async with open_floor(bench) as floor, bench.open() as world:
        for repeat in range(repeats + 1):
            bare = await floor.grouped(body, SESSIONS * CALLS, SESSIONS)
            agent = calling(calls, returning(text, policy))
            names = [f"{policy}-{calls}-{repeat}-{number}" for number in range(SESSIONS)]
            took = await carry(bench, world, agent, names)
            if repeat:
                floors.append(bare)
                rates.append(SESSIONS * calls / took.wall_s)
                costs.append((took.process_s, took.loop_s))
    rate, promised = median(rates), least > 0
    process, loop = (median(column) / SESSIONS / calls * 1e6 for column in zip(*costs, strict=True))
    return Row(
        name=f"{SESSIONS} sessions x {calls} `{policy}` calls, 4 KB",
        world=bench.world,
        value=rate,
        unit="calls/s",
        floor=median(floors),
        ratio=median([rate / floor for rate, floor in zip(rates, floors, strict=True)]),
        target=f">= {least:,} calls/s" if promised else "",
        met=rate >= least if promised else None,
        spread=spread(rates),
        why=f"{process:.0f} µs of processor time per call, {loop:.0f} µs of them in the one thread of the event loop",
    )
