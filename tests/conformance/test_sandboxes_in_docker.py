"""The workspace `sandbox("docker")`, held to every case of the contract of sites.

A session's files are a directory of the worker's machine, its container is made by a daemon.
A few cases run in `make test`, over the stand-in; `make test-all` runs them all.
"""

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outlast.testing.workspace_contract import CASES, Case, Ground, Stand, lacking
from outlast.workspaces.boxed.description import sandbox
from outlast.workspaces.boxed.kind import SandboxKind
from tests.conformance.test_workspaces import TRAITS, SiteGround
from tests.servers.docker_engine import docker_engine

pytestmark = [pytest.mark.timeout(120)]

CORE = {
    "commands_and_files_see_the_same",
    "a_command_of_one_name_is_begun_once",
    "what_is_captured_is_what_another_machine_opens",
    "an_older_fence_changes_nothing_that_a_newer_one_shows",
    "commands_see_no_files_of_the_host",
    "commands_see_nothing_of_the_worker",
    "programs_run_in_it_or_are_refused",
}


@asynccontextmanager
async def _ground(numbers: "itertools.count[int]", directory: Path) -> AsyncGenerator[Ground]:
    there = directory / f"machine-{next(numbers)}"
    there.mkdir()
    ground = SiteGround(there, TRAITS["sandbox"], sandbox("docker"), SandboxKind())
    try:
        yield ground
    finally:
        await ground.forget()


def _cases() -> list[object]:
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.crash if case.name in CORE else pytest.mark.full])
        for case in CASES
        if not case.needs - TRAITS["sandbox"]
    ]


@pytest.mark.parametrize("case", _cases())
async def test_a_sandbox_in_docker_keeps_the_promise(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # the container's user reaches what is mounted
        async with docker_engine(Path(directory)) as daemon:
            monkeypatch.setenv("DOCKER_HOST", f"unix://{daemon.socket}")
            factory = partial(_ground, itertools.count(1), Path(directory))
            async with factory() as ground:
                assert not lacking(case, ground)
                await case.run(Stand(ground, factory))
