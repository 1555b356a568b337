"""The files of a workspace in a box (`outlast.workspace.Files`)."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from outlast.drive import Entry
from outlast.errors import PathRefused, WorkspaceError
from outlast.sandbox import Box

_MODE: Final = 0o644
_LINKS: Final = 40
"""Links that are followed on the way to one file."""


class BoxFiles:
    """What a path leads to must lie in the workspace, links followed. Beyond it there is the box, and no more."""

    def __init__(self, box: Box, cwd: str) -> None:
        self._box = box
        self._cwd = cwd

    async def read(self, path: str) -> bytes:
        return await self._box.read(await self._real(path))

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        at = self._in_it(await self._real(path), path)
        if mode is None:
            there = await self._box.stat(at)
            mode = there.mode if there is not None and there.kind == "file" else _MODE
        await self._box.write(at, data, mode=mode)

    async def find(self, path: str) -> Entry | None:
        found = await self._box.stat(await self._real(path, last=False))
        return None if found is None else replace(found, path=self._name(path))

    async def list(self, path: str) -> Sequence[Entry]:
        name = self._name(path)
        found = await self._box.list(await self._real(path))
        return [
            replace(one, path=posixpath.join(name, posixpath.basename(one.path.rstrip("/")))) for one in found
        ]

    async def remove(self, path: str) -> None:
        await self._box.remove(self._in_it(await self._real(path, last=False), path))

    def _in_it(self, at: str, said: str) -> str:
        if at == self._cwd:
            raise WorkspaceError(detail=f"{said}: It is the workspace itself; name what is in it.")
        return at

    def _name(self, path: str) -> str:
        """A path as entries have it: below the workspace."""
        name = posixpath.relpath(posixpath.join(self._cwd, path), self._cwd)
        return "" if name == "." else name

    async def _real(self, path: str, *, last: bool = True) -> str:
        """Where a path leads to; with `last` also where it ends in a link."""
        at = self._within(path, path)
        for _ in range(_LINKS):
            link = await self._first_link(at, last=last)
            if link is None:
                return at
            above, target, rest = link
            at = self._within(posixpath.join(above, target, rest), path)
        raise WorkspaceError(detail=f"{path}: too many links.")

    async def _first_link(self, at: str, *, last: bool) -> tuple[str, str, str] | None:
        names = posixpath.relpath(at, self._cwd).split("/")
        for count in range(1, len(names) + (1 if last else 0)):
            here = posixpath.join(self._cwd, *names[:count])
            found = await self._box.stat(here)
            if found is None:
                return None
            if found.kind == "link":
                return posixpath.dirname(here), found.target, "/".join(names[count:])
        return None

    def _within(self, path: str, said: str) -> str:
        at = posixpath.normpath(posixpath.join(self._cwd, path))
        if at != self._cwd and not at.startswith(f"{self._cwd}/"):
            raise PathRefused(path=said, cwd=self._cwd)
        return at
