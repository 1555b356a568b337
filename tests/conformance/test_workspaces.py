"""Every kind of workspace that ships, held to every case of the contract of sites."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.drive import Packs
from outlast.testing.workspace_contract import CASES, Case, Ground, GroundFactory, Stand, Trait, lacking
from outlast.workspace import Site
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
