"""`RemoteTree` of a directory, on the machine where it is."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import contextmanager, suppress
from stat import S_ISDIR, S_ISLNK, S_ISREG

from anyio import to_thread

from outlast.clock import Clock, SystemClock
from outlast.errors import WorkspaceError
from outlast.workspaces.drive.format import DEPTH_LIMIT, PIECE, shown
from outlast.workspaces.drive.opening import (
    MAKE_FILE,
    entries_of,
    looked_into,
    open_file,
    open_to_all,
    opened,
    read_up_to,
    remove,
    write_all,
)
from outlast.workspaces.drive.paths import joined
from outlast.workspaces.drive.remote import Chunk, Scan, Seen, Step

_SECOND_NS = 1_000_000_000
_ADD = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryTree:
    """See `outlast.workspaces.drive.remote.RemoteTree`."""

    def __init__(self, directory: str, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()

    async def scan(self) -> Scan:
        looked_ns = int(self._clock.now() * _SECOND_NS)
        with _said(self._directory):
            return Scan(looked_ns, await to_thread.run_sync(self._scan))

    def _scan(self) -> Sequence[Seen]:
        found: list[Seen] = []
        with opened(self._directory) as fd:
            _look(fd, b"", found)
        return found

    async def read(self, paths: Sequence[bytes]) -> AsyncGenerator[Chunk]:
        for path in paths:
            directory, _, name = path.rpartition(b"/")
            try:
                with opened(self._directory, directory) as above:
                    fd = open_file(above, name)
            except OSError:
                continue
            try:
                while len(data := await to_thread.run_sync(read_up_to, fd, PIECE)) == PIECE:
                    yield Chunk(path, data)
                yield Chunk(path, data, _seen(path, os.fstat(fd)))
            finally:
                os.close(fd)

    async def apply(self, steps: AsyncIterator[Step]) -> None:
        async for step in steps:
            with _said(self._directory):
                await to_thread.run_sync(self._take, step)

    def _take(self, step: Step) -> None:
        directory, _, name = step.path.rpartition(b"/")
        with opened(self._directory, directory) as fd:
            match step.do:
                case "remove":
                    remove(fd, name, os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
                case "dir":
                    os.mkdir(name, 0o700, dir_fd=fd)
                case "link":
                    os.symlink(step.data, name, dir_fd=fd)
                    os.utime(name, ns=(step.mtime_ns, step.mtime_ns), dir_fd=fd, follow_symlinks=False)
                case "file" | "more":
                    _write(fd, name, step)
                case "meta":
                    _set(fd, name, step)


def _write(fd: int, name: bytes, step: Step) -> None:
    if step.do == "file":
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
    inner = os.open(name, MAKE_FILE if step.do == "file" else _ADD, 0o600, dir_fd=fd)
    try:
        write_all(inner, step.data)
    finally:
        os.close(inner)


def _set(fd: int, name: bytes, step: Step) -> None:
    stat = os.stat(name, dir_fd=fd, follow_symlinks=False)
    inner = open_to_all(fd, name) if S_ISDIR(stat.st_mode) else open_file(fd, name)
    try:
        os.fchmod(inner, step.mode)
        os.utime(inner, ns=(step.mtime_ns, step.mtime_ns))
    finally:
        os.close(inner)


def _look(fd: int, path: bytes, found: list[Seen], depth: int = 1) -> None:
    for name, stat in entries_of(fd):
        at = joined(path, name)
        if S_ISLNK(stat.st_mode):
            found.append(Seen(at, "link", 0, stat.st_mtime_ns, target=os.readlink(name, dir_fd=fd)))
        elif S_ISREG(stat.st_mode):
            found.append(_seen(at, stat))
        elif S_ISDIR(stat.st_mode) and depth < DEPTH_LIMIT:
            with looked_into(fd, name) as (inner, mode):
                found.append(Seen(at, "dir", mode, stat.st_mtime_ns))
                _look(inner, at, found, depth + 1)
        else:
            found.append(Seen(at, "other"))


def _seen(path: bytes, stat: os.stat_result) -> Seen:
    times = stat.st_mtime_ns, stat.st_ctime_ns
    return Seen(path, "file", stat.st_mode & 0o7777, *times, stat.st_ino, stat.st_size)


@contextmanager
def _said(directory: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, bytes) else b""
        reason = f"{error.strerror or error} {shown(name)}".strip()
        raise WorkspaceError(detail=f"The files in {directory} cannot be reached: {reason}.") from error
