"""A worker whose agent tells long stories word by word, in a process of its own; killed from outside.

python worker.py WORLD DATA NAME      (under a supervisor)
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import Model, Scripted
from outlast.engine.deadlines import claim_supervision
from outlast.opening import open_world
from outlast.records import Set
from outlast.rules import ask
from outlast.tool import ToolIO, tool
from outlast.worker import WorkerConfig, open_worker

WORD_S = 0.004


async def words(text: str) -> AsyncGenerator[str, None]:
    """As fast as a model writes."""
    for word in text.split(" "):
        await asyncio.sleep(WORD_S)
        yield f"{word} "


@tool(replay="safe")
async def look(io: ToolIO, at: str) -> Mapping[str, Any]:
    """Look at something, and say so meanwhile."""
    for part in range(5):
        io.show(f"{at} {part}\n")
        await asyncio.sleep(WORD_S)
    return {"seen": at}


@tool(replay="never")
async def publish(io: ToolIO, to: str) -> str:
    """Put it on the web, and write down where."""
    await io.docs.edit("site", Set({"at": to}))
    return f"published to {to}"


async def choose(io: IO, prompt: str) -> str:
    """Ask which, and say so."""
    return f"It is {await io.ask('Which colour?', choices=['red', 'blue'])}."


async def main(model: Model = words) -> None:
    """Work until the end, with a model that tells as this one does."""
    world, data, name = sys.argv[1:]
    teller = Agent(
        "teller", Scripted(model=model), tools=[look, publish], rules=[ask("publish", why="somebody looks")]
    )
    agents = {"teller": teller, "chooser": Agent("chooser", Loop(choose))}
    config = WorkerConfig(Path(data), name=name, lease_s=3.0, supervision=claim_supervision(os.environ))
    async with (
        open_world(world) as store,
        open_worker(store, agents, cast("Gateway", None), config) as worker,
    ):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await worker.work()


if __name__ == "__main__":
    asyncio.run(main())
