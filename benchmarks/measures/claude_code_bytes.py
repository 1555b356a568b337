"""What a World keeps of a real Claude Code turn, part by part.

A turn of twelve model calls with a tool call each, with the unmodified program and a scripted model. The stored body of
each commit is shared out to its records by their length; blobs belong to the record that first names them; deltas are
what watchers were shown while calls were open.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from benchmarks import cast
from benchmarks.claude import PROMPT, STEPS, claude_crew, workspace
from benchmarks.frame import Bench, Row
from benchmarks.weighing import weight
from outlast.codec import record_refs
from outlast.fold import records_of
from outlast.records import AnyRecord, CallIntent, CallOutcome, Mirrored
from outlast.session import Session
from outlast.world import START, Commit, Delta, World

PARTS = ("model requests", "model answers", "tool calls", "mirror", "turn and attempts", "deltas")


async def claude_code_bytes(bench: Bench) -> Sequence[Row]:
    """By part; nothing is promised."""
    async with bench.open():
        pass
    empty = weight(bench.file)
    async with bench.open() as world:
        async with claude_crew(bench, 1):
            session = await Session.open(
                world, "bytes", agent=cast.claude, workspace=workspace(bench, "bytes")
            )
            turn = await session.send(PROMPT)
            outcome = await turn.result()
            if outcome.status != "done":
                raise RuntimeError(str(outcome))
        parts = await _parts(world, session.id)
    rows = [
        Row(
            name=f"Claude Code turn of {STEPS} steps: {part}",
            world=bench.world,
            value=parts[part] / 1e3,
            unit="KB",
        )
        for part in PARTS
    ]
    whole = (weight(bench.file) - empty) / 1e3
    total = sum(parts.values()) / 1e3
    rows.append(
        Row(
            name=f"Claude Code turn of {STEPS} steps: growth of the file",
            world=bench.world,
            value=whole,
            unit="KB",
            floor=total,
            ratio=whole / total,
            why="the floor is the sum of the parts",
        )
    )
    return rows


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
            parts[_part(record)] += sum(map(len, (await world.get_many(session, fresh)).values()))


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
