"""Made `v1/extra-snapshots.json`: `python -m tests.histories.make_v1_snapshots DIRECTORY`.

A long turn with snapshots in it, which leave settled calls and mirrored lines to parts: so many that their names stand
in a node, and one that was cut. A signal that failed, one that was refused, and a hand-over while all wait.
Kept to show where the file comes from; see `make_v1`.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.codec import Packer, encode_input, encode_records
from outlast.engine.batch import Batcher
from outlast.engine.load import load
from outlast.engine.spacing import Spacing
from outlast.engine.writer import Writer
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    InputRefused,
    Mirrored,
    Payload,
    PromptQueued,
    Signal,
    SignalKept,
    TurnOpened,
)
from outlast.session import Session
from outlast.world import Takeover, WorkerOffer, WorkerRow, World
from outlast.worlds.memory import open_memory
from tests.histories.stored import History, summary

SESSION = "extra-snapshots"
CALLS = 20


def value_of(packer: Packer) -> Payload:
    """Why what was waited for failed."""
    return packer.payload("the build is red", what="the reason")


async def write(world: World) -> None:
    """The turn, by one pen."""
    world.open_liveness().renew(WorkerRow("worker", "", 0.0), 3600.0)
    opened = encode_records([AttemptOpened("worker")])
    claim = await world.claim(
        WorkerOffer("worker", frozenset({"tester"}), FORMAT), Takeover(opened, 1, PLAIN)
    )
    assert claim is not None
    batcher = Batcher(world)
    spacing = Spacing(0, worth=1, part=1)
    writer = Writer(world, batcher, claim, await load(world, claim), spacing=spacing)
    packer = Packer(world.tenant, set())
    prompt = packer.payload("go", what="the prompt")
    await writer.write(PromptQueued("in-1", prompt), TurnOpened(1, "in-1", prompt, 2.0), consumes=["in-1"])
    for number in range(CALLS):
        value = packer.payload(number, what="a number")
        place = 4 if number == 11 else min(number, 4 + abs(number - 11))
        records: list[AnyRecord] = [
            Mirrored("log.jsonl", place, packer.payload([f"line {number}"], what="lines"), 1),
            CallIntent(number + 1, 1, "main", number, "tool", "work", value, policy="safe", at_s=3.0),
        ]
        if number:  # the first stays open
            records.append(CallOutcome(number + 1, 1, "ok", value, "main", at_s=4.0))
        await writer.write(*records)
    intent = CallIntent(CALLS + 1, 1, "main", 0, "wait", "signal", policy="safe", until_s=9.0, at_s=5.0)
    await writer.write(intent, SignalKept("signal-1", "ci", value_of(packer), 5.0, failed=True))
    await writer.write(InputRefused("signal-2", "ci", "so many wait", 5.0))
    await writer.write(CallOutcome(1, 1, "ok", prompt, "main", at_s=5.0))
    await writer.write(AttemptEnded(1, "handed_over", at_s=6.0, waits=True), release=True)
    await writer.close()
    await batcher.drain()


async def written() -> History:
    """The whole story."""
    clock = ManualClock()
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=Agent("tester", Scripted(script=[])), clock=clock)
        await session.send("go", id="in-1")
        await write(world)
        commits = list(await world.commits(SESSION))
        names = {name for commit in commits for name in (*commit.header.refs, *commit.blobs)}
        blobs = await world.get_many(SESSION, sorted(names))
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
    failed = encode_input(Signal("ci", "the build is red", 1.0, failed=True))
    return History.of(SESSION, whole, {"signal-1": failed})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await written()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
