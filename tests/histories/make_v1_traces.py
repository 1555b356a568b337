"""Made `v1/extra-traces.json` and `v1/extra-traced-child.json`: `python -m tests.histories.make_v1_traces DIRECTORY`.

A session that owes the traces of its turns to a collector, asked for by somebody with a trace of his own, and one that
it spawned. Kept to show where the files come from; see `make_v1`.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.codec import encode_input
from outlast.records import Prompt
from outlast.session import Session
from outlast.tracing import Settled
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import History, summary
from tests.unit.engine_desk import Desk

SESSION = "extra-traces"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Deaf:
    """Takes nothing at first."""

    def __init__(self) -> None:
        self.left = 1

    async def collect(self, world: World, settled: Settled) -> str:
        self.left -= 1
        return "no line" if self.left >= 0 else ""


async def asking(io: IO, prompt: str) -> object:
    """A parent, or its child."""
    return prompt if prompt == "child" else await io.spawn("tester", "child")


async def histories() -> dict[str, History]:
    """By the name of the file."""
    clock, deaf, agent = ManualClock(), Deaf(), Agent("tester", Loop(asking))
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        await session.send("go", id="in-1", traceparent=CALLER)
        desk = Desk(world, clock, collector=deaf)
        await desk.work(agent)
        clock.turn(60.0)
        await desk.work(agent)
        (child,) = [head.session for head in (await world.list()).sessions if head.session != SESSION]
        asked = encode_input(Prompt("again", 5.0, traceparent=CALLER))
        return {
            SESSION: await _stored(world, SESSION, {"in-2": asked}),
            "extra-traced-child": await _stored(world, child, {}),
        }


async def _stored(world: World, session: str, inputs: dict[str, bytes]) -> History:
    commits = list(await world.commits(session))
    blobs = await world.get_many(session, [name for commit in commits for name in commit.header.refs])
    whole = [replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits]
    return History.of(session, whole, inputs)


async def main(directory: Path) -> None:
    """Write the histories and what must be read in them."""
    for name, history in (await histories()).items():
        (directory / f"{name}.json").write_bytes(msgspec.json.encode(history) + b"\n")
        expected = msgspec.json.encode(await summary(history))
        (directory / f"{name}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
