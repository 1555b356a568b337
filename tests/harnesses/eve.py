"""eve under the adapter contract: an agent with the application's tools as its own, and some for files and commands."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

from outlast import programs
from outlast.adapter import Agent
from outlast.adapters.eve import Eve
from outlast.adapters.eve.adapter import MODULE, NODE
from outlast.gate import Point
from outlast.ids import digest
from outlast.testing.adapter_contract import Subject, inner_cases
from outlast.testing.adapter_contract.attachment_cases import IMAGES
from outlast.testing.adapter_contract.edit_cases import EDITS
from outlast.testing.models import ToolUse
from outlast.tool import Tool
from tests.harnesses.refusing import NO_FILES

PROJECT = Path(__file__).with_name("eve_project")
BUILD_S = 240.0
LACKS = {
    "a_worker_killed_when_a_verified_tool_has_acted_costs_no_finished_call": (
        "Its tools run in eve, where no worker can ask whether one took effect."
    ),
    "a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing": "Another version is refused.",
    "a_fork_goes_on_in_another_directory": "It is part of the project in which it was built.",
    "a_wait_holds_no_process_and_its_signal_is_the_result": "Its tools are those that were built into it.",
    "a_steer_is_carried_by_a_request_and_consumed_by_its_commit": "A steer becomes the next prompt.",
    **dict.fromkeys(IMAGES, NO_FILES),
    **dict.fromkeys(EDITS, "Its tools are those of the project, of which no adapter knows what they edit."),
    **dict.fromkeys(
        (case.name for case in inner_cases.CASES),
        "Sub-agents and compaction of eve's own are not journalled.",
    ),
}


class EveSubject(Subject):
    """An agent made with the real eve, as `outlast install eve` brings it."""

    name = "eve"
    dialect = "openai-chat"
    recipe = "tests.harnesses.eve:SUBJECT"
    lacks = LACKS
    acted = Point.OUTCOME_QUEUED
    foreign_words = ("[outlast]",)

    def furnish(self, place: Path) -> None:
        shutil.copytree(built(), place, symlinks=True, dirs_exist_ok=True)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, Eve(policies={"look": "safe", "wait_*": "safe", "pay": "keyed"}))

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="shell", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write", input={"path": path, "text": text})

    def is_program(self, command: bytes) -> bool:
        return b"eve.js\0start" in command and b"supervise.py" not in command


def built() -> Path:
    """The project, built; that takes a while, so it is kept beside what it was built with."""
    packages = programs.find("eve")
    files = sorted(path for path in PROJECT.rglob("*") if path.is_file())
    place = packages.parent / f"eve-project-{digest(*(file.read_bytes() for file in (*files, MODULE)))}"
    with (packages.parent / ".eve-project.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            _build(packages, place)
    return place


def _build(packages: Path, place: Path) -> None:
    fresh = Path(mkdtemp(dir=packages.parent, prefix=".eve-project-")) / "shop"
    shutil.copytree(PROJECT, fresh)
    shutil.copyfile(MODULE, fresh / "agent/lib" / MODULE.name)
    (fresh / "node_modules").symlink_to(packages / "node_modules")
    node = programs.node(NODE)
    said = subprocess.run(
        [node, "node_modules/eve/bin/eve.js", "build"],
        cwd=fresh,
        env={**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}", "EVE_TELEMETRY_DISABLED": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BUILD_S,
        check=False,
    )
    assert said.returncode == 0, said.stdout.decode() + said.stderr.decode()
    fresh.rename(place)
    shutil.rmtree(fresh.parent)


SUBJECT = EveSubject()
