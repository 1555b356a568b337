"""A fork has the files of its past as its log has them: each change once, whichever commit it was forked at."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.engine.attempt import Surroundings
from outlast.errors import BadInput
from outlast.fold import SessionState
from outlast.session import Session
from outlast.sites import Ground, packs_of
from outlast.workspace import Note, Workspace
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.drive import Drive
from outlast.workspaces.local import local
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import virtual
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.stays import supervised
from tests.unit.engine_desk import Desk

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


async def count(io: IO, prompt: str) -> object:
    """Write a line three times, by the shell."""
    for number in range(3):
        await io.tool("bash", command=f"echo {prompt} {number} >> log; export LAST={number}")
    return await io.tool("bash", command="cat log; echo $LAST")


AGENT = Agent("tester", Loop(count), tools=workspace_tools(), workspace=virtual())


class _Nowhere:
    """A gateway that nobody asks."""

    async def address(self) -> str:
        return "http://127.0.0.1:49151"


@asynccontextmanager
async def desk_in(directory: Path) -> AsyncGenerator[tuple[World, Desk]]:
    async with open_memory() as world, supervised(directory) as processes:
        ground = Ground(directory, cast("Gateway", _Nowhere()), processes, 60.0)

        @asynccontextmanager
        async def surroundings(state: SessionState, agent: Agent, note: Note) -> AsyncGenerator[Surroundings]:
            async with ground.open(world, state, agent, note) as around:
                yield around

        yield world, Desk(world, surroundings=surroundings)


async def log_of(world: World, session: str) -> str:
    """The file as the session's log has it, without a worker."""
    state = await (await Session.find(world, session)).state()
    drive = Drive(await packs_of(world, session), world.tenant)
    found = await drive.find(state.tree.root, "log")
    return "" if found is None else (await drive.read(state.tree.root, "log")).decode()


async def test_each_change_is_there_once_whichever_commit_a_fork_is_of(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as (world, desk):
        source = await Session.open(world, "s", agent=AGENT)
        for number in (1, 2):
            await source.send(f"turn {number}", id=f"in-{number}")
        await desk.work(AGENT)
        first = "".join(f"turn 1 {number}\n" for number in range(3))
        second = "".join(f"turn 2 {number}\n" for number in range(3))
        assert await log_of(world, "s") == first + second
        begun = 0
        for at in range(1, (await source.head()).seq + 1):
            fork = await source.fork(at, id=f"f{at}")
            past = await fork.state()
            begun = max(begun, past.next_turn - 1)
            await desk.work(AGENT)
            assert (await fork.state()).turn is None
            assert await log_of(world, fork.id) == ["", first, first + second][begun]
            if begun:
                said = str((await fork.result(begun)).value)
                assert f"turn {begun} 2" in said
                assert said.rstrip().endswith("2"), "the shell is not where it was"
        assert await log_of(world, "s") == first + second


@pytest.mark.parametrize("workspace", [virtual(), sandbox(idle_s=0.0)], ids=["virtual", "sandbox"])
async def test_source_and_fork_write_files_of_their_own(tmp_path: Path, workspace: Workspace) -> None:
    async with desk_in(tmp_path) as (world, desk):
        source = await Session.open(world, "s", agent=AGENT, workspace=workspace)
        await source.send("both")
        await desk.work(AGENT)
        fork = await source.fork(id="f")
        await source.send("source")
        await fork.send("fork")
        await desk.work(AGENT)
        for session, other in (("s", "fork"), ("f", "source")):
            assert "both 2" in await log_of(world, session)
            assert other not in await log_of(world, session)
        await world.erase("s")
        assert "fork 2" in await log_of(world, "f")
        await fork.send("again")
        await desk.work(AGENT)
        assert "again 2" in await log_of(world, "f")


async def test_a_fork_cannot_leave_the_store_that_its_files_are_in(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    agent = Agent("tester", Loop(count), tools=workspace_tools(), workspace=virtual(store=f"file://{store}"))
    async with desk_in(tmp_path) as (world, desk):
        source = await Session.open(world, "s", agent=agent)
        await source.send("stored")
        await desk.work(agent)
        with pytest.raises(BadInput, match="are kept in"):
            await source.fork(workspace=local(tmp_path))
        fork = await source.fork(id="f")
        await fork.send("more")
        await desk.work(agent)
        assert "stored 2" in await log_of(world, "f")
        assert "more 2" in await log_of(world, "f")
        assert "more" not in await log_of(world, "s")
