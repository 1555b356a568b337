"""What a loop sees of its workspace outside of its tools: a call each, the same in every attempt."""

from contextlib import suppress
from pathlib import Path

import pytest

from outlast.adapter import Agent, Places
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.engine.looks import MOST_BYTES
from outlast.errors import BadInput, FileMissing, WorkspaceError
from outlast.gate import Point
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.workspace_tools import workspace_tools
from outlast.world import World
from tests.paper import Paper, Scrap, on_paper
from tests.unit.engine_desk import Desk

DATA = Path("/nonexistent-data")


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)


async def result(world: World, function: LoopFunction) -> object:
    """What a turn of this loop comes to."""
    agent = Agent("tester", Loop(function), tools=workspace_tools())
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap())
    await session.send("go", id="in-1")
    await Desk(world, surroundings=on_paper(world, Paper(), DATA)).work(agent)
    outcome = await session.result(1)
    assert outcome.status == "done", outcome
    return outcome.value


async def test_a_loop_reads_finds_and_lists_what_its_tools_have_written(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        await io.tool("bash", command="put a.txt one")
        files = io.workspace.files
        found = await files.find("a.txt")
        assert found is not None
        assert await files.find("b.txt") is None
        with pytest.raises(FileMissing, match=r"b\.txt"):
            await files.read("b.txt")
        return [(await files.read("a.txt")).decode(), found.size, [one.path for one in await files.list()]]

    assert await result(world, run) == ["one", 3, ["a.txt"]]


async def test_what_it_saw_is_the_same_when_it_is_run_again_though_the_file_has_changed(world: World) -> None:
    seen: list[bytes] = []

    async def run(io: IO, prompt: str) -> object:
        await io.tool("bash", command="put a.txt one")
        seen.append(await io.workspace.files.read("a.txt"))
        await io.tool("bash", command="put a.txt two")
        return (await io.workspace.files.read("a.txt")).decode()

    agent = Agent("tester", Loop(run), tools=workspace_tools())
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap())
    await session.send("go", id="in-1")
    kind, mortal = Paper(), MortalWorld(world)
    gate = DeathGate(Spot(Point.AFTER_OUTCOME, "safe", 2), mortal)
    with suppress(Killed):
        await Desk(mortal, gate=gate, name="w-1", surroundings=on_paper(mortal, kind, DATA)).work(agent)
    assert seen == [b"one"]
    heir = Desk(world, name="w-2", dead=frozenset({"w-1"}), surroundings=on_paper(world, kind, DATA))
    await heir.work(agent)
    assert (await session.result(1)).value == "two"
    assert seen == [b"one", b"one"], "read from the log the second time"


async def test_what_would_change_files_is_refused_with_the_tool_that_does(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        said: list[str] = []
        files = io.workspace.files
        for act in (
            lambda: files.write("a", b"x"),
            lambda: files.remove("a"),
            lambda: io.workspace.run("rm -r src"),
        ):
            with pytest.raises(BadInput) as refused:
                await act()
            said.append(str(refused.value))
        return said

    said = str(await result(world, run))
    assert 'io.tool("write", path=' in said
    assert 'io.tool("bash", command="rm' in said
    assert "rm -r src" in said


async def test_a_file_that_is_too_large_for_the_log_is_refused_and_bytes_come_as_they_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(self: object, path: str) -> bytes:
        return b"\xff\x00" if path == "raw" else b"x" * (MOST_BYTES + 1)

    monkeypatch.setattr("tests.paper.PaperSite.read", read)

    async def run(io: IO, prompt: str) -> object:
        assert await io.workspace.files.read("raw") == b"\xff\x00"
        with pytest.raises(WorkspaceError) as refused:
            await io.workspace.files.read("large")
        return str(refused.value)

    assert "Read it in a tool" in str(await result(world, run))


async def test_a_session_without_a_workspace_says_so(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        try:
            return (await io.workspace.files.read("a")).decode()
        except WorkspaceError as error:
            return str(error)

    agent = Agent("tester", Loop(run))
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("go", id="in-1")
    await Desk(world).work(agent)
    assert "has no workspace" in str((await session.result(1)).value)
