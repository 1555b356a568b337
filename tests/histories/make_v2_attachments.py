"""Made `v2/extra-attachments.json`: `python -m tests.histories.make_v2_attachments DIRECTORY`.

A turn whose prompt came with two files, and a prompt with one that waits behind it. Kept to show where the file comes
from; see `make_v1`.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.attaching import Attachment
from outlast.clock import ManualClock
from outlast.codec import encode_input
from outlast.records import Attached, Prompt
from outlast.session import Session
from outlast.worlds.memory import open_memory
from tests.histories.make_v1 import Stage
from tests.histories.schema import schema
from tests.histories.stored import History, summary

SESSION = "extra-attachments"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


async def loop(io: IO, prompt: str) -> object:
    """Look at them, and wait."""
    await io.once("seen", lambda: prompt)
    return await io.wait_for("go on")


async def attached() -> History:
    """The whole story."""
    clock = ManualClock()
    agent = Agent("tester", Loop(loop, attachments=("image/*", "text/*")))
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        files = [Attachment(PNG, "square.png"), Attachment(b"two\nlines\n", "notes.md")]
        await session.send("look", id="in-1", attachments=files)
        await session.send("and here", id="in-2", attachments=files[:1])
        await Stage(world, clock, session, agent).work(None)
        commits = list(await world.commits(SESSION))
        blobs = await world.get_many(SESSION, [name for commit in commits for name in commit.header.refs])
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
    name = next(iter(blobs))
    asked = Prompt("once more", 5.0, attachments=(Attached("square.png", "image/png", len(PNG), name),))
    return History.of(SESSION, whole, {"in-3": encode_input(asked)})


async def main(directory: Path) -> None:
    """Write the history, what must be read in it, and what a log holds from this format on."""
    history = await attached()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")
    shapes = [f"{_json(name)}: {_json(shape)}" for name, shape in schema().items()]
    (directory / "schema.json").write_text("{\n" + ",\n".join(shapes) + "\n}\n")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
