"""The files of a directory in a box, for a drive that is not on its machine. Runs as a job; Python 3.9 alone.

    python3 -I -S -c … DIRECTORY scan            what is in it
    python3 -I -S -c … DIRECTORY read            the contents of the files that standard input names
    python3 -I -S -c … DIRECTORY apply           make the changes that standard input says

What goes in and out are messages: four bytes of length, four of the length of what follows it, a map as JSON, bytes.
Names are text with `surrogateescape`. The last message out is `{"end": 1}` or `{"error": …}`. No verb follows a link
below the directory.
"""

# ruff: noqa: PTH208
# pathlib would double the start-up time.

from __future__ import annotations

import json
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PIECE = 1 << 20
_DEEPEST = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def tell(said: dict[str, Any], data: bytes = b"") -> None:
    """One message out."""
    head = json.dumps(said).encode()
    rest = memoryview(len(head).to_bytes(4, "big") + len(data).to_bytes(4, "big") + head + data)
    while rest:
        rest = rest[os.write(1, rest) :]


def asked() -> Iterator[tuple[dict[str, Any], bytes]]:
    """The messages in, until standard input ends."""
    with os.fdopen(0, "rb") as source:
        while head := source.read(8):
            said = json.loads(source.read(int.from_bytes(head[:4], "big")))
            yield said, source.read(int.from_bytes(head[4:], "big"))


def above(root: int, path: str) -> tuple[int, str]:
    """A descriptor of the directory that a path is in, and its name there."""
    *parents, name = path.split("/")
    fd = os.dup(root)
    for parent in parents:
        try:
            inner = os.open(parent, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd, name


def seen(path: str, found: os.stat_result) -> dict[str, Any]:
    """What is said of a file."""
    times = [found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size]
    return {"path": path, "kind": "file", "mode": found.st_mode & 0o7777, "key": times}


def scan(fd: int, path: str, depth: int = 1) -> None:
    """Tell what is in a directory, each directory before what is in it."""
    for name in sorted(os.listdir(fd)):
        at = f"{path}/{name}" if path else name
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(name, dir_fd=fd)
            tell(
                {"path": at, "kind": "link", "mode": 0, "key": [found.st_mtime_ns, 0, 0, 0], "target": target}
            )
        elif stat.S_ISREG(found.st_mode):
            tell(seen(at, found))
        elif stat.S_ISDIR(found.st_mode) and depth < _DEEPEST:
            tell(
                {
                    "path": at,
                    "kind": "dir",
                    "mode": found.st_mode & 0o7777,
                    "key": [found.st_mtime_ns, 0, 0, 0],
                }
            )
            inner = opened(fd, name, found)
            try:
                scan(inner, at, depth + 1)
            finally:
                closed(fd, name, inner, found)
        else:
            tell({"path": at, "kind": "other", "mode": 0, "key": [0, 0, 0, 0]})


def opened(fd: int, name: str, found: os.stat_result) -> int:
    """A directory, made readable where its owner may not look into it."""
    if found.st_mode & 0o700 != 0o700:
        os.chmod(name, found.st_mode & 0o7777 | 0o700, dir_fd=fd)
    return os.open(name, _DIRECTORY, dir_fd=fd)


def closed(fd: int, name: str, inner: int, found: os.stat_result) -> None:
    """As it was before `opened`."""
    os.close(inner)
    if found.st_mode & 0o700 != 0o700:
        os.chmod(name, found.st_mode & 0o7777, dir_fd=fd)


def read(root: int, path: str) -> None:
    """Tell a file's content; nothing where there is no file."""
    try:
        fd, name = above(root, path)
        try:
            inner = os.open(name, _FILE, dir_fd=fd)
        finally:
            os.close(fd)
    except OSError:
        return
    with os.fdopen(inner, "rb") as file:
        if not stat.S_ISREG(os.fstat(inner).st_mode):
            return
        while len(data := file.read(PIECE)) == PIECE:
            tell({"path": path}, data)
        tell({"path": path, "now": seen(path, os.fstat(inner))}, data)


def take(root: int, step: dict[str, Any], data: bytes) -> None:
    """Make one change."""
    fd, name = above(root, step["path"])
    try:
        do = step["do"]
        if do == "remove":
            remove(fd, name)
        elif do == "dir":
            os.mkdir(name, 0o700, dir_fd=fd)
        elif do == "link":
            os.symlink(data, name, dir_fd=fd)
            os.utime(name, ns=(step["mtime_ns"], step["mtime_ns"]), dir_fd=fd, follow_symlinks=False)
        elif do == "meta":
            inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.fchmod(inner, step["mode"])
            os.utime(inner, ns=(step["mtime_ns"], step["mtime_ns"]))
            os.close(inner)
        else:
            write(fd, name, data, fresh=do == "file")
    finally:
        os.close(fd)


def write(fd: int, name: str, data: bytes, *, fresh: bool) -> None:
    """Begin a file anew, or add to it."""
    if fresh:
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            fresh = True
    how = os.O_CREAT | os.O_EXCL if fresh else os.O_APPEND
    inner = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600, dir_fd=fd)
    with os.fdopen(inner, "wb") as file:
        file.write(data)


def remove(fd: int, name: str) -> None:
    """Whatever stands there, with all below."""
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=fd)
        return
    inner = opened(fd, name, found)
    try:
        for one in os.listdir(inner):
            remove(inner, one)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=fd)


def main(directory: str, verb: str) -> None:
    """Run with this process's arguments."""
    try:
        root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if verb == "scan":
            tell({"looked_ns": time.time_ns()})
            scan(root, "")
        for said, data in asked() if verb != "scan" else ():
            if verb == "read":
                read(root, said["path"])
            else:
                take(root, said, data)
        tell({"end": 1})
    except OSError as wrong:
        tell({"error": f"{wrong.strerror} {wrong.filename or ''}".strip()})


if __name__ == "__main__":
    main(*sys.argv[1:])
