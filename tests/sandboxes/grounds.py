"""Where the contract makes boxes by bubblewrap."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from outlast.ids import new_id
from outlast.sandbox import Ability, Ref, SandboxProvider, Spec
from outlast.testing.sandbox_contract import Ground, Recipe
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from outlast.workspaces.sandbox.bubblewrap.places import Place

MARK = "OUTLAST_TEST_GROUND"


def provider_at(data: str) -> SandboxProvider:
    return Bubblewrap(Path(data))


class OnBubblewrap:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.name = new_id("ground")

    @property
    def abilities(self) -> frozenset[Ability]:
        return Bubblewrap(self.data).abilities

    @property
    def spec(self) -> Spec:
        return Spec(self.name, env={MARK: self.name})

    def provider(self) -> SandboxProvider:
        return Bubblewrap(self.data)

    def recipe(self) -> Recipe | None:
        return Recipe(f"{__name__}:provider_at", (str(self.data),))

    async def kill_supervisor(self, ref: Ref) -> None:
        os.kill(first_of(self.data, ref), 9)

    async def left(self, ref: Ref) -> Sequence[str]:
        place = Place(self.data, ref["name"])
        found = [f"process {pid}" for pid in marked(self.name)]
        if place.state() != "ended":
            found.append("its lock is held")
        with suppress(OSError):
            found += [path.name for path in place.path.iterdir() if path.is_socket()]
        return found


def first_of(data: Path, ref: Ref) -> int:
    """The first process inside a box, as it is called here."""
    lock = Place(data, ref["name"]).path / "lock"
    return msgspec.json.decode(lock.read_bytes())["first"]


def marked(value: str) -> list[int]:
    """Processes whose environment holds the mark."""
    found: list[int] = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                if f"{MARK}={value}".encode() in (path / "environ").read_bytes():
                    found.append(int(path.name))
    return found


@asynccontextmanager
async def on_bubblewrap() -> AsyncGenerator[Ground]:
    with TemporaryDirectory() as directory:
        ground = OnBubblewrap(Path(directory) / "data")
        try:
            yield ground
        finally:
            provider = ground.provider()
            for found in await provider.list({}):
                await provider.destroy(found.ref)
            assert not marked(ground.name), "a process of the box is left"
