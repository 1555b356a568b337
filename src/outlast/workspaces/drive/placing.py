"""A directory of this machine made equal to a tree, at the cost of what differs.

It works in three strokes, each of which may be cut off anywhere: `Placer.prepare` removes what is not in the tree and
makes directories and links; then each file that differs is written (`Placer.write`, or `begin` and `end`); at last
`Placer.finish` sets modes and times of directories, from the deepest up. **Cut off and begun again, it ends
right**: a file is left alone only if its stat is the one that was remembered with its digest, or its content has that
digest.

As in `outlast.workspaces.drive.scanning`, every name is looked up in an open directory and no link is followed.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final

from outlast.clock import Clock
from outlast.ids import ContentHash
from outlast.workspaces.drive.format import DIR, FILE, LINK, PIECE, Item, kept_time
from outlast.workspaces.drive.opening import (
    MAKE_FILE,
    OPEN_DIR,
    entries_of,
    open_file,
    open_to_all,
    opened,
    read_up_to,
    remove,
    write_all,
)
from outlast.workspaces.drive.paths import joined
from outlast.workspaces.drive.statcache import Known, Line, StatKey, is_racy, stat_key

_SECOND_NS: Final = 1_000_000_000
_ALL: Final = 0o700


class Placer:
    """Brings one directory to one tree. Works in threads, one at a time."""

    def __init__(
        self, directory: str, wanted: Mapping[bytes, Sequence[Item]], known: Known, clock: Clock
    ) -> None:
        self._directory = directory
        self._wanted = wanted
        self._known = known
        self._clock = clock
        self.skips: Callable[[bytes], bool] | None = None
        self.lines: dict[bytes, dict[bytes, Line]] = {path: {} for path in wanted}
        """What the directory holds, once it is as wanted."""
        self.missing: list[tuple[bytes, Item]] = []
        """The files that are to be written, with the path of the directory each is in."""
        self.removed = 0

    def prepare(self) -> None:
        """Remove what is not in the tree, make what needs no content, find what is missing.

        Raises:
            OSError
        """
        Path(self._directory).mkdir(parents=True, exist_ok=True)
        with opened(self._directory) as fd:
            self._prepare(fd, b"")

    def _prepare(self, fd: int, path: bytes) -> None:
        items = {item.name: item for item in self._wanted[path]}
        there: dict[bytes, os.stat_result] = {}
        for name, stat in list(entries_of(fd)):
            item = items.get(name)
            if self.skips is not None and self.skips(joined(path, name)):
                items.pop(name, None)
            elif item is not None and _kind(stat.st_mode) == item.kind:
                there[name] = stat
            else:
                self._remove(fd, path, name, stat.st_mode)
        for name, item in items.items():
            match item.kind:
                case 2:
                    self._directory_there(fd, path, item, there.get(name))
                case 1:
                    self._link_there(fd, path, item, there.get(name))
                case _:
                    self._file_there(fd, path, item, there.get(name))

    def _remove(self, fd: int, path: bytes, name: bytes, mode: int) -> None:
        """Remove what is not in the tree, but for what is not ours to touch in it."""
        self.removed += 1
        if self.skips is None or not S_ISDIR(mode):
            remove(fd, name, mode)
            return
        at, kept = joined(path, name), False
        inner = open_to_all(fd, name)
        try:
            for below, stat in list(entries_of(inner)):
                if self.skips(joined(at, below)):
                    kept = True
                else:
                    self._remove(inner, at, below, stat.st_mode)
            kept = kept or any(True for _ in entries_of(inner))
        finally:
            os.close(inner)
        if not kept:
            os.rmdir(name, dir_fd=fd)

    def _directory_there(self, fd: int, path: bytes, item: Item, stat: os.stat_result | None) -> None:
        if stat is None:
            os.mkdir(item.name, _ALL, dir_fd=fd)
        self.lines[path][item.name] = (None, item)
        inner = open_to_all(fd, item.name)
        try:
            self._prepare(inner, joined(path, item.name))
        finally:
            os.close(inner)

    def _link_there(self, fd: int, path: bytes, item: Item, stat: os.stat_result | None) -> None:
        if stat is not None and os.readlink(item.name, dir_fd=fd) != item.digest:
            os.unlink(item.name, dir_fd=fd)
            stat = None
        if stat is None:
            os.symlink(item.digest, item.name, dir_fd=fd)
        if stat is None or kept_time(stat.st_mtime_ns) != item.mtime_ns:
            os.utime(item.name, ns=(item.mtime_ns, item.mtime_ns), dir_fd=fd, follow_symlinks=False)
        self.lines[path][item.name] = (None, item)

    def _file_there(self, fd: int, path: bytes, item: Item, stat: os.stat_result | None) -> None:
        if stat is None:
            self.missing.append((path, item))
            return
        line = self._known.dirs.get(path, {}).get(item.name)
        same = line is not None and line[0] == stat_key(stat) and line[1].digest == item.digest
        same = same or (stat.st_size == item.size and self._has_content(fd, item))
        if not same or stat.st_nlink > 1:  # what has other names is not ours alone to change
            os.unlink(item.name, dir_fd=fd)
            self.missing.append((path, item))
            return
        if stat.st_mode & 0o7777 == item.mode and kept_time(stat.st_mtime_ns) == item.mtime_ns:
            self._remember(path, item, stat_key(stat))
            return
        inner = open_file(fd, item.name)
        try:
            self._settle(inner, path, item)
        finally:
            os.close(inner)

    def _has_content(self, fd: int, item: Item) -> bool:
        try:
            inner = open_file(fd, item.name)
        except OSError:
            return False
        try:
            whole = ContentHash()
            while data := read_up_to(inner, PIECE):
                whole.update(data)
            return whole.digest() == item.digest
        finally:
            os.close(inner)

    def write(self, files: Iterable[tuple[bytes, Item, bytes]]) -> None:
        """Write whole files: of each the directory's path, what it is to be, its content.

        Raises:
            OSError
        """
        for path, those in groupby(files, lambda file: file[0]):
            with opened(self._directory, path) as fd:
                for _, item, data in those:
                    inner = os.open(item.name, MAKE_FILE, 0o600, dir_fd=fd)
                    try:
                        write_all(inner, data)
                        self._settle(inner, path, item)
                    finally:
                        os.close(inner)

    def begin(self, path: bytes, item: Item) -> int:
        """Begin a large file: a descriptor to write its pieces to, and to give to `end`."""
        with opened(self._directory, path) as fd:
            return os.open(item.name, MAKE_FILE, 0o600, dir_fd=fd)

    def end(self, fd: int, path: bytes, item: Item) -> None:
        """The pieces of a large file are written."""
        self._settle(fd, path, item)

    def _settle(self, fd: int, path: bytes, item: Item) -> None:
        os.fchmod(fd, item.mode)
        os.utime(fd, ns=(item.mtime_ns, item.mtime_ns))
        self._remember(path, item, stat_key(os.fstat(fd)))

    def _remember(self, path: bytes, item: Item, key: StatKey) -> None:
        looked_ns = int(self._clock.now() * _SECOND_NS)
        self.lines[path][item.name] = (None if is_racy(key[2], looked_ns) else key, item)

    def finish(self) -> None:
        """Set modes and times of all directories below the topmost.

        Raises:
            OSError
        """
        with opened(self._directory) as fd:
            self._finish(fd, b"")

    def _finish(self, fd: int, path: bytes) -> None:
        for item in self._wanted[path]:
            if item.kind != DIR or (self.skips is not None and self.skips(joined(path, item.name))):
                continue
            inner = os.open(item.name, OPEN_DIR, dir_fd=fd)
            try:
                self._finish(inner, joined(path, item.name))
                stat = os.fstat(inner)
                if stat.st_mode & 0o7777 != item.mode:
                    os.fchmod(inner, item.mode)
                if kept_time(stat.st_mtime_ns) != item.mtime_ns:
                    os.utime(inner, ns=(item.mtime_ns, item.mtime_ns))
            finally:
                os.close(inner)


def _kind(mode: int) -> int:
    if S_ISREG(mode):
        return FILE
    if S_ISLNK(mode):
        return LINK
    return DIR if S_ISDIR(mode) else -1
