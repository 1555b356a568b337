"""Nodes from entries: how a directory is cut into them, and what of it is new.

**The shape of a tree follows from its names alone.** A run ends after each name whose hash is small enough, a run of
runs after each last name whose hash is smaller still, and so on. So the same entries make the same nodes whatever was
done to get there, and one entry more or less changes one run, or two, on each level.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from outlast.errors import WorkspaceError
from outlast.ids import content_hash
from outlast.workspaces.drive.format import (
    DIR,
    ENTRIES_LIMIT,
    FANOUT_BITS,
    LINK,
    NODE_LIMIT,
    NOWHERE,
    PIECE,
    SPAN,
    Item,
    Node,
    Piece,
    Place,
    encode_node,
    encode_pieces,
    node_digest,
    shown,
    unreadable,
)
from outlast.workspaces.drive.packing import PackWriter

_MIX: Final = 0x9E3779B1
"""Spreads crc32, of which names that differ in a digit have regular values (2^32 over the golden ratio)."""
_LAST_CUT: Final = 32 // FANOUT_BITS - 1
"""The level of which the hash has bits enough."""


def ends_run(name: bytes, level: int) -> bool:
    """Whether a run of `level` ends with this name. Above the last level at which that is one in so many none does.

    Otherwise names whose hash is 0, which anybody can make, would end a run on every level there is.
    """
    if level > _LAST_CUT:
        return False
    spread = (crc32(name) * _MIX) & 0xFFFFFFFF
    return spread >> (32 - FANOUT_BITS * (level + 1)) == 0


class Builder:
    """Puts nodes and contents that are not known yet into packs."""

    def __init__(
        self, writer: PackWriter, contents: dict[bytes, Place], nodes: Mapping[bytes, Place]
    ) -> None:
        self._writer = writer
        self._known_contents = contents
        self._known_nodes = nodes
        self.contents: dict[bytes, Place] = {}
        """By digest, the contents and pieces that are new."""
        self.nodes: dict[bytes, Place] = {}
        """By digest, the nodes that are new."""
        self.made: list[tuple[Place, bytes, Node]] = []
        """The same nodes, to be had at hand."""
        self.used: dict[bytes, Place] = {}
        """By digest, all nodes that what was built has, but for those in parts that were never looked at."""

    def know(self, contents: Iterable[tuple[bytes, Place]]) -> None:
        """Contents that need not be stored again."""
        self._known_contents.update(contents)

    def close(self) -> None:
        """All that was put into packs has its place from now on."""
        self._writer.close()

    def find_content(self, digest: bytes) -> Place | None:
        """Where a content lies that need not be stored again."""
        return self._known_contents.get(digest) or self.contents.get(digest)

    def content(self, digest: bytes, data: bytes | memoryview) -> Place:
        """The place of a content of at most `PIECE` bytes, which is stored if it is new."""
        if not data:
            return NOWHERE
        place = self.find_content(digest)
        if place is None:
            place = self.contents[digest] = self._writer.add(data)
        return place

    def whole(self, data: bytes, known: Mapping[bytes, Place]) -> tuple[bytes, Place]:
        """The digest and the place of a content of any size, which is stored where neither `known` nor we have it."""
        digest = content_hash(data)
        place = known.get(digest)
        if place is not None or len(data) <= PIECE:
            return digest, place or self.content(digest, data)
        view = memoryview(data)
        return digest, self.large(
            digest, [self.piece(view[at : at + PIECE]) for at in range(0, len(data), PIECE)]
        )

    def piece(self, data: bytes | memoryview) -> Piece:
        """One piece of a large file, which is stored if it is new."""
        digest = content_hash(data)
        return Piece(digest, self.content(digest, data))

    def large(self, digest: bytes, pieces: Sequence[Piece]) -> Place:
        """The place of a content of several pieces, each of which is stored."""
        place = self.find_content(digest)
        if place is None:
            place = self.contents[digest] = self._writer.add(encode_pieces(pieces))
        return place

    def directory(self, items: Sequence[Item]) -> Item | None:
        """The uppermost node of a directory with these entries, in order of their names; None: it is empty."""
        return self.stacked(items, 0) if items else None

    def stacked(self, items: Sequence[Item], level: int) -> Item:
        """The one node above the items of `level`."""
        while True:
            items = [self.node(level, run) for run in cut(items, level)]
            if len(items) == 1:
                return items[0]
            level += 1

    def node(self, level: int, items: Sequence[Item]) -> Item:
        """The run that these items are, which is stored if it is new."""
        digest = node_digest(level, items)
        place = self._known_nodes.get(digest) or self.nodes.get(digest)
        size = sum([item.size for item in items if item.kind != LINK])
        count = sum([item.entries for item in items])
        if place is None:
            if bad := next((item for item in items if unreadable(item)), None):
                raise WorkspaceError(
                    detail=f"The workspace holds {shown(bad.name)[:200]}, which cannot be written down so that it "
                    "could be read again. Remove or rename it."
                )
            data = encode_node(level, items)
            if len(data) > NODE_LIMIT or count > ENTRIES_LIMIT:  # which nobody would read
                raise WorkspaceError(
                    detail=f"The workspace holds more than {ENTRIES_LIMIT:,} entries, or a directory whose names are "
                    "chosen so that it cannot be written down. Remove what need not be kept."
                )
            place = self.nodes[digest] = self._writer.add(data)
            self.made.append((place, digest, Node(level, items, size, count)))
        self.used[digest] = place
        return Item(SPAN, items[-1].name, 0, 0, size, count, digest, place)


def cut(items: Sequence[Item], level: int) -> Iterable[Sequence[Item]]:
    """The runs of `level` that these items, in order, fall into."""
    start = 0
    for number, item in enumerate(items, 1):
        if ends_run(item.name, level):
            yield items[start:number]
            start = number
    if start < len(items):
        yield items[start:]


def as_directory(name: bytes, mode: int, mtime_ns: int, span: Item | None) -> Item:
    """The entry for a directory whose uppermost node is `span`."""
    if span is None:
        return Item(DIR, name, mode, mtime_ns, 0, 1, b"", NOWHERE)
    return Item(DIR, name, mode, mtime_ns, span.size, span.entries + 1, span.digest, span.place)
