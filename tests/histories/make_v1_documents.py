"""Made `v1/extra-documents.json`: `python -m tests.histories.make_v1_documents DIRECTORY`.

Documents that a loop, its tool and an application edit, and edits that were rejected. Kept to show where the file comes
from; see `make_v1`.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.codec import encode_input
from outlast.documents import Shape
from outlast.errors import BadEdit
from outlast.records import Delete, Edit, Merge, Set
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import open_memory
from tests.histories.make_v1 import Stage
from tests.histories.stored import History, summary

SESSION = "extra-documents"


@tool
async def note(io: ToolIO, text: str) -> str:
    """Note."""
    await io.docs.edit("notes", Set(text, "/-" if (await io.docs.get("notes")).version else ""))
    return "noted"


async def loop(io: IO, prompt: str) -> object:
    """Edits, a look, and an edit that is rejected."""
    await io.docs.edit("plan", Merge({"steps": [prompt]}))
    await io.tool(note, text="long " * 3000)
    try:
        await io.docs.edit("plan", Delete("/steps"), if_version=7)
    except BadEdit as error:
        return [(await io.docs.get("plan")).value, str(error)]
    return None


async def edited() -> History:
    """The whole story."""
    clock = ManualClock()
    agent = Agent(
        "tester", Loop(loop), tools=[note], documents={"plan": Shape(dict[str, list[str]], version=2)}
    )
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        await session.edit("plan", Set({"goals": ["all"]}), by="ann")
        for version in (0, 1):
            with suppress(BadEdit):
                await session.edit(
                    "plan", Set("more", "/goals/-"), if_version=version, by="ann", id=f"e-{version}"
                )
        await session.send("go", id="in-1")
        await Stage(world, clock, session, agent).work(None)
        commits = list(await world.commits(SESSION))
        blobs = await world.get_many(SESSION, [name for commit in commits for name in commit.header.refs])
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
    edits = (Set([1], "/a"), Merge({"b": None}), Delete("/c"))
    return History.of(SESSION, whole, {"e-1": encode_input(Edit("plan", edits, 3, "ann", 1.0))})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await edited()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
