"""Nothing happens by itself: installing, importing, collecting or building what uses us starts and writes nothing.

Every interpreter is watched by its own audit hooks, which see what Python code starts and opens for writing, in all
the libraries that come along; the project's tree is compared besides, so that what native code writes there shows too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast import programs
from outlast.cli.fetching import wheel_installer

pytestmark = [pytest.mark.crash, pytest.mark.full, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
WATCHED = Path(__file__).parent / "watched"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "shop"
version = "1.0"
dependencies = ["outlast"]

[tool.hatch.build.targets.wheel]
packages = ["shop"]
"""
APPLICATION = """
from importlib.metadata import entry_points

from outlast import Agent, tool
from outlast.adapters.python import Loop
from outlast.workspaces.local import local


@tool
async def refund(io, order: str) -> str:
    return order


async def office(io, prompt):
    return await io.tool(refund, order=prompt)


adapters = [found.load()() for found in entry_points(group="outlast.adapters")]
agents = [Agent(adapter.name, adapter, tools=[refund], workspace=local(".")) for adapter in adapters]
agents.append(Agent("office", Loop(office), tools=[refund]))
"""
TESTS = """
from shop import agents
from outlast.testing import adapter_contract, faults, models, world_contract


def test_office():
    assert agents


async def test_kills(kill_everywhere):
    pass
"""


@dataclass(frozen=True)
class Seen:
    """What an interpreter, and those that it started, did."""

    started: Sequence[str]
    written: Sequence[Path]

    def below(self, directory: Path) -> list[Path]:
        """What was written there."""
        return [path for path in self.written if path.is_relative_to(directory)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An application with every adapter, an agent of its own and tests."""
    project = tmp_path / "project"
    (project / "shop").mkdir(parents=True)
    (project / "tests").mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "shop" / "__init__.py").write_text(APPLICATION)
    (project / "tests" / "test_shop.py").write_text(TESTS)
    return project


def watched(project: Path, *command: str) -> Seen:
    """Run a command in the project, and see what it does."""
    log, home = project.parent / "watched.jsonl", project.parent / "home"
    home.mkdir(exist_ok=True)
    environ = {
        **os.environ,
        "HOME": str(home),
        "OUTLAST_WATCHED": str(log),
        "PYTHONPATH": os.pathsep.join([str(WATCHED), str(project)]),
        "PYTHONDONTWRITEBYTECODE": "1",  # what the interpreter itself would write beside every module
    }
    log.touch()  # an installer may be no Python
    before = tree(project)
    subprocess.run(command, cwd=project, env=environ, check=True, capture_output=True, timeout=200)
    assert tree(project) == before, "the project is as it was"
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    return Seen(
        [what for kind, what in noted if kind == "start"],
        [Path(what) for kind, what in noted if kind == "write"],
    )


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, with its content."""
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_importing_an_application_starts_and_writes_nothing(project: Path) -> None:
    seen = watched(project, sys.executable, "-c", "import shop; assert len(shop.agents) > 4")
    assert seen.started == []
    assert seen.below(project) == []
    assert seen.below(project.parent / "home") == [], "nor in the user's home"


def test_collecting_tests_starts_and_writes_nothing(project: Path) -> None:
    options = ("--collect-only", "-q", "-p", "no:cacheprovider", "-p", "outlast.testing.fixtures")
    seen = watched(project, sys.executable, "-m", "pytest", *options, "tests")
    assert seen.started == []
    assert seen.below(project) == []


def test_building_an_application_starts_no_harness_and_writes_only_the_wheel(project: Path) -> None:
    out = project.parent / "dist"
    seen = watched(project, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out))
    assert [file.suffix for file in out.iterdir()] == [".whl"]
    assert seen.started == []
    assert seen.below(project) == []


def test_installing_outlast_starts_no_harness(project: Path) -> None:
    out, target = project.parent / "dist", project.parent / "target"
    build = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(out))
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True, capture_output=True, timeout=200)
    (wheel,) = out.iterdir()
    installer = wheel_installer()
    assert installer is not None, "neither uv nor pip is here"
    seen = watched(project, *installer, "--no-deps", "--no-index", "--target", str(target), str(wheel))
    assert (target / "outlast" / "__init__.py").exists()
    assert not [what for what in seen.started if any(name in what for name in programs.names())]
    assert seen.below(project) == []


def test_what_is_started_and_written_would_be_seen(project: Path) -> None:
    code = "import subprocess, pathlib; subprocess.run(['true']); pathlib.Path('../left.txt').write_text('x')"
    seen = watched(project, sys.executable, "-c", code)
    assert len(seen.started) >= 1
    assert [path.name for path in seen.written if path.name == "left.txt"] == ["left.txt"]
