"""The files of a box, for whoever is outside."""

# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH112, PTH115, PTH118, PTH119, PTH120, PTH208
# pathlib would double the start-up time.

from __future__ import annotations

import errno
import os
import stat

from outlast.workspaces.sandbox.inside.jobs import Refusal
from outlast.workspaces.sandbox.inside.wire import PIECE

_LISTED = 2_000
_LISTED_BYTES = 512 * 1024
"""Of names and what links lead to: texts of a frame take four times as much at most."""
_LISTED_EACH = 64
_MOST_LISTED = 100_000
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def read(path: str, offset: int) -> dict[str, object]:
    """A piece of a file, and what tells whether the next one is of the same."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Refusal("refused", f"{path} is no file")
        data = os.pread(fd, PIECE, offset)
    finally:
        os.close(fd)
    same = f"{found.st_dev}-{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
    return {"data": data, "same": same, "size": found.st_size}


def write(path: str, data: bytes, offset: int, end: int, mode: int, token: str) -> dict[str, object]:
    """A piece of what a file is to be; with `end`, it is put in its place, whole."""
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    _make(directory)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    aside = os.path.join(directory, f".{os.path.basename(path)[:100]}.{token}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(aside, flags | (os.O_TRUNC if offset == 0 else 0), 0o600)
    try:
        _check_there(fd, path, offset)
        while data:
            written = os.pwrite(fd, data, offset)
            data, offset = data[written:], offset + written
        if end:
            os.fchmod(fd, mode)
            os.rename(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    finally:
        os.close(fd)
    return {}


def _make(directory: str) -> None:
    """With those above it. `os.makedirs` calls itself for each, and a path may have more than Python lets it."""
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for one in reversed(missing):
        if not os.path.isdir(one):  # somebody may have been faster
            os.mkdir(one)


def _check_there(fd: int, path: str, offset: int) -> None:
    if os.fstat(fd).st_size < offset:
        raise Refusal("refused", f"what was written of {path} is gone")


def find(path: str) -> dict[str, object]:
    """What is at `path`, links not followed; nothing where nothing is."""
    try:
        return {"entry": _entry(path, os.lstat(path))}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def list_(path: str, after: str) -> dict[str, object]:
    """What is in a directory behind the name `after`, by name, so much as fits; `more` if that is not all."""
    names = os.listdir(path)
    if len(names) > _MOST_LISTED:
        raise Refusal(
            "refused", f"{path} holds {len(names)} names, too many to be listed: look at it with a program"
        )
    names = sorted(name for name in names if name > after)
    entries: list[object] = []
    size = 0
    for count, name in enumerate(names):
        if count == _LISTED or size > _LISTED_BYTES:
            return {"entries": entries, "more": 1, "last": after}
        at, after = os.path.join(path, name), name
        try:
            entry = _entry(at, os.lstat(at))
        except FileNotFoundError:
            continue  # gone since
        entries.append([name, *entry])
        size += len(name) + len(str(entry[-1])) + _LISTED_EACH
    return {"entries": entries, "more": 0, "last": after}


def remove(path: str) -> dict[str, object]:
    """A file, a link, or a directory with all that is in it."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return {}
    moved = 0
    while names := os.listdir(path):
        for name in names:
            at = os.path.join(path, name)
            if not stat.S_ISDIR(os.lstat(at).st_mode):
                os.unlink(at)
                continue
            for below in os.listdir(at):
                inner = os.path.join(at, below)
                if stat.S_ISDIR(os.lstat(inner).st_mode):
                    # Up, so that nothing is ever deep: neither a path nor what calls itself has an end to it here.
                    moved += 1
                    os.rename(inner, os.path.join(path, f".outlast-removed-{moved}"))
                else:
                    os.unlink(inner)
            os.rmdir(at)
    os.rmdir(path)
    return {}


def _entry(path: str, found: os.stat_result) -> list[object]:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    target = os.readlink(path) if kind == "link" else ""
    size = found.st_size if kind == "file" else 0
    return [kind, stat.S_IMODE(found.st_mode), size, found.st_mtime_ns, target]
