"""A directory of this machine as the entries of a tree.

**Nothing outside is ever read.** Whoever works in the directory may swap a name for a link at any moment. So each
directory is opened by its name within the one above, as what it is (`O_NOFOLLOW`), and each file likewise; no path of
more than one name is handed to the system.

**What is half written is noticed.** A file's stat is taken before and after it is read; if it changed, it is read
again, and if it goes on changing, it is taken as it was read last and not remembered.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from errno import ELOOP, ENOENT, ENOTDIR
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG, S_ISSOCK
from typing import Final

from outlast.clock import Clock
from outlast.errors import WorkspaceError
from outlast.ids import ContentHash
from outlast.workspaces.drive.building import Builder, as_directory
from outlast.workspaces.drive.format import (
    DEPTH_LIMIT,
    DIR,
    DIR_MODES,
    ENTRIES_LIMIT,
    FILE,
    FILE_MODES,
    LINK,
    NAME_LIMIT,
    NOWHERE,
    PIECE,
    Item,
    Piece,
    Place,
    is_target,
    kept_time,
    shown,
)
from outlast.workspaces.drive.opening import entries_of, looked_into, open_file, read_up_to
from outlast.workspaces.drive.statcache import Known, Line, StatKey, is_racy, stat_key

BYTES_LIMIT: Final = 64 << 30
"""Of all files. One file with a hole in it may say that it has a million times as many."""
SAID_LIMIT: Final = 100
"""Paths that are named, of those that changed and of those that are left out."""
_TRIES: Final = 4
_SECOND_NS: Final = 1_000_000_000
_KINDS: Final[Sequence[tuple[Callable[[int], bool], str]]] = (
    (S_ISSOCK, "a socket"),
    (S_ISFIFO, "a pipe"),
    (S_ISBLK, "a device"),
    (S_ISCHR, "a device"),
)


@dataclass(slots=True)
class Listing:
    """What is in a directory."""

    items: list[Item] = field(default_factory=list[Item])
    below: list[tuple[Item, "Listing"]] = field(default_factory=list[tuple[Item, "Listing"]])
    """Its directories: name, mode and time."""


class Scanner:
    """Reads a directory. Works in a thread of its own."""

    def __init__(self, known: Known, builder: Builder, clock: Clock) -> None:
        self._known = known
        self._builder = builder
        self._clock = clock
        self.check: Callable[[], object] = int
        """Called for each directory: raises where nobody waits any more."""
        self.skips: Callable[[bytes], bool] | None = None
        self.old_pieces: Callable[[Item], Sequence[Piece]] | None = None
        """Reads the list of pieces of a file of the tree before."""
        self.found = Known("")
        self._left = [BYTES_LIMIT, ENTRIES_LIMIT]
        """Bytes and entries that may still come."""
        self.left_out: list[str] = []
        """Paths that the tree cannot hold, and why; the first 100."""
        self.changed: list[str] = []
        """Paths that are not as they were known; the first 100."""

    @property
    def pieces(self) -> dict[bytes, list[Piece]]:
        """The pieces of large files of the tree before, as far as they are known."""
        return self._known.large

    def scan(self, directory: int) -> Listing:
        """All that is in an open directory.

        Raises:
            OSError
        """
        return self._directory(directory, b"", 0)

    def _directory(self, fd: int, path: bytes, depth: int) -> Listing:
        self.check()
        listing, lines = Listing(), dict[bytes, Line]()
        old = self._known.dirs.get(path, {})
        self.found.dirs[path] = lines
        looked_ns = int(self._clock.now() * _SECOND_NS)
        for name, stat in entries_of(fd):
            at = path + b"/" + name if path else name
            if self.skips is not None and self.skips(at):
                continue
            self._count(stat)
            if len(name) > NAME_LIMIT:  # as some file systems have them
                self._leave_out(at, f"its name has more than {NAME_LIMIT} bytes")
                continue
            if S_ISDIR(stat.st_mode):
                line = self._below(fd, at, depth, listing)
            elif S_ISREG(stat.st_mode):
                line = self._file(fd, at, stat, old.get(name), looked_ns)
            else:
                line = self._other(fd, at, name, stat)
            if line is not None:
                lines[name] = line
        listing.items = [item for _, item in lines.values() if item.kind != DIR]
        self._compare(path, old, lines)
        return listing

    def _count(self, stat: os.stat_result) -> None:
        self._left[0] -= stat.st_size if S_ISREG(stat.st_mode) else 0
        self._left[1] -= 1
        if min(self._left) < 0:
            raise WorkspaceError(
                detail=f"The workspace holds more than {BYTES_LIMIT >> 30} GB, or more than {ENTRIES_LIMIT:,} entries, "
                "and so cannot be written down. Remove what need not be kept."
            )

    def _compare(self, path: bytes, old: Mapping[bytes, Line], lines: Mapping[bytes, Line]) -> None:
        for name, line in lines.items():
            before = old.get(name)
            if before is not line and (before is None or not _same(before[1], line[1])):
                self._say(path + b"/" + name if path else name)
        for name in old.keys() - lines.keys():
            self._say(path + b"/" + name if path else name)

    def _below(self, fd: int, at: bytes, depth: int, listing: Listing) -> Line | None:
        name = at.rpartition(b"/")[2]
        if depth >= DEPTH_LIMIT - 1:
            self._leave_out(at, f"nested deeper than {DEPTH_LIMIT}")
            return None
        try:
            with looked_into(fd, name) as (inner, mode):
                below = self._directory(inner, at, depth + 1)
                mtime_ns = kept_time(os.fstat(inner).st_mtime_ns)
        except PermissionError:
            self.found.dirs.pop(at, None)
            self._leave_out(at, "may not be read")
            return None
        except OSError as error:
            if error.errno not in {ENOENT, ENOTDIR, ELOOP}:
                raise
            return None  # gone, or no directory any more
        item = as_directory(name, mode & DIR_MODES, mtime_ns, None)
        listing.below.append((item, below))
        return None, item

    def _other(self, fd: int, at: bytes, name: bytes, stat: os.stat_result) -> Line | None:
        if not S_ISLNK(stat.st_mode):
            self._leave_out(at, next((word for test, word in _KINDS if test(stat.st_mode)), "unknown"))
            return None
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError:
            return None
        if not is_target(target):
            self._leave_out(at, "its target is too long")
            return None
        return None, Item(LINK, name, 0, kept_time(stat.st_mtime_ns), len(target), 1, target, NOWHERE)

    def _file(
        self, fd: int, at: bytes, stat: os.stat_result, old: Line | None, looked_ns: int
    ) -> Line | None:
        key = stat_key(stat)
        if old is not None and old[0] == key:
            return old
        name = at.rpartition(b"/")[2]
        try:
            opened = open_file(fd, name)
        except PermissionError:
            self._leave_out(at, "may not be read")
            return None
        except OSError:
            return None
        try:
            read = self._read(opened, name, None if old is None else old[1])
        finally:
            os.close(opened)
        if read is None:
            return None
        steady, item = read
        return (None if steady is None or is_racy(steady[2], looked_ns) else steady), item

    def _read(self, fd: int, name: bytes, old: Item | None) -> tuple[StatKey | None, Item] | None:
        """The file, and its stat if it stood still while it was read; None: it is no file."""
        for last in (False,) * (_TRIES - 1) + (True,):
            stat = os.fstat(fd)
            if not S_ISREG(stat.st_mode):
                return None
            os.lseek(fd, 0, os.SEEK_SET)
            size, digest, place = self._content(fd, stat.st_size, old)
            after = os.fstat(fd)
            steady = stat_key(stat) == stat_key(after) and size == after.st_size
            if steady or last:
                mode, mtime_ns = after.st_mode & FILE_MODES, kept_time(after.st_mtime_ns)
                item = Item(FILE, name, mode, mtime_ns, size, 1, digest, place)
                return (stat_key(after) if steady else None), item
        return None

    def _content(self, fd: int, size: int, old: Item | None) -> tuple[int, bytes, Place]:
        """Store the first `size` bytes of a file, as far as it has them: how many, their digest, their place."""
        if size <= PIECE:
            data = read_up_to(fd, size)
            return len(data), *self._builder.whole(data, {})
        if old is not None and old.kind == FILE and old.size > PIECE and old.digest not in self._known.large:
            self._recall(old)
        whole, pieces, came = ContentHash(), list[Piece](), 0
        while came < size:
            self.check()
            wanted = min(PIECE, size - came)
            data = read_up_to(fd, wanted)
            if data:
                whole.update(data)
                pieces.append(self._builder.piece(data))
            came += len(data)
            if len(data) < wanted:  # it was cut: whatever it has by now, only the last piece is a short one
                break
        if len(pieces) < 2:  # it was cut meanwhile, and will be read again
            return came, whole.digest(), pieces[0].place if pieces else NOWHERE
        digest = whole.digest()
        self.found.large[digest] = pieces
        return came, digest, self._builder.large(digest, pieces)

    def _recall(self, old: Item) -> None:
        """Know the pieces of a file as the tree before has it: it may have changed in one of them."""
        if self.old_pieces is not None and old.place.pack:
            pieces = self._known.large[old.digest] = list(self.old_pieces(old))
            self._builder.know([(piece.digest, piece.place) for piece in pieces])

    def _leave_out(self, at: bytes, why: str) -> None:
        if len(self.left_out) < SAID_LIMIT:
            self.left_out.append(f"{shown(at)}: {why}")

    def _say(self, at: bytes) -> None:
        if len(self.changed) < SAID_LIMIT:
            self.changed.append(shown(at))


def build(listing: Listing, builder: Builder) -> Item | None:
    """The uppermost node of what was listed, all of which is stored by then; None: nothing was."""
    items = list(listing.items)
    for item, below in listing.below:
        items.append(as_directory(item.name, item.mode, item.mtime_ns, build(below, builder)))
    items.sort(key=_by_name)
    return builder.directory(items)


def _by_name(item: Item) -> bytes:
    return item.name


def _same(one: Item, other: Item) -> bool:
    """Whether nothing but times, and what is below, is different."""
    if (one.kind, one.mode) != (other.kind, other.mode):
        return False
    return one.kind == DIR or one.digest == other.digest
