"""Objects in a directory, on a disk of this machine or one that several share."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from anyio import to_thread

from outlast.clock import Clock, SystemClock
from outlast.errors import WorkspaceError
from outlast.folders import make_private
from outlast.ids import new_id
from outlast.workspaces.drive.stores.objects import Held

Done = TypeVar("Done")
_UNFINISHED: Final = ".new-"
"""Begins the name of what is being written. Whoever dies then leaves one; it is removed with the next old object."""
_STALE_S: Final = 86_400.0


class DirectoryObjects:
    """One file for each object.

    It is written beside its place, flushed to the disk, and then linked to its name, which fails if that is taken.
    """

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()

    @property
    def where(self) -> str:
        return str(self._directory)

    async def find(self, key: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return await self._do(Path.read_bytes, self._directory / key)
        return None

    async def create(self, key: str, data: bytes) -> bool:
        return await self._do(_write, self._directory / key, data)

    async def list(self, prefix: str) -> AsyncIterator[Held]:
        for held in await self._do(self._listed, prefix):
            yield held

    def _listed(self, prefix: str) -> Sequence[Held]:
        found: list[Held] = []
        now = self._clock.now()
        for where, _, names in os.walk(self._directory / prefix, onerror=_unless_gone):
            for name in names:
                path = Path(where) / name
                with contextlib.suppress(FileNotFoundError):
                    age_s = now - path.stat().st_mtime
                    if not name.startswith(_UNFINISHED):
                        found.append(Held(path.relative_to(self._directory).as_posix(), age_s))
                    elif age_s > _STALE_S:
                        path.unlink()
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        await self._do(self._deleted, keys)

    def _deleted(self, keys: Sequence[str]) -> None:
        for key in keys:
            (self._directory / key).unlink(missing_ok=True)

    async def _do(self, act: Callable[..., Done], *words: Any) -> Done:
        """In a thread; what the system says becomes an error of ours, but for what is not there."""
        try:
            return await to_thread.run_sync(partial(act, *words))
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise WorkspaceError(
                detail=f"The store of a workspace's files in {self.where} cannot be used: {reason}. Give this user "
                "access to it and room in it; nothing that was recorded is lost."
            ) from error


def _unless_gone(error: OSError) -> None:
    """A directory that cannot be read is an error, and none without anything in it."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _write(path: Path, data: bytes) -> bool:
    shallow = _standing(path.parent)
    make_private(path.parent)
    fresh = path.with_name(_UNFINISHED + new_id("pack"))
    try:
        with fresh.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(fresh)
        is_new = True
    except FileExistsError:
        is_new = False  # whoever wrote it may not have come to make its name durable
    finally:
        fresh.unlink(missing_ok=True)
    for directory in (path.parent, *path.parent.parents):
        _flush(directory)
        if directory == shallow:
            break
    return is_new


def _standing(directory: Path) -> Path:
    """The nearest directory above, or itself, that is there."""
    return next(one for one in (directory, *directory.parents) if one.exists())


def _flush(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
