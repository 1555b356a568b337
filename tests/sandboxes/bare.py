"""Providers of boxes that can have no directory of this machine, though what makes them could: as pods have none.

So the files of sandboxes that share nothing with the worker are kept in real boxes, by bubblewrap, under test.
"""

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from anyio.abc import ByteStream

import outlast
from outlast.errors import BoxError
from outlast.sandbox import Ability, Box, Found, Mount, Ref, SandboxProvider, Spec
from outlast.settings import read_settings
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap


class Bare:
    """Boxes of another provider, without mounts.

    Args:
        within: makes them.
        image: what stands in each, read-only, as programs stand in an image.
    """

    def __init__(self, within: SandboxProvider, image: Sequence[Path] = ()) -> None:
        self._within = within
        self._image = [Mount(path, str(path)) for path in image]

    @property
    def name(self) -> str:
        return self._within.name

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._within.abilities - {"mounts"}

    async def check(self) -> Sequence[str]:
        return await self._within.check()

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[Box]:
        if spec.mounts:
            raise BoxError(box=spec.name, reason="it cannot have directories of the worker's machine.")
        async with self._within.attach(replace(spec, mounts=self._image), fence, ref) as box:
            yield box

    async def dial(self, ref: Ref) -> ByteStream:
        return await self._within.dial(ref)

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]:
        return await self._within.list(labels)

    async def destroy(self, ref: Ref) -> None:
        await self._within.destroy(ref)


def bare_bubblewrap(data: Path) -> SandboxProvider:
    return Bare(Bubblewrap(data))


def with_programs(data: Path) -> SandboxProvider:
    """With the programs of harnesses, and ours, where they are here: as from one image for workers and boxes."""
    harnesses = [one for one in read_settings().harnesses.glob("*") if one.is_dir()]
    return Bare(Bubblewrap(data), [*harnesses, Path(sys.prefix), Path(outlast.__file__).parents[1]])


def bring(folder: Path) -> Path:
    """What an installed package would be that brings `with_programs` as the provider `bare`. To be put on the path."""
    there = folder / "brought" / "bare-1.dist-info"
    there.mkdir(parents=True)
    (there / "METADATA").write_text("Metadata-Version: 2.1\nName: bare\nVersion: 1\n")
    (there / "entry_points.txt").write_text(f"[outlast.sandboxes]\nbare = {__name__}:with_programs\n")
    return there.parent
