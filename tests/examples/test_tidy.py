"""The agent that needs no machine: killed in the middle of its work, it goes on with its files as they were."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from examples.tidy import tidy, tidy_of
from outlast.adapter import Gateway
from outlast.engine.load import load_state
from outlast.gate import Point
from outlast.session import Session
from outlast.sites import Ground, WorldPacks
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.workspaces.drive import Drive
from outlast.worlds.memory import open_memory
from tests.stays import supervised
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says, texts, wants

pytestmark = pytest.mark.crash


def model() -> Listed:
    return Listed(
        says("I look.", wants("bash", command="tac notes.txt > CHANGES; cat CHANGES")),
        says("", wants("edit", path="CHANGES", old_string="prices", new_string="prices in cents")),
        says("", wants("read", path="CHANGES")),
        says("It is written."),
    )


async def test_files_are_as_the_log_has_them_whoever_goes_on(tmp_path: Path) -> None:
    of = model()
    agent = tidy_of(of)
    async with open_memory() as world, supervised(tmp_path) as processes:
        session = await Session.open(world, "s-1", agent=agent)
        await session.send("Write a change log", id="in-1")
        ground = Ground(tmp_path, cast("Gateway", None), processes, 60.0)
        mortal = MortalWorld(world)
        death = DeathGate(Spot(Point.AFTER_CAPTURE, "safe", 2), mortal)
        with suppress(Killed):
            await Desk(mortal, gate=death, name="w-1", surroundings=partial(ground.open, mortal)).work(agent)
        assert len(of.requests) == 2
        heir = Desk(world, name="w-2", dead=frozenset({"w-1"}), surroundings=partial(ground.open, world))
        await heir.work(agent)
        assert (await session.result(1)).value == "It is written."
        assert texts(of.requests[-1])[-1] == "     1\tv2 prices in cents\n     2\tv1 first"
        state = await load_state(world, "s-1")
        drive = Drive(WorldPacks(world, "s-1"), world.tenant)
        assert await drive.read(state.tree.root, "CHANGES") == b"v2 prices in cents\nv1 first\n"


def test_the_example_is_as_it_is_shown() -> None:
    assert [tool.name for tool in tidy.tools] == ["bash", "read", "write", "edit", "grep", "glob", "ls"]
