"""Sandboxes under real workers: the worker dies, the sandbox dies, or both; nothing is lost or done twice."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from outlast.gate import Point
from outlast.records import AttemptEnded
from outlast.session import Outcome, Session
from outlast.testing.faults import Spot
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.sandbox.bubblewrap import open_bubblewrap
from tests.crash.coding import DONE, TICKS
from tests.crash.real import LIMIT_S, Yard, yard

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such sandboxes"),
]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("y")) as found:
        yield found


async def begin(place: Yard, name: str, agent: str, idle_s: float) -> Session:
    session = await Session.open(place.world, name, agent=agent, workspace=sandbox(idle_s=idle_s))
    await session.send("go", id="in-1")
    return session


async def end(session: Session) -> Outcome:
    async with asyncio.timeout(LIMIT_S):
        return await session.result(1)


async def ticks(place: Yard, session: Session, count: int) -> None:
    """Wait until the command has gone so far."""
    async with asyncio.timeout(LIMIT_S):
        opened = (await session.state()).opened
        assert opened is not None
        file = place.directory / "data" / "sandboxes" / opened.folder / "files" / "ticks"
        while not file.exists() or len(file.read_text().split()) < count:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.02)


async def test_a_command_outlives_its_worker_and_is_waited_for_by_the_next(place: Yard) -> None:
    place.hold.touch()
    victim = await place.victim("w-attach", 0, Spot(Point.RELEASED, nth=99))
    session = await begin(place, "w-attach", "watcher", 60.0)
    victim.tell()
    await victim.says("claimed")
    victim.tell()
    await ticks(place, session, 5)
    os.kill(worker_of(victim.process.pid), 9)
    await victim.dies()
    place.hold.unlink()
    status, said, counted = (await end(session)).value
    assert (status, said) == ("ok", "over")
    assert counted == f"{TICKS + 2}\nsorted", "it was begun once, and did each step once"


async def test_a_sandbox_that_is_killed_beneath_a_command_is_made_anew_from_the_log(place: Yard) -> None:
    place.hold.unlink(missing_ok=True)
    session = await begin(place, "s-killed", "watcher", 60.0)
    await ticks(place, session, 5)
    provider = open_bubblewrap(place.directory / "data")
    opened = (await session.state()).opened
    assert opened is not None
    (found,) = await provider.list({"outlast": opened.folder})
    await provider.destroy(found.ref)
    status, said, counted = (await end(session)).value
    assert (status, said, counted) == ("ok", "over", f"{TICKS + 2}\nsorted"), (
        "nothing is left of the first try"
    )
    ended = [one.error for one in await place.records(session.id) if isinstance(one, AttemptEnded)]
    assert len(ended) == 1
    assert "has ended" in ended[0]


def worker_of(supervisor: int) -> int:
    """The worker below a supervisor."""
    (child, *_) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(child)


@pytest.mark.parametrize("idle_s", [0.0, 60.0])
@pytest.mark.parametrize(
    "spot",
    [
        Spot(Point.BEFORE_CAPTURE, "verify", 2),
        Spot(Point.AFTER_CAPTURE, "verify", 3),
        Spot(Point.OUTCOME_QUEUED, "verify", 2),
        Spot(Point.AFTER_OUTCOME, "verify", 3),
    ],
    ids=str,
)
async def test_files_of_a_sandbox_are_at_the_call_of_the_log(place: Yard, spot: Spot, idle_s: float) -> None:
    name = f"f-{spot.point}-{idle_s:g}"
    place.hold.touch()
    victim = await place.victim(name, 0, spot)
    session = await begin(place, name, "coder", idle_s)
    await place.send(victim)
    await victim.says("struck")
    await victim.dies()
    outcome = await end(session)
    assert outcome.status == "done", outcome
    lines = str(outcome.value).split("\n")
    assert lines[: len(DONE["log.txt"].split())] == DONE["log.txt"].split()
