"""Names looked up one at a time, in open directories, through no link.

Whoever works in a directory may swap a name for a link at any moment. So no path of more than one name is handed to
the system, and what is opened is opened as what it was seen to be.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from stat import S_ISDIR, S_ISREG
from typing import Final

from outlast.ids import new_id

OPEN_DIR: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Not blocking: a pipe that has taken a file's name opens too, and is found out by its stat."""
MAKE_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_O_PATH: Final[int] = getattr(os, "O_PATH", 0)
_READABLE_DIR, _READABLE_FILE, _SEARCHED = 0o700, 0o400, 0o500


def open_dir(fd: int, name: bytes) -> int:
    """Open a directory in another; one of ours that its mode closes to us is opened for the moment.

    Raises:
        OSError: it is not there, no directory, or another user's.
    """
    try:
        return os.open(name, OPEN_DIR, dir_fd=fd)
    except PermissionError:
        return _opened_anyway(fd, name, OPEN_DIR, _READABLE_DIR)


def open_file(fd: int, name: bytes) -> int:
    """Open a file in a directory, to read it. As `open_dir`."""
    try:
        return os.open(name, OPEN_FILE, dir_fd=fd)
    except PermissionError:
        return _opened_anyway(fd, name, OPEN_FILE, _READABLE_FILE)


def _opened_anyway(fd: int, name: bytes, flags: int, wanted: int) -> int:
    """Let its owner read it, open it, and give it its mode back: by the inode, whatever its name has become."""
    if not _O_PATH:
        raise PermissionError(name)
    held = os.open(name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        mode, inode = os.fstat(held).st_mode, f"/proc/self/fd/{held}"
        if not S_ISDIR(mode) and not S_ISREG(mode):
            raise PermissionError(name)
        os.chmod(inode, (mode & 0o7777) | wanted)  # noqa: PTH101 - through an open descriptor
        try:
            return os.open(inode, flags & ~os.O_NOFOLLOW)
        finally:
            os.chmod(inode, mode & 0o7777)  # noqa: PTH101 - as above
    finally:
        os.close(held)


@contextmanager
def looked_into(fd: int, name: bytes) -> Generator[tuple[int, int]]:
    """A directory in another, open, and its mode. One of ours that its mode closes to us is open to us meanwhile."""
    inner = open_dir(fd, name)
    try:
        mode = os.fstat(inner).st_mode & 0o7777
        if mode & _SEARCHED == _SEARCHED:
            yield inner, mode
            return
        os.fchmod(inner, mode | _SEARCHED)
        try:
            yield inner, mode
        finally:
            os.fchmod(inner, mode)
    finally:
        os.close(inner)


def open_to_all(fd: int, name: bytes) -> int:
    """Open a directory of ours in which everything may be done from then on."""
    inner = open_dir(fd, name)
    mode = os.fstat(inner).st_mode
    if mode & _READABLE_DIR != _READABLE_DIR:
        os.fchmod(inner, (mode & 0o7777) | _READABLE_DIR)
    return inner


@contextmanager
def opened(directory: str, path: bytes = b"") -> Generator[int]:
    """A directory below `directory`, open, reached from there through no link."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.split(b"/") if path else ():
            inner = os.open(name, OPEN_DIR, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def entries_of(fd: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """What is in an open directory, with its stats. What goes while we look was not there."""
    with os.scandir(fd) as found:
        for entry in found:
            try:
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def read_up_to(fd: int, size: int) -> bytes:
    """The next `size` bytes, fewer only at the end."""
    data = os.read(fd, size)
    if len(data) == size or not data:
        return data
    parts = [data]
    size -= len(data)
    while size and (data := os.read(fd, size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def remove(fd: int, name: bytes, mode: int) -> None:
    """Remove a file, or a directory with all that is in it.

    What is in a directory's directories is brought up beside it first, so that no depth is too deep: neither for our
    stack nor for the descriptors that we may have.
    """
    if not S_ISDIR(mode):
        os.unlink(name, dir_fd=fd)
        return
    left = [name]
    while left:
        at = left.pop()
        inner = open_to_all(fd, at)
        try:
            for below, stat in list(entries_of(inner)):
                if not S_ISDIR(stat.st_mode):
                    os.unlink(below, dir_fd=inner)
                    continue
                os.close(open_to_all(inner, below))  # else it may not be moved
                left.append(f".{new_id('removed')}".encode())
                os.rename(below, left[-1], src_dir_fd=inner, dst_dir_fd=fd)
        finally:
            os.close(inner)
        os.rmdir(at, dir_fd=fd)
