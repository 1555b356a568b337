"""Made `v1/extra-compensations.json`: `python -m tests.histories.make_v1_compensations DIRECTORY`.

A loop whose calls come to be in doubt and are compensated, one at once and one on a person's word; a rule that is
asked about for the turn; and a provider that asks for a pause. Kept to show where the file comes from; see `make_v1`.
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
from outlast.errors import ModelCallFailed, ToolError
from outlast.gate import Gate, OpenGate, Point
from outlast.model import user
from outlast.records import Decision
from outlast.rules import ask
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import History, summary
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says

SESSION = "extra-compensations"


@tool(replay="keyed")
async def undo(io: ToolIO, order: str) -> str:
    """Take it back."""
    return f"took back {order} of {io.compensates}"


@tool(compensate=undo)
async def pay(io: ToolIO, order: str, cents: int) -> str:
    """Pay."""
    return f"paid {order}"


@tool(compensate=undo, on_doubt="ask", name="pay_out")
async def pay_out(io: ToolIO, order: str) -> str:
    """Pay out."""
    return f"paid {order} out"


@tool
async def note(io: ToolIO, text: str) -> str:
    """Note something."""
    return text


def agent() -> Agent:
    tired = ModelCallFailed(status=429, reason="later")
    tired.retry_after_s = 60.0
    model = Listed(tired, says("so be it"))

    async def run(io: IO, prompt: str) -> list[str]:
        said: list[str] = []
        for name in ("pay", "pay_out"):
            try:
                more = {"cents": 5} if name == "pay" else {}
                said.append(str(await io.tool(name, order="81", **more)))
            except ToolError as error:
                said.append(str(error))
        said += [str(await io.tool("note", text="again")) for _ in range(2)]
        return [*said, (await io.model(model, [user("and now?")])).message.text]

    return Agent("tester", Loop(run), tools=[pay, pay_out, note], rules=[ask("note")])


async def life(world: World, clock: ManualClock, carried: Agent, name: str, death: Spot | None) -> None:
    mortal = MortalWorld(world)
    gate: Gate = OpenGate() if death is None else DeathGate(death, mortal)
    dead = frozenset(f"w-{number}" for number in range(9))
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, dead).work(carried)


async def compensated() -> History:
    """The whole story."""
    clock, carried = ManualClock(), agent()
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, SESSION, agent=carried, clock=clock)
        await session.send("go", id="in-1")
        await life(world, clock, carried, "w-1", Spot(Point.AFTER_EFFECT, "never"))
        await life(world, clock, carried, "w-2", Spot(Point.AFTER_EFFECT, "keyed"))
        await life(world, clock, carried, "w-3", Spot(Point.AFTER_EFFECT, "never"))
        await life(world, clock, carried, "w-4", None)
        await session.decide(3, "compensate", by="ann", id="dec-1")
        await life(world, clock, carried, "w-5", None)
        await session.decide(5, "allow", by="ann", for_turn=True, id="dec-2")
        await life(world, clock, carried, "w-6", None)
        await session.signal("early", id="sig-1")
        await life(world, clock, carried, "w-7", None)
        clock.turn(61.0)
        await life(world, clock, carried, "w-8", None)
        assert (await session.result(1)).status == "done"
        commits = await world.commits(SESSION)
        blobs = await world.get_many(SESSION, [name for one in commits for name in one.header.refs])
    whole = [replace(one, blobs={name: blobs[name] for name in one.header.refs}) for one in commits]
    inputs = {
        "dec-1": encode_input(Decision(3, "compensate", None, "ann", 1.0)),
        "dec-2": encode_input(Decision(5, "allow", None, "ann", 2.0, for_turn=True)),
    }
    return History.of(SESSION, whole, inputs)


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await compensated()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
