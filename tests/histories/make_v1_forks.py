"""Made `v1/extra-fork.json`: `python -m tests.histories.make_v1_forks DIRECTORY`.

A session that is forked in the midst of a turn: a tool runs, a child is waited for, prompts, a schedule and a notice
wait; then the fork goes on to an end of its own. Kept to show where the file comes from; see `make_v1`.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.errors import ChildFailed, ToolError
from outlast.notify import Notice
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import History, summary
from tests.unit.engine_desk import Desk

SESSION = "extra-fork"
HOUR_S = 3600.0


class Deaf:
    """Cannot be told anything."""

    async def tell(self, notice: Notice) -> str:
        return "no line"


BUSY = asyncio.Event()


@tool(replay="never")
async def pay(io: ToolIO, order: int) -> str:
    """Pay, for ever."""
    if io.session != SESSION:
        BUSY.set()
        await asyncio.Event().wait()
    return f"paid {order}"


async def shop(io: IO, prompt: str) -> object:
    """Pay, ask a child and wait, all at once."""

    async def paying(own: IO) -> object:
        try:
            return await own.tool(pay, order=1)
        except ToolError as error:
            return str(error)

    async def asking(own: IO) -> object:
        try:
            return await own.spawn("child", "do it")
        except ChildFailed as error:
            return str(error)

    async def waiting(own: IO) -> object:
        return await own.wait_for("go")

    if prompt != "all at once":
        return prompt
    return [await io.uuid(), *await io.gather(waiting, asking, paying), await io.tool(pay, order=2)]


async def forked() -> History:
    """The whole story."""
    clock = ManualClock()
    agent = Agent("tester", Loop(shop), tools=[pay])
    async with open_memory(MemoryStore(clock)) as world:
        source = await Session.open(world, "source", agent=agent, clock=clock)
        desk = Desk(world, clock, notifier=Deaf())
        await source.schedule("look around", every=HOUR_S, id="hourly")
        await source.send("first", id="in-1")
        await desk.work(agent)
        for number in range(2, 5):
            await source.send("all at once", id=f"in-{number}")
        await source.signal("other", {"kept": True}, id="sig-1")
        async with desk.working(agent):
            await BUSY.wait()  # the others began before it
            fork = await source.fork(id=SESSION)
        clock.turn(1.0)
        await desk.work(agent)
        await fork.signal("go", "on", id="sig-2")
        await desk.work(agent)
        await fork.result(2)
        commits = list(await world.commits(SESSION))
        names = list(dict.fromkeys(name for commit in commits for name in commit.header.refs))
        blobs = await world.get_many(SESSION, names)
    whole = [replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits]
    return History.of(SESSION, whole, {})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await forked()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
