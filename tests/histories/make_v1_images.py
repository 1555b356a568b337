"""Made `v1/extra-images.json`: `python -m tests.histories.make_v1_images DIRECTORY`.

A loop that waits after its tool has returned an image beside words. Kept to show where the file comes from; see
`make_v1`.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast import image
from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import open_memory
from tests.histories.make_v1 import Stage
from tests.histories.stored import History, summary

SESSION = "extra-images"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


@tool(replay="safe")
async def draw(io: ToolIO) -> object:
    """Draw."""
    return ["A square:", image(PNG)]


async def loop(io: IO, prompt: str) -> object:
    """Look at it, and wait."""
    await io.tool(draw)
    return await io.wait_for("go on")


async def drawn() -> History:
    """The whole story."""
    clock = ManualClock()
    agent = Agent("tester", Loop(loop), tools=[draw])
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        await session.send("go", id="in-1")
        await Stage(world, clock, session, agent).work(None)
        commits = list(await world.commits(SESSION))
        blobs = await world.get_many(SESSION, [name for commit in commits for name in commit.header.refs])
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
    return History.of(SESSION, whole, {})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await drawn()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
