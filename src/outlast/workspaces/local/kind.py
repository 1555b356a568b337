"""Opens directories of this machine: not isolated, and written down so that a turn can be undone."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from outlast.drive import Capture
from outlast.errors import BadInput, WorkspaceError
from outlast.logs import logger
from outlast.tracing import COLLECTOR_KEYS
from outlast.workspace import Command, Files, Ran, Stay
from outlast.workspaces.drive import Drive, Folder
from outlast.workspaces.local import commands
from outlast.workspaces.local.extent import Extent, measured
from outlast.workspaces.local.files import HostFiles
from outlast.workspaces.runs import Runs

if TYPE_CHECKING:  # an adapter names workspaces
    from outlast.adapter import Processes

DRIVES: Final = "drives"
OWN: Final = "OUTLAST_"
"""Begins the names of variables that are outlast's own: commands get none of them."""

log = logger("outlast.workspaces")


class LocalKind:
    """See `outlast.workspace.Kind`."""

    @asynccontextmanager
    async def open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator["LocalSite"]:
        path = reference.get("path")
        if not isinstance(path, str) or not path:
            raise BadInput(detail="The reference of a local workspace has no path.")
        directory = Path(path)
        if not await to_thread.run_sync(directory.is_dir):
            raise WorkspaceError(detail=f"The directory {path} of this session is not there any more.")
        yield LocalSite(directory, stay)

    async def forget(self, reference: Mapping[str, Any], folder: str, data: Path) -> None:
        await to_thread.run_sync(lambda: rmtree(data / DRIVES / folder, ignore_errors=True))


class LocalSite:
    """See `outlast.workspace.Site`. Its files are there without us; what is written down is what an undo needs."""

    def __init__(self, directory: Path, stay: Stay) -> None:
        self._directory = directory
        self._stay = stay
        self._root = stay.root
        self._drive = Drive(stay.packs, stay.tenant, put=stay.put)
        self._runs = Runs()

    @property
    def cwd(self) -> str:
        return str(self._directory)

    @property
    def files(self) -> Files:
        return HostFiles(self._directory)

    @property
    def processes(self) -> "Processes":
        return self._stay.processes

    @property
    def hosts_programs(self) -> bool:
        return True

    @property
    def lasts(self) -> bool:
        """See `outlast.workspace.Lasts`; who brings files back is the user, between turns."""
        return True

    async def run(self, command: Command) -> Ran:
        env = {
            name: value for name, value in os.environ.items() if not name.startswith((OWN, *COLLECTOR_KEYS))
        }
        return await self._runs.run(
            command, lambda: commands.run(command, self._stay.processes, self._directory, env)
        )

    async def knows(self, job: str) -> bool | None:
        # Of another attempt's it is not known: it ended with its worker, at whatever it was about.
        return True if self._runs.has(job) else None

    async def capture(self) -> Capture | None:
        extent = await to_thread.run_sync(measured, self._directory)
        if isinstance(extent, str):
            log.warning("session %s: its files are not kept for an undo: %s", self._stay.session, extent)
            return None
        async with self._runs.still():
            capture = await self.folder(extent).checkpoint(self._root)
        self._root = capture.root
        return capture

    def captured(self, root: str) -> None:
        self._drive.captured(root)

    def folder(self, extent: Extent) -> Folder:
        """The directory but for what is left out."""
        cache = self._stay.data / DRIVES / self._stay.folder / "known"
        cache.parent.mkdir(parents=True, exist_ok=True)
        return Folder(self._drive, self._directory, cache, skips=extent.skips)
