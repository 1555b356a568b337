"""Every kind of workspace that ships, held to every case of the contract of sites."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anyio import to_thread

from outlast.drive import Packs
from outlast.testing.workspace_contract import CASES, Case, Ground, GroundFactory, Stand, Trait, lacking
from outlast.workspace import Site
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.local import local
from outlast.workspaces.local.kind import LocalKind
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import VirtualKind, virtual
from tests.stays import stay_at, supervised

pytestmark = pytest.mark.crash


class _Virtual:
    traits: frozenset[Trait] = frozenset({"rolls-back", "remembers", "isolates", "settles"})

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def open(
        self, *, fence: int, root: str, aside: Mapping[str, Any], packs: Packs
    ) -> AsyncGenerator[Site]:
        async with supervised(self._directory) as processes:
            stay = stay_at(self._directory, processes, fence=fence, root=root, aside=aside, packs=packs)
            async with VirtualKind().open(virtual().reference(), stay) as site:
                yield site


class _Sandbox:
    traits: frozenset[Trait] = frozenset({"isolates", "programs", "settles"})

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def open(
        self, *, fence: int, root: str, aside: Mapping[str, Any], packs: Packs
    ) -> AsyncGenerator[Site]:
        async with supervised(self._directory) as processes:
            stay = stay_at(self._directory, processes, fence=fence, root=root, aside=aside, packs=packs)
            async with SandboxKind().open(sandbox(idle_s=0).reference(), stay) as site:
                yield site


UNLIKE = {
    "a_site_knows_the_commands_that_were_begun_in_it": "a directory tells nobody what another attempt began there",
    "an_older_fence_changes_nothing_that_a_newer_one_shows": "nothing stands between a directory and its users",
}
"""Cases that do not hold of a user's own directory, and why."""


class _Local:
    traits: frozenset[Trait] = frozenset({"programs"})

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def open(
        self, *, fence: int, root: str, aside: Mapping[str, Any], packs: Packs
    ) -> AsyncGenerator[Site]:
        work = self._directory / "work"
        await to_thread.run_sync(partial(work.mkdir, exist_ok=True))
        async with supervised(self._directory) as processes:
            stay = stay_at(self._directory, processes, fence=fence, root=root, aside=aside, packs=packs)
            async with LocalKind().open(local(work).reference(), stay) as site:
                yield site


@pytest.fixture
def grounds(tmp_path: Path) -> GroundFactory:
    @asynccontextmanager
    async def make() -> AsyncGenerator[Ground]:
        yield _Virtual(tmp_path)

    return make


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_virtual(case: Case, grounds: GroundFactory) -> None:
    async with grounds() as ground:
        if lacks := lacking(case, ground):
            assert lacks == "programs", lacks
            pytest.skip(f"a virtual workspace does not claim {lacks}")
        await case.run(Stand(ground, grounds))


@pytest.mark.parametrize("kind", [_Sandbox, _Local], ids=["sandbox", "local"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_on_a_machine(
    case: Case, kind: type[_Sandbox | _Local], tmp_path_factory: pytest.TempPathFactory
) -> None:

    @asynccontextmanager
    async def make() -> AsyncGenerator[Ground]:
        # Short, for the paths of sockets; and what is called as the tests are is seen inside, as HOME.
        with TemporaryDirectory(prefix="at-") as directory:
            yield kind(Path(directory))

    if kind is _Local and case.name in UNLIKE:
        pytest.skip(UNLIKE[case.name])
    async with make() as ground:
        if lacks := lacking(case, ground):
            pytest.skip(f"such a workspace does not claim {lacks}")
        await case.run(Stand(ground, make))
