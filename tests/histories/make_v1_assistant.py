"""Made `v1/extra-assistant.json`: `python -m tests.histories.make_v1_assistant DIRECTORY`.

Kept to show where that file comes from. It is run by no test, and never again over a file that was released.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.assistant import Assistant
from outlast.clock import ManualClock
from outlast.gate import Point
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, TryAgain, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import History, summary
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says, wants


@tool(retries=1)
async def refund(io: ToolIO, order: str) -> str:
    """Refund an order."""
    raise TryAgain("the shop is busy")


@tool(replay="safe")
async def find(io: ToolIO, order: str) -> str:
    """Find a refund."""
    return f"no refund of {order}"


async def assisted() -> History:
    """Two turns of one conversation, the first cut short; then a worker dies between two tries of a tool."""
    clock = ManualClock()
    model = Listed(
        says("I look.", wants("find", order="80"), tokens=30),
        says("There is none.", tokens=60),
        says("I refund.", wants("refund", order="81"), tokens=90),
    )
    agent = Agent("support", Assistant(model, "Be brief.", max_calls=1), tools=[refund, find])
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "extra-assistant", agent=agent, clock=clock)
        for number, prompt in enumerate(["Was order 80 refunded?", "Well?", "Refund order 81."], 1):
            await session.send(prompt, id=f"in-{number}")
        mortal = MortalWorld(world)
        with suppress(Killed):
            gate = DeathGate(Spot(Point.BEFORE_START, "never"), mortal)
            await asyncio.gather(Desk(mortal, clock, gate, "worker-1").work(agent), _turn_on(clock, session))
        return await _history(world, session)


async def _turn_on(clock: ManualClock, session: Session) -> None:
    """End the pause before the second try."""
    async for event in session.follow():
        if event.kind == "call.retracted":
            clock.turn(60.0)
            return


async def _history(world: World, session: Session) -> History:
    commits = await world.commits(session.id)
    blobs = await world.get_many(session.id, [name for commit in commits for name in commit.header.refs])
    whole = [replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits]
    return History.of(session.id, whole, {})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await assisted()
    (directory / f"{history.session}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    text = msgspec.json.format(msgspec.json.encode(await summary(history)), indent=1) + b"\n"
    (directory / f"{history.session}.expected.json").write_bytes(text)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
