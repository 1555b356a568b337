"""Made `v1/extra-parent.json`, `v1/extra-child.json` and `v1/extra-recalled.json`.

`python -m tests.histories.make_v1_families DIRECTORY`: a loop that spawns a session which reports, begins again, and
spawns one that it does not wait for. Kept to show where the files come from; see `make_v1`.
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
from outlast.errors import NothingCame
from outlast.records import Recall, Report, Usage
from outlast.session import Session
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.histories.stored import History, summary
from tests.unit.family_desk import Family

SESSION = "extra-parent"


async def parent(io: IO, prompt: str) -> object:
    """One that reports, and in its second life one that is recalled before anybody has begun it."""
    if io.state is None:
        await io.continue_as_new({"said": await io.spawn("helper", "Look it up.", settings={"tone": "dry"})})
    with suppress(NothingCame):
        await io.spawn("nobody", "long " * 3000, timeout_s=60.0)
    return io.state


async def child(io: IO, prompt: str) -> object:
    """What it was asked."""
    return prompt


async def histories() -> dict[str, History]:
    """By the name of the file."""
    clock = ManualClock()
    boss, helper = Agent("boss", Loop(parent)), Agent("helper", Loop(child))
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=boss, clock=clock)
        await session.send("go", id="in-1")
        family = Family(world, clock, [boss, helper])
        await family.work()
        clock.turn(60.0)
        await family.work()
        await Family(world, clock, [Agent("nobody", Loop(child))]).work()
        assert (await session.result(1)).value == {"said": "Look it up."}
        heads = {head.agent: head.session for head in (await world.list()).sessions}
        report = Report(1, heads["helper"], "failed", None, "no", Usage(1, 2), 3.0)
        return {
            SESSION: await _stored(world, SESSION, {"report-1": encode_input(report)}),
            "extra-child": await _stored(world, heads["helper"], {}),
            "extra-recalled": await _stored(
                world, heads["nobody"], {"recall-1": encode_input(Recall("in-1", 3.0))}
            ),
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
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
