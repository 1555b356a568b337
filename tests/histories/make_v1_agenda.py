"""Made `v1/extra-agenda.json`: `python -m tests.histories.make_v1_agenda DIRECTORY`.

A session that does things by itself: prompts come when it is time, and somebody is told how its turns stand. Kept to
show where the file comes from; see `make_v1`.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.codec import encode_input, encode_records
from outlast.fold import fold
from outlast.notify import Notice
from outlast.records import FORMAT, AnyInput, Payload, Schedule, Snapshot, Unschedule, Unscheduled
from outlast.session import Session
from outlast.world import World
from outlast.world.commit import Header, make_commit
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import History, summary
from tests.unit.engine_desk import Desk

SESSION = "extra-agenda"
HOUR_S, DAY_S = 3600.0, 86_400.0


class Ear:
    """Hears nothing at first."""

    def __init__(self) -> None:
        self.left = 2

    async def tell(self, notice: Notice) -> str:
        self.left -= 1
        return "no line" if self.left >= 0 else ""


async def patient(io: IO, prompt: str) -> object:
    """Wait for a word."""
    return await io.wait_for("go", timeout_s=DAY_S) if prompt == "wait" else prompt


async def planned() -> History:
    """The whole story."""
    clock, ear = ManualClock(), Ear()
    agent = Agent("tester", Loop(patient))
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        desk = Desk(world, clock, notifier=ear)
        await session.schedule("look around", every=HOUR_S, overlap="skip", id="hourly")
        await session.schedule(
            "nightly " * 2000, cron="30 2 * * *", zone="Europe/Berlin", missed="skip", id="nightly"
        )
        await session.schedule("once", at=clock.now() + 60.0, id="once")
        await desk.work(agent)
        for pause_s in (60.0, 5.0, 30.0, HOUR_S, DAY_S):
            clock.turn(pause_s)
            await desk.work(agent)
        await session.send("wait", id="in-1")
        await desk.work(agent)
        clock.turn(3 * HOUR_S)
        await session.signal("other", 1, id="sig-1")
        await desk.work(agent)
        await session.signal("go", "on", id="sig-2")
        await desk.work(agent)
        await session.schedule("look twice", every=2 * HOUR_S, id="hourly")
        await session.unschedule("nightly")
        await session.unschedule("nothing")
        await desk.work(agent)
        ear.left = 1
        await session.send("wait", id="in-2")
        await desk.work(agent)
        return await _history(world)


async def _history(world: World) -> History:
    commits = list(await world.commits(SESSION))
    names = [name for commit in commits for name in commit.header.refs]
    blobs = await world.get_many(SESSION, names)
    whole = [replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits]
    seq, fence = commits[-1].header.seq, commits[-1].header.fence
    state = Payload(json=msgspec.Raw(msgspec.json.encode(fold(SESSION, whole))))
    taken, gone = encode_records([Snapshot(state)]), encode_records([Unscheduled("hourly", "un-1")])
    whole += [
        make_commit(Header(seq + 1, fence, FORMAT, 1, turn_open=True, snapshot=True), taken),
        make_commit(Header(seq + 2, fence, FORMAT, 1, turn_open=True), gone),
    ]
    inputs: dict[str, AnyInput] = {
        "sch-1": Schedule(
            "nightly", "look", cron="30 2 * * *", zone="Europe/Berlin", missed="skip", sent_at_s=1.0
        ),
        "sch-2": Schedule("once", "look", at_s=60.0, overlap="skip", sent_at_s=2.0),
        "sch-3": Schedule("hourly", "look", every_s=HOUR_S, sent_at_s=3.0),
        "un-1": Unschedule("hourly", 4.0),
    }
    return History.of(SESSION, whole, {name: encode_input(value) for name, value in inputs.items()})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await planned()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
