"""Files below a directory in which somebody else writes at the same time, and may mean harm.

A session's HOME is such a directory: what runs in a sandbox may put a link where a harness keeps its conversation,
which leads to the keys of whoever runs the worker. The worker, which is outside, would follow it. So what it reads and
writes there goes through here.

Invariant: no link is followed, neither on the way nor at its end, whenever it is put there; nothing but regular files
is opened, so that no pipe holds up whoever reads; and no more is read than was asked for.
"""

# ruff: noqa: PTH101, PTH208
# pathlib knows no directories by descriptors.

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final

from outlast.errors import HarnessError

READ_LIMIT: Final = 64 * 1024 * 1024
"""Bytes that are read of one file at a time."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MINE: Final = 0o700
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Beneath:
    """What lies below `root`. Names are relative to it, or paths that begin with it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str | PurePath, *, offset: int = 0, most: int = READ_LIMIT) -> bytes:
        """A file's bytes from `offset` on, `most` of them.

        Raises:
            FileNotFoundError: nothing is there.
            HarnessError: what is there is no regular file, or is reached through a link.
        """
        with self.opened(name) as fd:
            os.lseek(fd, offset, os.SEEK_SET)
            pieces: list[bytes] = []
            while most > 0 and (piece := os.read(fd, min(most, 1 << 20))):
                pieces.append(piece)
                most -= len(piece)
        return b"".join(pieces)

    def find(self, name: str | PurePath) -> os.stat_result | None:
        """What is known of a regular file; None: there is none."""
        try:
            with self.opened(name) as fd:
                return os.fstat(fd)
        except FileNotFoundError:
            return None

    @contextmanager
    def opened(self, name: str | PurePath) -> Generator[int]:
        """A descriptor for reading. Raises as `read` does."""
        with self._above(name) as (above, last):
            try:
                fd = os.open(last, _READ, dir_fd=above)
            except OSError as error:
                raise self._odd(name, error) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise self._no_file(name)
            yield fd
        finally:
            os.close(fd)

    def write(self, name: str | PurePath, data: bytes) -> None:
        """Put a new file in its place, for this user only, with the directories above it. What was there is gone.

        Raises:
            OSError: it cannot be written.
        """
        with self._above(name, make=True) as (above, last):
            _remove(above, last)
            fd = os.open(last, _WRITE, 0o600, dir_fd=above)
            with os.fdopen(fd, "wb") as file:
                file.write(data)

    def link(self, name: str | PurePath, target: Path) -> None:
        """Put a link in its place, with the directories above it. Raises OSError."""
        with self._above(name, make=True) as (above, last):
            _remove(above, last)
            os.symlink(target, last, dir_fd=above)

    def make(self, name: str | PurePath) -> None:
        """Make a directory, and those above it, for this user only; one that is there stays. Raises OSError."""
        with self._above(PurePath(name) / "_", make=True):
            pass

    def remove(self, name: str | PurePath) -> None:
        """Remove what is there, with all below it, however deep. Raises OSError."""
        with suppress(FileNotFoundError), self._above(name) as (above, last):
            _remove(above, last)

    @contextmanager
    def _above(self, name: str | PurePath, *, make: bool = False) -> Generator[tuple[int, str]]:
        """A descriptor of the directory that a name is in, and its name there."""
        *parents, last = self._parts(name)
        fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for parent in parents:
                try:
                    inner = _entered(fd, parent, make=make)
                except OSError as error:
                    raise self._odd(name, error) from error
                os.close(fd)
                fd = inner
            yield fd, last
        finally:
            os.close(fd)

    def _parts(self, name: str | PurePath) -> tuple[str, ...]:
        path = PurePath(name)
        parts = (path.relative_to(self._root) if path.is_absolute() else path).parts
        if not parts or ".." in parts:
            raise self._no_file(name)
        return parts

    def _odd(self, name: str | PurePath, error: OSError) -> Exception:
        """A link where a file or a directory should be is told as such."""
        return self._no_file(name) if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO} else error

    @staticmethod
    def _no_file(name: str | PurePath) -> HarnessError:
        reason = f"{name} is no file of its own: a link leads there, or it is something else than a file"
        return HarnessError(harness="the agent", reason=reason)


def remove_tree(path: Path) -> None:
    """Remove a directory with all below it, however deep it is and whoever writes in it; no link is followed.

    `shutil.rmtree` calls itself for each level, and gives up where Python does.

    Raises:
        OSError: something of it cannot be removed.
    """
    with suppress(FileNotFoundError):
        Beneath(path.parent).remove(path.name)


def _entered(fd: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=fd)
    except PermissionError:
        if not make:
            raise
        return _own(fd, name)
    except OSError as error:
        if not make or error.errno not in _NOT_THERE:
            raise
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)  # a link or a file, where a directory is to be
    os.mkdir(name, _MINE, dir_fd=fd)
    return os.open(name, _DIRECTORY, dir_fd=fd)


def _remove(above: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # the second is what POSIX has for a directory
        fd = _own(above, name)
        try:
            _empty(fd)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=above)


def _empty(fd: int) -> None:
    """Remove all that is in a directory. What is two levels down is moved up first, so that nothing is ever deep."""
    moved = 0
    while names := os.listdir(fd):
        for name in names:
            if not _is_directory(fd, name):
                os.unlink(name, dir_fd=fd)
                continue
            inner = _own(fd, name)
            try:
                for below in os.listdir(inner):
                    if not _is_directory(inner, below):
                        os.unlink(below, dir_fd=inner)
                        continue
                    moved += 1
                    os.close(_own(inner, below))  # to be moved, a directory must be writable itself
                    os.rename(below, f".outlast-removed-{moved}", src_dir_fd=inner, dst_dir_fd=fd)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=fd)


def _is_directory(fd: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)


def _own(above: int, name: str) -> int:
    """A directory, opened though its mode keeps its owner out."""
    try:
        if os.stat(name, dir_fd=above, follow_symlinks=False).st_mode & _MINE == _MINE:
            return os.open(name, _DIRECTORY, dir_fd=above)
        # By a descriptor: the name may be a link by now, and `chmod` would follow it.
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{found}", _MINE)
        finally:
            os.close(found)
    except PermissionError:
        pass  # it is somebody else's: opening says so
    return os.open(name, _DIRECTORY, dir_fd=above)
