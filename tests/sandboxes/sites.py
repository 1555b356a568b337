"""Sites of sandboxes under their contract; as a program, whoever runs it."""

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from outlast.drive import Packs
from outlast.testing.workspace_contract import Ground, Trait, run_contract
from outlast.workspace import Site
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.sandbox import sandbox
from tests.stays import stay_at, supervised


class SandboxGround:
    """One session's sandboxes, each for one attempt."""

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


@asynccontextmanager
async def on_bubblewrap() -> AsyncGenerator[Ground]:
    # Short, for the paths of sockets; and what is called as the tests are is seen inside, as HOME.
    with TemporaryDirectory(prefix="at-", dir="/tmp") as directory:
        yield SandboxGround(Path(directory))


async def contract(only: str | None) -> None:
    for result in await run_contract(on_bubblewrap, only):
        sys.stdout.write(json.dumps(asdict(result)) + "\n")


if __name__ == "__main__":
    anyio.run(contract, sys.argv[1] if len(sys.argv) > 1 else None)
