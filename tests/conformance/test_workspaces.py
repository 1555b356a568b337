"""Every kind of workspace that ships, held to every case of the contract of sites."""

import itertools
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from outlast.drive import Packs
from outlast.testing.workspace_contract import CASES, Case, Ground, GroundFactory, Stand, Trait, lacking
from outlast.workspace import Kind, Site, Workspace
from outlast.workspaces.boxed.description import sandbox
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.local import local
from outlast.workspaces.local.kind import LocalKind
from outlast.workspaces.virtual import VirtualKind, virtual
from tests.stays import stay_at, supervised

pytestmark = pytest.mark.crash

TRAITS: Final[dict[str, frozenset[Trait]]] = {
    "virtual": frozenset({"rolls-back", "remembers", "isolates", "settles", "fences"}),
    "local": frozenset({"programs"}),
    "sandbox": frozenset({"isolates", "settles", "programs", "fences"}),
}
"""What is claimed of each; a case that needs more is skipped, and says what is lacking."""


class SiteGround:
    def __init__(self, directory: Path, traits: frozenset[Trait], workspace: Workspace, kind: Kind) -> None:
        self.traits = traits
        self._directory = directory
        self._reference = workspace.reference()
        self._kind = kind

    @asynccontextmanager
    async def open(
        self, *, fence: int, root: str, aside: Mapping[str, Any], packs: Packs
    ) -> AsyncGenerator[Site]:
        async with supervised(self._directory) as processes:
            stay = stay_at(self._directory, processes, fence=fence, root=root, aside=aside, packs=packs)
            async with self._kind.open(self._reference, stay) as site:
                yield site

    async def forget(self) -> None:
        await self._kind.forget(self._reference, "session-abcdefghijklmnop", self._directory)


def _virtual(directory: Path) -> SiteGround:
    return SiteGround(directory, TRAITS["virtual"], virtual(), VirtualKind())


def _local(directory: Path) -> SiteGround:
    (directory / "checkout").mkdir()
    return SiteGround(directory, TRAITS["local"], local(directory / "checkout"), LocalKind())


def _sandbox(directory: Path) -> SiteGround:
    return SiteGround(directory, TRAITS["sandbox"], sandbox(), SandboxKind())


MAKERS: Final[dict[str, Callable[[Path], SiteGround]]] = {
    "virtual": _virtual,
    "local": _local,
    "sandbox": _sandbox,
}


def factory_of(kind: str, directory: Path) -> GroundFactory:
    """Grounds of a kind, each on a machine of its own as far as a directory is one."""
    numbers = itertools.count(1)

    @asynccontextmanager
    async def make() -> AsyncGenerator[Ground]:
        there = directory / f"machine-{next(numbers)}"
        there.mkdir()
        ground = MAKERS[kind](there)
        try:
            yield ground
        finally:
            await ground.forget()

    return make


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", MAKERS)
async def test_the_sites_of_a_workspace_keep_the_promise(kind: str, case: Case, tmp_path: Path) -> None:
    factory = factory_of(kind, tmp_path)
    async with factory() as ground:
        if lacks := lacking(case, ground):
            pytest.skip(f"{kind} does not claim: {lacks}")
        await case.run(Stand(ground, factory))
