"""`outlast ls --watch`: a person at a terminal, and a script, see the list as it changes."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from outlast.cli.listing import Row
from outlast.cli.watched import drawn
from outlast.opening import open_world
from outlast.session import Session
from tests.acceptance.terminals import at_terminal

SELF = [sys.executable, "-m", "outlast.cli"]
LIMIT_S = 30


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "OUTLAST_DATA_DIR": str(tmp_path / "data"),
        "OUTLAST_WORLD": f"sqlite:{tmp_path / 'world.db'}",
    }


def _send(environ: Mapping[str, str], session: str) -> None:
    async def body() -> None:
        async with open_world(environ["OUTLAST_WORLD"]) as world:
            await (await Session.open(world, session, agent="scripted")).send("go", id="p")

    anyio.run(body)


def test_a_terminal_shows_sessions_as_they_come_until_q(environ: Mapping[str, str], tmp_path: Path) -> None:
    _send(environ, "first")
    with at_terminal([*SELF, "ls", "--watch"], env=environ, cwd=tmp_path) as terminal:
        terminal.wait_for("first")
        terminal.wait_for("q ends")
        _send(environ, "second")
        terminal.wait_for("second")
        assert "1 input waiting for a worker" in terminal.text
        terminal.press("q")
        assert terminal.wait() == 0
    assert terminal.raw.endswith(b"\x1b[?25h\x1b[?1049l")  # what stood there before is back


def test_a_script_gets_each_session_that_has_changed(environ: Mapping[str, str], tmp_path: Path) -> None:
    _send(environ, "first")
    words = [*SELF, "ls", "--watch", "--json"]
    watching = subprocess.Popen(words, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    try:
        one = json.loads(watching.stdout.readline())
        _send(environ, "second")
        other = json.loads(watching.stdout.readline())
    finally:
        watching.terminate()
        watching.wait(LIMIT_S)
        watching.stdout.close()
    assert (one["session"], other["session"], other["awaits"]) == ("first", "second", [])


def test_a_list_fits_its_terminal() -> None:
    rows = [Row(f"session-{number}", "claude-code", "turn 1 open" * 9, "", "1 s ago") for number in range(50)]
    lines = drawn(rows, "sqlite:here", 60, 10)
    assert len(lines) == 10
    assert max(map(len, lines)) <= 60
    assert lines[-1] == "sqlite:here   … 42 more   q ends"
    assert drawn([], "sqlite:here", 60, 10)[0].startswith("No session yet")
