"""Made `v1/extra-inquiries.json`: `python -m tests.histories.make_v1_inquiries DIRECTORY`.

A harness whose calls were cut off and asked about: one took effect, one did not, of one nobody could tell; the last is
open as the history ends, its witness behind a blob. Kept to show where the file comes from; see `make_v1`.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import ManualClock
from outlast.gate import Point
from outlast.inquiry import Scene, Witness
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.tool import Done, NotDone, Unsure, Verdict
from outlast.worlds.memory import open_memory
from tests.histories.make_v1 import Stage
from tests.histories.stored import History, summary
from tests.unit.engine_desk import call, say

SESSION = "extra-inquiries"
FOUND: Mapping[str, Verdict] = {
    "made": Done("It is made."),
    "not-made": NotDone(),
    "changed": Unsure("Of its files changed is neither as it was before nor as the call was to leave it."),
}


@dataclass(frozen=True)
class Told:
    """What can be asked about an edit of a path."""

    path: str
    files_only: bool = True

    async def note(self, scene: Scene) -> Witness | None:
        files = [{"path": self.path, "before": "", "after": "17" * 32}]
        return {"is": "files", "files": files * (500 if self.path == "open" else 1), "says": "It is made."}

    async def ask(self, scene: Scene, witness: Witness) -> Verdict:
        return FOUND[self.path]


async def _edit(arguments: Mapping[str, Any]) -> str:
    return "made now"


async def asked() -> History:
    """The whole story."""
    clock = ManualClock()
    script = [say(f"I edit {path}.", call("edit", path=path)) for path in (*FOUND, "open")]
    edit = BuiltIn(_edit, "verify", inquiry=lambda said: Told(said["path"]))
    agent = Agent("tester", Scripted(script=script, built_ins={"edit": edit}))
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        await session.send("go", id="in-1")
        stage = Stage(world, clock, session, agent)
        for nth in (1, 1, 2, 1):  # of the second the edit is made once more before the third is begun
            await stage.work(Spot(Point.AFTER_EFFECT, "verify", nth))
        commits = list(await world.commits(SESSION))
        blobs = await world.get_many(SESSION, [name for commit in commits for name in commit.header.refs])
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
    return History.of(SESSION, whole, {})


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await asked()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
