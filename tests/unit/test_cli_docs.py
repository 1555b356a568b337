"""`outlast docs`: documents from the command line."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.argv import SELF
from outlast.cli.main import main
from outlast.opening import open_world
from outlast.session import Session


class Line:
    """A World with one idle session, and a command line."""

    def __init__(self, directory: Path) -> None:
        self.world = f"sqlite:{directory / 'world.db'}"
        anyio.run(self._open)

    async def _open(self) -> None:
        async with open_world(self.world) as world:
            await Session.open(world, "s", agent="nobody")

    def run(self, *words: str, status: int = 0, given: str | None = None) -> Result:
        """A command, which ends with `status`."""
        result = CliRunner().invoke(main, ["docs", *words, "--world", self.world], input=given)
        assert result.exit_code == status, result.output
        return result

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", status=status).stdout.splitlines()[-1])


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


def test_a_document_is_set_merged_cut_and_read(line: Line) -> None:
    first = line.json("set", "s", "plan", '{"steps": []}', "--if-version", "0", "--by", "ann")
    assert first == {"session": "s", "name": "plan", "version": 1, "value": {"steps": []}}
    line.run("set", "s", "plan", "-", "--at", "/steps/-", given='"look"')
    line.run("set", "s", "plan", "--merge", '{"owner": "ann"}')
    assert line.json("set", "s", "plan", "--delete", "/steps/0")["value"] == {"steps": [], "owner": "ann"}
    assert json.loads(line.run("get", "s", "plan").stdout) == {"steps": [], "owner": "ann"}
    assert line.json("get", "s") == {"session": "s", "name": "plan", "version": 4}


def test_what_cannot_be_edited_is_refused_with_the_reason_and_changes_nothing(line: Line) -> None:
    line.run("set", "s", "plan", "1")
    assert line.json("set", "s", "plan", "2", "--if-version", "3", status=5)["error"] == "BadEdit"
    for words in (["plan", "text"], ["plan"], ["plan", "1", "--delete", "/a"]):
        line.run("set", "s", *words, status=2)
    assert line.json("get", "s", "plan")["version"] == 1
    line.run("get", "s", "none", status=3)
    line.run("get", "other", "plan", status=3)


def test_the_same_id_is_the_same_edit(line: Line) -> None:
    answers = [line.json("set", "s", "plan", "1", "--id", "mine") for _ in range(2)]
    assert answers[0] == answers[1]


@pytest.mark.crash
def test_a_follower_is_shown_the_document_and_each_version_until_it_is_interrupted(line: Line) -> None:
    line.run("set", "s", "plan", '{"steps": []}')
    words = [*SELF, "docs", "follow", "s", "plan", "--json", "--world", line.world]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        shown = [json.loads(process.stdout.readline())]
        for step in ("look", "build"):
            line.run("set", "s", "plan", json.dumps(step), "--at", "/steps/-")
            line.run("set", "s", "other", "1")
            shown.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert [(one["version"], one["value"]["steps"]) for one in shown] == [
        (1, []),
        (2, ["look"]),
        (3, ["look", "build"]),
    ]
    assert (process.returncode, rest, errors) == (130, b"", b"")
