"""The files of a directory of this machine (`outlast.workspace.Files`)."""

import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from anyio import to_thread

from outlast.drive import Entry
from outlast.errors import FileMissing, PathRefused, WorkspaceError
from outlast.ids import new_id

T = TypeVar("T")
READ_LIMIT: Final = 512 * 1024 * 1024
"""Bytes of a file that is read whole."""


class HostFiles:
    """Whatever a path leads to must lie below the directory, links followed. Against a slip, not against an enemy."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def read(self, path: str) -> bytes:
        return await self._do(path, _read)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self._do(path, lambda at: _write(at, data, mode), itself=False)

    async def find(self, path: str) -> Entry | None:
        return await self._do(path, lambda at: _entry(self._name(path), at), followed=False)

    async def list(self, path: str) -> Sequence[Entry]:
        return await self._do(path, lambda at: _list(self._name(path), at))

    async def remove(self, path: str) -> None:
        await self._do(path, _remove, followed=False, itself=False)

    def _name(self, path: str) -> str:
        """A path as entries have it."""
        name = posixpath.relpath(posixpath.join(self._root, path), self._root)
        return "" if name == "." else name

    async def _do(
        self, path: str, what: Callable[[Path], T], *, followed: bool = True, itself: bool = True
    ) -> T:
        def done() -> T:
            with _said(path):
                at = self._real(path, followed=followed)
                if not itself and os.path.normpath(at) == os.path.realpath(self._root):
                    raise ValueError("It is the workspace itself; name what is in it")
                return what(at)

        return await to_thread.run_sync(done)

    def _real(self, path: str, *, followed: bool) -> Path:
        at = self._root / path
        real = Path(os.path.realpath(at if followed else at.parent))
        real = real if followed else real / at.name
        if not Path(os.path.normpath(real)).is_relative_to(os.path.realpath(self._root)):
            raise PathRefused(path=path, cwd=self._root)
        return real


@contextmanager
def _said(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileMissing(path=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise WorkspaceError(detail=f"{path}: {reason}.") from error


def _read(at: Path) -> bytes:
    # Not blocking: a pipe to which nobody writes would hold a thread for ever.
    with open(at, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("It is no file")
        if found.st_size > READ_LIMIT:
            raise ValueError(f"It has {found.st_size:,} bytes, more than {READ_LIMIT:,}")
        return file.read()


def _write(at: Path, data: bytes, mode: int | None) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    new = at.with_name(f".{new_id('new')}")
    try:
        new.write_bytes(data)
        if mode is not None:
            new.chmod(mode)
        elif at.exists():
            shutil.copymode(at, new)
        new.replace(at)
    finally:
        new.unlink(missing_ok=True)


def _entry(path: str, at: Path) -> Entry | None:
    try:
        found = at.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode, mtime_ns = stat.S_IMODE(found.st_mode), found.st_mtime_ns
    if stat.S_ISLNK(found.st_mode):
        return Entry(path, "link", mode, mtime_ns=mtime_ns, target=str(at.readlink()))
    if stat.S_ISDIR(found.st_mode):
        return Entry(path, "dir", mode, mtime_ns=mtime_ns)
    return Entry(path, "file", mode, found.st_size, mtime_ns)


def _list(path: str, at: Path) -> Sequence[Entry]:
    below = ((f"{path}/{name}" if path else name, at / name) for name in sorted(os.listdir(at)))  # noqa: PTH208 - names
    found = [_entry(name, one) for name, one in below]
    return [entry for entry in found if entry is not None]


def _remove(at: Path) -> None:
    if at.is_dir() and not at.is_symlink():
        shutil.rmtree(at)
    else:
        at.unlink()
