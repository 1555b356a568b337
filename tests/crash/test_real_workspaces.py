"""Virtual workspaces under real workers: wherever one is killed, files and log go on from the same call."""

import asyncio
import random
import sys
from collections.abc import AsyncGenerator

import pytest

from outlast.engine.load import load_state
from outlast.gate import Point
from outlast.session import Session
from outlast.sites import WorldPacks
from outlast.testing.faults import Spot
from outlast.workspaces.drive import Drive
from outlast.workspaces.virtual import virtual
from tests.crash.coding import DONE, STEPS
from tests.crash.real import LIMIT_S, Yard, yard

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

DEATHS: list[tuple[Spot, ...]] = [
    (Spot(Point.IN_EFFECT, "safe", 3),),
    (Spot(Point.BEFORE_CAPTURE, "safe", 2), Spot(Point.BEFORE_CAPTURE, "safe")),
    (Spot(Point.AFTER_CAPTURE, "safe", 3),),
    (Spot(Point.OUTCOME_QUEUED, "safe", 2),),
    (Spot(Point.AFTER_OUTCOME, "safe", 4), Spot(Point.FOLDED), Spot(Point.AFTER_CAPTURE, "safe")),
]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard")) as found:
        yield found


async def die_and_be_survived(place: Yard, name: str, *deaths: Spot | int) -> None:
    place.hold.touch()
    victims = [await place.victim(name, number, spot) for number, spot in enumerate(deaths)]
    session = await Session.open(place.world, name, agent="coder", workspace=virtual())
    await session.send("go", id="in-1")
    for victim in victims:
        await place.send(victim, last=victim is victims[-1])
        if all(isinstance(death, Spot) for death in deaths):
            await victim.says("struck")
        await victim.dies()
    async with asyncio.timeout(LIMIT_S):
        outcome = await session.result(1)
    assert outcome.status == "done", outcome
    assert outcome.value == f"{DONE['log.txt']}at home\n/workspace/src"
    state = await load_state(place.world, name)
    drive = Drive(WorldPacks(place.world, name), place.world.tenant)
    for path, text in DONE.items():
        assert (await drive.read(state.tree.root, path)).decode() == text


@pytest.mark.parametrize("deaths", DEATHS, ids=lambda deaths: "+".join(map(str, deaths)))
async def test_files_of_a_virtual_workspace_outlive_a_sigkill(place: Yard, deaths: tuple[Spot, ...]) -> None:
    await die_and_be_survived(place, f"files-{DEATHS.index(deaths)}", *deaths)


async def test_files_of_a_virtual_workspace_outlive_a_sigkill_at_a_point_drawn_by_the_seed(
    place: Yard, seed: int
) -> None:
    draw = random.Random(f"{seed} files")
    # Some nine points are crossed for each call; the second dies before the turn can be over.
    await die_and_be_survived(place, "files-drawn", draw.randrange(9 * STEPS), draw.randrange(9))
