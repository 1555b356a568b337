"""Where the contract makes boxes through a client of openai-agents: the one that needs no service."""

import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from outlast.ids import new_id
from outlast.sandbox import Ability, Ref, SandboxProvider, Spec
from outlast.testing.sandbox_contract import Ground, Recipe
from outlast.workspaces.hosted import Hosted
from tests.sandboxes.grounds import MARK, marked


def provider_at(data: str) -> SandboxProvider:
    return Hosted("unix_local", Path(data))


class OnHosted:
    """`unix_local` isolates nothing: its boxes are processes of this user."""

    def __init__(self, folder: Path) -> None:
        self.name = new_id("ground")
        self._folder = folder

    @property
    def abilities(self) -> frozenset[Ability]:
        return self.provider().abilities

    @property
    def spec(self) -> Spec:
        return Spec(self.name, cwd=str(self._folder / "work"), env={MARK: self.name})

    def provider(self) -> SandboxProvider:
        return provider_at(str(self._folder))

    def recipe(self) -> Recipe | None:
        return Recipe(f"{__name__}:provider_at", (str(self._folder),))

    async def kill_supervisor(self, ref: Ref) -> None:
        for pid in supervisors(ref):
            os.kill(pid, signal.SIGKILL)

    async def left(self, ref: Ref) -> Sequence[str]:
        return [f"process {pid}" for pid in (*marked(self.name), *supervisors(ref))]


def supervisors(ref: Ref) -> Sequence[int]:
    wanted = f"{ref['state_dir']}/inside.zip".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words:
            found.append(int(path.parent.name))
    return found


@asynccontextmanager
async def on_unix_local() -> AsyncGenerator[Ground]:
    with TemporaryDirectory() as directory:
        yield OnHosted(Path(directory))
