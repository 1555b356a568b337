"""Opens virtual workspaces."""

import base64
import binascii
import posixpath
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from outlast.clock import Clock, SystemClock
from outlast.errors import BadInput, WorkspaceError
from outlast.groups import task_group
from outlast.workspace import Site, Stay
from outlast.workspaces.drive.tree import Drive
from outlast.workspaces.virtual.description import MEMORY_BYTES
from outlast.workspaces.virtual.keeping import Kept
from outlast.workspaces.virtual.site import VirtualSite
from outlast.workspaces.virtual.wire import Piece


class Reference(msgspec.Struct, frozen=True):
    """What stands in a session's first record."""

    checkpoint: str = "call"
    memory_bytes: int = MEMORY_BYTES
    files: dict[str, str] = {}
    """Base 64, by path."""


class VirtualKind:
    """See `outlast.workspace.Kind`. Nothing of it is kept on any machine."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def open(self, reference: Mapping[str, Any], stay: Stay) -> AbstractAsyncContextManager[Site]:
        return self._open(reference, stay)

    async def forget(self, reference: Mapping[str, Any], folder: str, data: Path) -> None:
        """Nothing: its files end with the log."""

    @asynccontextmanager
    async def _open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator[Site]:
        if find_spec("bashkit") is None:
            raise WorkspaceError(
                detail="A virtual workspace needs a package that is not installed. "
                "Install it with: pip install 'outlast[virtual]'"
            )
        read, files = self._read(reference)
        kept = Kept(Drive(stay.packs, stay.tenant, put=stay.put), stay.root, stay.aside)
        if not stay.root and not stay.aside:  # nothing was ever written down
            kept.took(files, (), None)
        async with task_group() as tasks:
            site = VirtualSite(stay, kept, read.memory_bytes, tasks)
            try:
                yield site
            finally:
                await site.close()

    def _read(self, reference: Mapping[str, Any]) -> tuple[Reference, list[Piece]]:
        mtime_ns = int(self._clock.now()) * 1_000_000_000
        try:
            read = msgspec.convert(reference, Reference)
            found = {
                path: Piece(path, "file", 0o644, mtime_ns, base64.b64decode(text, validate=True))
                for path, text in read.files.items()
            }
        except (msgspec.ValidationError, binascii.Error) as error:
            raise BadInput(detail=f"The workspace of the session cannot be read: {error}.") from None
        above = {parent for path in found for parent in _parents(path)}
        return read, [*(Piece(path, "dir", 0o755, mtime_ns) for path in sorted(above)), *found.values()]


def _parents(path: str) -> list[str]:
    parents: list[str] = []
    while path := posixpath.dirname(path):
        parents.append(path)
    return parents
