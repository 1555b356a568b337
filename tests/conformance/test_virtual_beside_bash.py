"""The shell of `virtual()` beside the real one: texts of our own, one for each matter of bash's manual.

They stand in tests/shell/snippets.bash. Where they end differently, docs/workspaces/virtual.md says so, by name: the
table there and what is found here are the same.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast.workspaces.virtual.interpreter import Interpreter
from outlast.workspaces.virtual.wire import Done, Run

pytestmark = pytest.mark.crash  # it starts some eighty shells

ROOT = Path(__file__).parents[2]
BASH = "/bin/bash"


class Snippet(NamedTuple):
    name: str
    text: str


def snippets() -> list[Snippet]:
    parts = re.split(r"^### (.*)\n", (ROOT / "tests/shell/snippets.bash").read_text(), flags=re.MULTILINE)
    return [Snippet(name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


def in_bash(text: str, directory: Path) -> tuple[int, str]:
    directory.mkdir()
    environ = {"LC_ALL": "C", "PATH": os.defpath, "HOME": str(directory)}
    done = subprocess.run(
        [BASH, "-c", text],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout


def in_virtual(text: str) -> tuple[int, str]:
    said: list[str] = []
    *_, last = Interpreter(lambda heard: said.append(heard.out)).answer(Run(text, "", {}, 30.0))
    assert isinstance(last, Done)
    return last.status, "".join(said)


def documented() -> set[str]:
    """The names in the first column of the table of differences."""
    page = (ROOT / "docs/workspaces/virtual.md").read_text()
    table = page.partition("<!-- differences -->")[2].partition("<!-- /differences -->")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE))


def test_at_least_95_of_100_end_as_in_bash_and_the_others_are_documented(tmp_path: Path) -> None:
    all_of_them = snippets()
    assert len(all_of_them) >= 80
    assert len({snippet.name for snippet in all_of_them}) == len(all_of_them)
    different = {
        snippet.name
        for number, snippet in enumerate(all_of_them)
        if in_virtual(snippet.text) != in_bash(snippet.text, tmp_path / str(number))
    }
    assert different == documented()
    assert len(different) <= 0.05 * len(all_of_them), different
