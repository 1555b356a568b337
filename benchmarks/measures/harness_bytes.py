"""What a World keeps of a turn of a harness, part by part.

A turn of twenty calls of the harness's own shell, with the unmodified program and a scripted model. The stored body of
each commit is shared out to its records by their length; blobs belong to the record that first names them; deltas are
what watchers were shown while calls were open.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from benchmarks.frame import Bench, Row
from benchmarks.harnesses import STEPS, desk_of, each_harness
from benchmarks.weighing import weight
from outlast.codec import record_refs
from outlast.fold import records_of
from outlast.records import AnyRecord, CallIntent, CallOutcome, Mirrored
from outlast.world import START, Commit, Delta, World

PARTS = ("model requests", "model answers", "tool calls", "mirror", "turn and attempts", "deltas")
BLOBS = "in blobs"


async def harness_bytes(bench: Bench) -> Sequence[Row]:
    """By part; nothing is promised."""
    return await each_harness(bench, _of)


async def _of(bench: Bench, harness: str) -> Sequence[Row]:
    async with bench.open():
        pass
    empty = weight(bench.file)
    async with desk_of(bench, harness) as desk:
        await desk.ours("bytes", "reads")
    async with bench.open() as world:
        parts = await _parts(world, "bytes")
    whole = (weight(bench.file) - empty) / 1e3
    name = f"{harness}: turn of {STEPS} tool calls, stored"
    total = sum(parts[part] for part in PARTS) / 1e3
    return [
        Row(
            name=name,
            world=bench.world,
            value=whole,
            unit="KB",
            floor=total,
            ratio=whole / total,
            why="growth of the file; the floor is the sum of the parts",
        ),
        *(Row(f"{harness}: … {part}", bench.world, parts[part] / 1e3, "KB") for part in (*PARTS, BLOBS)),
    ]


async def _parts(world: World, session: str) -> Counter[str]:
    head = await world.get(session)
    parts: Counter[str] = Counter()
    named: set[str] = set()
    async with aclosing(world.follow(session, START)) as items:
        async for item in items:
            match item.what:
                case Delta(body=body):
                    parts["deltas"] += len(body)
                case Commit() as commit:
                    await _share_out(world, session, commit, parts, named)
                    if commit.header.seq == head.seq:
                        break
                case _:
                    pass
    return parts


async def _share_out(
    world: World, session: str, commit: Commit, parts: Counter[str], named: set[str]
) -> None:
    records = records_of(session, commit)
    lengths = [len(msgspec.json.encode(record)) for record in records]
    for record, length in zip(records, lengths, strict=True):
        parts[_part(record)] += round(len(commit.body) * length / sum(lengths))
        fresh = [name for name in record_refs([record]) if name not in named]
        named.update(fresh)
        if fresh:
            blobs = sum(map(len, (await world.get_many(session, fresh)).values()))
            parts[_part(record)] += blobs
            parts[BLOBS] += blobs


def _part(record: AnyRecord) -> str:
    match record:
        case CallIntent(kind="model"):
            return "model requests"
        case CallOutcome(usage=usage) if usage is not None:
            return "model answers"
        case CallIntent() | CallOutcome():
            return "tool calls"
        case Mirrored():
            return "mirror"
        case _:
            return "turn and attempts"
