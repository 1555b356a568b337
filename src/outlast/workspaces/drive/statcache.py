"""What is known of a directory, so that a checkpoint looks into those files only that have changed.

For each file: size, time of change, time of change of its inode, inode number, and the digest that it had then. It is
kept in a file of its own, and never needed: one that is lost, cut or of another tree is made again by reading.

**When an unchanged stat proves an unchanged file.** A file that is written twice within one tick of its file system's
clock, once before and once after we have read it, has the same times both times. Git calls such an entry racily clean
and reads the file again where its time is not older than the index; we do the same one step earlier: a file whose
inode changed less than a tick before we looked at it (`is_racy`) is not remembered by its stat at all, and so is read
again next time. The inode's time, which no program can set, tells what the file's own time, which any can, does not.

After a reboot no stat proves anything: what was written but not yet on the disk is gone, while its times may stand. So
what was remembered in another life of the machine is read again.

Places are believed for the tree that they were remembered with and no other: packs that only an uncommitted tree
leads to may not be there.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from outlast.errors import PacksBroken
from outlast.folders import make_private
from outlast.ids import content_hash
from outlast.workspaces.drive.format import (
    Item,
    PackTable,
    Piece,
    Place,
    WireItem,
    kept_time,
    read_item,
    wire_item,
)

StatKey: TypeAlias = tuple[int, int, int, int]
"""Size, mtime (ns), ctime (ns), inode."""
Line: TypeAlias = tuple[StatKey | None, Item]
"""What stood at a name, and the stat that it had; None: no stat proves that it stands there still."""

_VERSION: Final = 1
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TICK_NS: Final = 20_000_000
"""Twice the longest tick of a kernel's clock for files."""
_COARSE_NS: Final = 2_000_000_000
"""That of file systems that keep no fractions of a second."""
_SECOND_NS: Final = 1_000_000_000


def is_racy(ctime_ns: int, looked_ns: int) -> bool:
    """Whether a file may change, after it was looked at, without its times showing it."""
    tick = _TICK_NS if ctime_ns % _SECOND_NS else _COARSE_NS
    return ctime_ns >= looked_ns - tick


def stat_key(stat: os.stat_result) -> StatKey:
    """What of a stat is different once a file was written."""
    return stat.st_size, kept_time(stat.st_mtime_ns), kept_time(stat.st_ctime_ns), stat.st_ino


@dataclass(slots=True)
class Known:
    """What is known of a directory that is, or was, the tree `root`."""

    root: str
    dirs: dict[bytes, dict[bytes, Line]] = field(default_factory=dict[bytes, dict[bytes, Line]])
    """By path, what is directly in each directory."""
    nodes: dict[bytes, Place] = field(default_factory=dict[bytes, Place])
    """The nodes of that tree, by digest."""
    large: dict[bytes, list[Piece]] = field(default_factory=dict[bytes, list[Piece]])
    """The pieces of its large files, by the digest of the whole, as far as they were looked at."""

    def contents(self) -> dict[bytes, Place]:
        """Where the contents and pieces of that tree lie, by digest."""
        places = {
            item.digest: item.place
            for lines in self.dirs.values()
            for _, item in lines.values()
            if item.kind == 0 and item.size
        }
        for pieces in self.large.values():
            places.update((piece.digest, piece.place) for piece in pieces)
        return places

    def trusting(self, older: "Known") -> "Known":
        """This, which was read from a tree, with the stats that were remembered with another tree.

        A stat says what a file's content is, whatever tree was to hold it. Where that content lies in this tree too,
        the file need not be read again.
        """
        places = self.contents()
        for path, lines in older.dirs.items():
            mine = self.dirs.setdefault(path, {})
            for name, (key, item) in lines.items():
                place = places.get(item.digest) if key is not None and item.kind == 0 else None
                if place is not None:
                    mine[name] = (key, item._replace(place=place))
        return self


_Wire: TypeAlias = tuple[
    int,
    str,
    str,
    list[str],
    list[tuple[bytes, list[tuple[StatKey | None, WireItem]]]],
    list[tuple[bytes, int, int, int]],
    list[tuple[bytes, list[tuple[bytes, int, int, int]]]],
]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Wire)


def save(known: Known, file: Path) -> None:
    """Write it down, whole or not at all. Nothing waits for the disk: what is lost is made again.

    So where there is no room for it nothing is written, and nobody's files go without their checkpoint for that.
    """
    table = PackTable()
    dirs = [
        (path, [(key, wire_item(item, table)) for key, item in lines.values()])
        for path, lines in known.dirs.items()
    ]
    nodes = [(digest, *_wire_place(place, table)) for digest, place in known.nodes.items()]
    large = [
        (digest, [(piece.digest, *_wire_place(piece.place, table)) for piece in pieces])
        for digest, pieces in known.large.items()
    ]
    body = _ENCODER.encode((_VERSION, known.root, boot_id(), table.names(), dirs, nodes, large))
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        make_private(file.parent)
        fresh.write_bytes(content_hash(body) + body)
        fresh.replace(file)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def load(file: Path) -> Known | None:
    """What was written down; None: nothing, or nothing that can be believed."""
    try:
        data = file.read_bytes()
        if content_hash(memoryview(data)[32:]) != data[:32]:
            return None
        version, root, boot, packs, dirs, nodes, large = _DECODER.decode(memoryview(data)[32:])
        if version != _VERSION:
            return None
        known = Known(root, _lines(dirs, packs, believed=boot == boot_id()))
        known.nodes = _places(nodes, packs)
        for digest, pieces in large:
            known.large[digest] = [Piece(hashed, Place(packs[n], at, size)) for hashed, n, at, size in pieces]
    except (OSError, msgspec.DecodeError, PacksBroken, IndexError):
        return None
    return known


def _lines(
    dirs: Iterable[tuple[bytes, list[tuple[StatKey | None, WireItem]]]], packs: list[str], *, believed: bool
) -> dict[bytes, dict[bytes, Line]]:
    return {
        path: {line[1]: (key if believed else None, read_item(line, packs)) for key, line in lines}
        for path, lines in dirs
    }


def _places(lines: Iterable[tuple[bytes, int, int, int]], packs: list[str]) -> dict[bytes, Place]:
    return {digest: Place(packs[number], at, length) for digest, number, at, length in lines}


def _wire_place(place: Place, table: PackTable) -> tuple[int, int, int]:
    return table.number(place.pack), place.offset, place.length


def boot_id() -> str:
    """The life of this machine; empty where it does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def from_items(root: str, dirs: Mapping[bytes, Iterable[Item]], nodes: Mapping[bytes, Place]) -> Known:
    """What is known of a tree that was read, and of no directory."""
    lines: dict[bytes, dict[bytes, Line]] = {
        path: {item.name: (None, item) for item in items} for path, items in dirs.items()
    }
    return Known(root, lines, dict(nodes))
