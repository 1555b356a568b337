"""`outlast fork`: another session from the same past, from the command line."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.cli.main import main
from outlast.engine.places import make_places, places_of
from outlast.opening import open_world
from outlast.session import Session
from outlast.workspaces.local import local
from outlast.workspaces.virtual import virtual
from tests.unit.engine_desk import Desk


async def echo(io: IO, prompt: str) -> object:
    """Say it again."""
    return prompt


ECHO = Agent("echo", Loop(echo))


class Line:
    """A World with a session of two turns, and a command line."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.directory = directory
        self.url = f"sqlite:{directory / 'world.db'}"
        anyio.run(self._fill)

    async def _fill(self) -> None:
        async with open_world(self.url) as world:
            session = await Session.open(world, "s", agent=ECHO)
            for prompt in ("first", "second"):
                await session.send(prompt)
            await Desk(world).work(ECHO)
            await Session.open(world, "here", agent=ECHO, workspace=local(self.directory))

    def run(self, *words: str, status: int = 0) -> Result:
        environ = {"OUTLAST_DATA_DIR": str(self.data), "OUTLAST_WORLD": self.url}
        result = CliRunner().invoke(main, words, env=environ)
        assert result.exit_code == status, result.output
        return result

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", status=status).stdout.splitlines()[-1])

    def make(self, session: str) -> Path:
        """Make the HOME of a session as a worker does."""

        async def body() -> Path:
            async with open_world(self.url) as world:
                places = places_of(self.data, await (await Session.find(world, session)).state())
            make_places(places, workspace=True)
            return places.home

        return anyio.run(body)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


def test_a_fork_before_a_turn_has_the_turns_before_it_and_show_says_of_what(line: Line) -> None:
    made = line.json("fork", "s", "--turn", "2", "--id", "again")
    assert made == {"session": "again", "source": "s", "at": made["at"], "cwd": "", "turn_open": False}
    shown = line.json("show", "again")
    assert [turn["prompt"] for turn in shown["turns"]] == ["first"]
    assert shown["forked"] == {"source": "s", "at": made["at"]}
    assert f"a fork of s at commit {made['at']}" in line.run("show", "again").stdout
    assert "forked" in line.run("log", "again").stdout
    assert line.json("fork", "s", "--turn", "2", "--id", "again") == made
    assert "a fork of s" in line.run("follow", "again", "--until-idle").stdout


def test_a_fork_without_more_is_of_the_newest_commit_under_a_new_id(line: Line) -> None:
    first, second = (line.json("fork", "s") for _ in range(2))
    assert first["session"] != second["session"]
    assert first["session"].startswith("s-")
    head = line.json("show", "s")["head"]["seq"]
    assert first["at"] == second["at"] == head


def test_what_cannot_be_forked_has_its_status_and_says_why(line: Line) -> None:
    assert line.json("fork", "s", "--at", "99", status=3)["error"] == "CommitUnknown"
    assert line.json("fork", "s", "--turn", "9", status=3)["error"] == "TurnUnknown"
    assert line.json("fork", "nobody", status=3)["error"] == "SessionUnknown"
    assert line.json("fork", "s", "--at", "1", "--turn", "1", status=2)["error"] == "BadInput"
    assert line.json("fork", "s", "--id", "here", status=2)["error"] == "SessionExists"
    line.run("fork", "s", "--id", "No id", status=2)


def test_a_fork_whose_files_are_its_own_is_told_of_no_directory_that_it_shares(line: Line) -> None:
    async def open_it() -> None:
        async with open_world(line.url) as world:
            await Session.open(world, "kept", agent="nobody", workspace=virtual())

    anyio.run(open_it)
    assert line.run("fork", "kept").stderr == ""


def test_a_fork_in_the_same_directory_says_so_and_another_may_be_named(line: Line, tmp_path: Path) -> None:
    said = line.run("fork", "here")
    assert f"Both work in {tmp_path}" in said.stderr
    other = tmp_path / "other"
    other.mkdir()
    made = line.json("fork", "here", "--cwd", str(other))
    assert made["cwd"] == str(other)
    assert line.json("show", made["session"])["cwd"] == str(other)


def test_rm_of_a_fork_removes_its_own_directories_and_rm_of_the_source_its_own(line: Line) -> None:
    line.run("fork", "s", "--id", "again")
    homes = [line.make("s"), line.make("again")]
    line.run("rm", "again", "--yes")
    assert [home.exists() for home in homes] == [True, False]
    line.run("fork", "s", "--id", "once-more")
    fork = line.make("once-more")
    line.run("rm", "s", "--yes")
    assert [home.exists() for home in homes] == [False, False]
    assert fork.exists()
    assert line.json("show", "once-more")["turns"]
