"""How many bytes of its log a Postgres writes for a call: what replicas and backups have to carry.

A turn of calls with results of 4 KB that cannot be compressed; the server's own position in its log, before and after,
over the number of calls: opening, claiming and settling the turn are in it. The floor is one bare insert of
the same bytes.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.floor import PostgresFloor, open_postgres_floor
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import calling, carry, returning
from benchmarks.texts import random_text
from outlast.records.kinds import Policy
from outlast.world import World

BYTES = 4096


async def wal(bench: Bench) -> Sequence[Row]:
    """Nothing is promised."""
    async with open_postgres_floor(bench.server) as floor, bench.open() as world:
        return [await _per_call(bench, world, floor, policy) for policy in ("safe", "never")]


async def _per_call(bench: Bench, world: World, floor: PostgresFloor, policy: Policy) -> Row:
    calls, texts = bench.times(400, 200), random_text(BYTES)
    body = msgspec.json.encode(next(texts))
    written: list[float] = []
    bare: list[float] = []
    for repeat in range(bench.times(5, 3) + 1):
        begun = await floor.wal()
        await floor.commits(body, calls)
        between = await floor.wal()
        agent = calling(calls, returning(lambda: next(texts), policy))
        await carry(bench, world, agent, [f"{policy}-{repeat}"])
        if repeat:
            bare.append((between - begun) / calls)
            written.append((await floor.wal() - between) / calls)
    value = median(written)
    return Row(
        name=f"log of the server per `{policy}` call, 4 KB incompressible",
        world=bench.world,
        value=value / 1e3,
        unit="KB",
        floor=median(bare) / 1e3,
        ratio=value / median(bare),
        spread=spread([each / 1e3 for each in written], 2),
    )
