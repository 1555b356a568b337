"""What one durable tool call costs, beside the floor.

A turn of calls one after the other, each returning 4 KB of source text, goes through the whole engine: worker, gate,
intent, tool, outcome, batcher, World. Measured is the time from the beginning of one call to that of the next, the
median of a block; the floor is the median of a block of bare commits of the same result taken just before. The ratio is
the median over pairs of blocks. A `never` call is two commits, its intent and its outcome, hence two floors.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.floor import open_floor
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import Moments, calling, carry, returning
from benchmarks.texts import source_text
from outlast.records.kinds import Policy

BYTES = 4096


async def safe(bench: Bench) -> Sequence[Row]:
    """`safe`: at most 2.0 floors."""
    return [await _call(bench, "safe", commits=1, limit=2.0)]


async def never(bench: Bench) -> Sequence[Row]:
    """`never`: at most 1.6 times two floors."""
    return [await _call(bench, "never", commits=2, limit=1.6)]


async def _call(bench: Bench, policy: Policy, *, commits: int, limit: float) -> Row:
    repeats, calls = bench.times(7, 3), bench.times(400, 150)
    texts = source_text(BYTES)
    costs: list[float] = []
    floors: list[float] = []
    with open_floor(bench.directory) as floor:
        async with bench.open() as world:
            for repeat in range(repeats + 1):
                moments = Moments()
                bare = floor.commits(msgspec.json.encode(next(texts)), calls)
                agent = calling(calls, returning(lambda: next(texts), policy, moments))
                await carry(bench, world, agent, [f"{policy}-{repeat}"])
                if repeat:  # the first warms up
                    floors.append(commits * median(bare) * 1e6)
                    costs.append(median(moments.between()) * 1e6)
    ratios = [cost / floor for cost, floor in zip(costs, floors, strict=True)]
    ratio = median(ratios)
    of = "floor" if commits == 1 else f"{commits} floors"
    return Row(
        name=f"durable `{policy}` call, 4 KB result",
        world=bench.world,
        value=median(costs),
        unit="µs",
        floor=median(floors),
        ratio=ratio,
        target=f"<= {limit} x {of}",
        met=ratio <= limit,
        spread=f"{spread(costs)}; ratio {spread(ratios, 2)}",
    )
