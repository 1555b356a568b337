"""`outlast sandbox`: real boxes are listed and ended."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.sandbox import JobAsk, Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from tests.sandboxes.grounds import MARK, marked

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def run(data: Path, *words: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["sandbox", *words], env={"OUTLAST_DATA_DIR": str(data)})
    assert result.exit_code == status, result.output
    return result


def rows(data: Path, *words: str, status: int = 0) -> list[Any]:
    return [json.loads(line) for line in run(data, *words, "--json", status=status).stdout.splitlines()]


async def stands(data: Path, name: str, **labels: str) -> None:
    """A box that outlives whoever made it, with a command that runs in it."""
    async with Bubblewrap(data).attach(Spec(name, env={MARK: name}, idle_s=60.0, labels=labels), 1) as box:
        await box.begin(JobAsk("sleeper", ["sleep", "600"]))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def fill() -> None:
        await stands(tmp_path, "cli-one", session="s-1")
        await stands(tmp_path, "cli-two", session="s-2")

    anyio.run(fill)
    return tmp_path


def test_boxes_are_listed_by_label_and_ended_by_name_with_all_that_runs_in_them(data: Path) -> None:
    try:
        found = rows(data, "ls")
        assert [(row["name"], row["state"], row["provider"]) for row in found] == [
            ("cli-one", "running", "bubblewrap"),
            ("cli-two", "running", "bubblewrap"),
        ]
        assert [row["name"] for row in rows(data, "ls", "--label", "session=s-2")] == ["cli-two"]
        assert "session=s-1" in run(data, "ls", "--provider", "bubblewrap").stdout
        assert marked("cli-one")
        assert rows(data, "rm", "cli-one", status=2)[0]["error"] == "BadInput"
        assert rows(data, "rm", "cli-one", "nothing", "--yes", status=3)[0]["error"] == "NotFound"
        assert marked("cli-one"), "one of the names was wrong, and the other was ended"
        assert rows(data, "rm", "cli-one", "--yes") == [{"provider": "bubblewrap", "ended": "cli-one"}]
        assert not marked("cli-one")
        assert marked("cli-two")
    finally:
        run(data, "rm", "--all", "--yes")
    assert not marked("cli-two")
    assert [row for row in rows(data, "ls") if row["state"] != "ended"] == []


def test_what_cannot_be_asked_for_has_its_status(tmp_path: Path) -> None:
    assert "No box stands" in run(tmp_path, "ls").stderr
    assert rows(tmp_path, "ls", "--provider", "nobody", status=3)[0]["error"] == "NotFound"
    assert rows(tmp_path, "ls", "--label", "session", status=2)[0]["error"] == "BadInput"
    run(tmp_path, "rm", status=2)
    run(tmp_path, "rm", "a", "--all", status=2)
    run(tmp_path, "rm", "a", "--label", "b=c", status=2)
    assert run(tmp_path, "rm", "--all", "--yes").stdout == ""
