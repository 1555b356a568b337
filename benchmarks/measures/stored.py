"""How many bytes a World keeps for what calls returned.

A turn of 4 KB results is carried, the World closed (which empties its WAL), and its files weighed, less those of an
empty World. The payload is the JSON of arguments and results. Text that cannot be compressed shows what outlast adds;
source text shows what is usual.
"""

from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import calling, returning
from benchmarks.texts import random_text, source_text
from benchmarks.weighing import growth

BYTES = 4096
LIMIT = 1.3


async def stored(bench: Bench) -> Sequence[Row]:
    """At most 1.3 times the payload."""
    return [
        await _weigh(bench, "incompressible text", random_text(BYTES)),
        await _weigh(bench, "source text", source_text(BYTES)),
    ]


async def _weigh(bench: Bench, name: str, texts: Iterator[str]) -> Row:
    calls = bench.times(500, 200)
    sizes: list[float] = []
    payload = 0

    def text() -> str:
        nonlocal payload
        chosen = next(texts)
        payload += len(msgspec.json.encode(chosen))
        return chosen

    for repeat in range(3):
        payload = 2 * calls  # {} for each call's arguments
        grown = await growth(bench, f"{name[:3]}{repeat}", calling(calls, returning(text, "safe")))
        sizes.append(grown / payload)
    ratio = median(sizes)
    return Row(
        name=f"stored bytes / payload, {calls} calls of 4 KB, {name}",
        world=bench.world,
        value=ratio * payload / 1e6,
        unit="MB",
        floor=payload / 1e6,
        ratio=ratio,
        target=f"<= {LIMIT} x payload",
        met=ratio <= LIMIT,
        spread=f"ratio {spread(sizes, 3)}",
    )
