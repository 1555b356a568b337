"""What stands in a pack, and what a root says.

A pack is `MAGIC`, perhaps some random bytes, and then frames. A frame is one byte (0: as it is, 1: a zstd frame) and
the bytes of one thing:

* the content of a file of at most `PIECE` bytes, or one piece of a larger one;
* the list of the pieces of a larger file (`Pieces`);
* a node: one sorted run of the entries of a directory, or of such runs.

Nothing in a pack says where its frames begin: whoever names one says (pack, offset, length), its `Place`. An empty
pack name means: the pack that this node is in itself, whose name is its hash and not known before it is closed.

**Digests do not cover places.** The digest of a node is over its entries without their places, so that equal trees
have equal digests wherever their parts lie, a comparison reads nothing that is equal, and a tree that was moved to
other packs is still the same tree. All that is read is held to the digest that its parent gave, so that a broken or
forged pack is an error, and no node can lead back to itself.

**Totals are covered.** Each directory says how many entries and bytes are below it, and whoever reads a node holds
it to what was said. So a few nodes that name one another a thousand times each cannot pretend to be a small tree.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from outlast.drive import EMPTY_ROOT
from outlast.errors import PacksBroken, PacksTooNew
from outlast.ids import content_hash

VERSION: Final = 1
MAGIC: Final = b"OLP1"
PIECE: Final = 1 << 20
"""Bytes of each piece of a large file, but its last.

Pieces are cut at fixed offsets. What is large and changes in place (databases, logs, disk images) is overwritten or
appended to, which leaves all other pieces as they are; cutting by content would find again what an insertion has moved,
for a pass over each byte that costs more than hashing it.
"""
NODE_LIMIT: Final = 64 << 20
"""Bytes of a node or a list of pieces, not compressed, that are read at most."""
ENTRIES_LIMIT: Final = 5_000_000
DEPTH_LIMIT: Final = 200
"""Directories within one another."""
NAME_LIMIT: Final = 255
TARGET_LIMIT: Final = 4095
TIME_LIMIT: Final = (1 << 63) - 1
FILE, LINK, DIR, SPAN = range(4)
FILE_MODES: Final = 0o777
"""Bits of a file's mode that are kept: no program that was brought back runs as another user."""
DIR_MODES: Final = 0o3777
FANOUT_BITS: Final = 5
"""A node has 2 to the power of so many entries on average."""
LEVEL_LIMIT: Final = 8
_NODE: Final = b"outlast.drive node 1"
_EMPTY: Final = b""


class Place:
    """Where a frame lies. `pack` is empty while its pack is being written, and set when that is closed."""

    __slots__ = ("length", "offset", "pack")

    def __init__(self, pack: str, offset: int, length: int) -> None:
        self.pack = pack
        self.offset = offset
        self.length = length

    def __repr__(self) -> str:
        return f"{self.pack}[{self.offset}:+{self.length}]"


NOWHERE: Final = Place("", 0, 0)
"""The place of what has no bytes: empty files, links, empty directories."""


class Item(NamedTuple):
    """One line of a node: a file, a link, a directory, or a run of the entries of the node's own directory."""

    kind: int
    name: bytes
    """Of a run: the last name in it."""
    mode: int
    mtime_ns: int
    size: int
    """Bytes of a file, or of all files below."""
    entries: int
    """1 for a file or a link, 1 and all that are below for a directory, all that are in it for a run."""
    digest: bytes
    """Of a file's content, of a directory's or a run's node (empty: an empty directory); the target of a link."""
    place: Place
    """Not covered by the digest of the node that this stands in."""


class Node(NamedTuple):
    """What a directory holds, or a run of it."""

    level: int
    """0: entries; above: runs of the level below."""
    items: Sequence[Item]
    size: int
    """Bytes of all files in it and below."""
    entries: int
    """In it and below."""


class Piece(NamedTuple):
    """One piece of a large file."""

    digest: bytes
    place: Place


_Whole: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Time: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
WireItem: TypeAlias = tuple[
    Annotated[int, Meta(ge=0, le=SPAN)],
    Annotated[bytes, Meta(min_length=1, max_length=NAME_LIMIT)],
    Annotated[int, Meta(ge=0, le=0o7777)],
    _Time,
    _Whole,
    _Whole,
    Annotated[bytes, Meta(max_length=TARGET_LIMIT)],
    _Whole,
    _Whole,
    _Whole,
]
"""An item without its place; the number of its pack in a table beside it, offset and length."""
_WireNode: TypeAlias = tuple[
    Annotated[int, Meta(ge=0, le=LEVEL_LIMIT)], list[str], Annotated[list[WireItem], Meta(min_length=1)]
]
_WirePieces: TypeAlias = tuple[
    list[str],
    Annotated[
        list[tuple[Annotated[bytes, Meta(min_length=32, max_length=32)], _Whole, _Whole, _Whole]],
        Meta(min_length=2),
    ],
]
_ENCODER: Final = msgspec.msgpack.Encoder()
_NODES: Final = msgspec.msgpack.Decoder(_WireNode)
_PIECES: Final = msgspec.msgpack.Decoder(_WirePieces)


class PackTable:
    """The names of packs beside a run of places, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, pack: str) -> int:
        return self._numbers.setdefault(pack, len(self._numbers))

    def names(self) -> list[str]:
        return list(self._numbers)


def node_digest(level: int, items: Sequence[Item]) -> bytes:
    """The digest of a node, which its places have no part in."""
    return content_hash(_ENCODER.encode((level, [item[:7] for item in items])), _NODE)


def encode_node(level: int, items: Sequence[Item]) -> bytes:
    """The bytes of a node, in the pack that all its places without a pack are in."""
    table = PackTable()
    lines = [wire_item(item, table) for item in items]
    return _ENCODER.encode((level, table.names(), lines))


def wire_item(item: Item, table: PackTable) -> tuple[object, ...]:
    """An item as it is written beside a table of packs."""
    place = item.place
    return (*item[:7], table.number(place.pack), place.offset, place.length)


def decode_node(data: bytes, pack: str) -> Node:
    """Read a node that lies in `pack`.

    Raises:
        PacksBroken: it is none, or says what no outlast writes.
    """
    try:
        level, packs, lines = _NODES.decode(data)
    except msgspec.DecodeError as error:
        raise broken(f"a node cannot be decoded ({error})") from None
    names = [name or pack for name in packs]
    items = [read_item(line, names) for line in lines]
    _check_node(level, items)
    size = sum([item.size for item in items if item.kind != LINK])
    return Node(level, items, size, sum([item.entries for item in items]))


def read_item(line: WireItem, packs: Sequence[str]) -> Item:
    """An item from beside its table of packs."""
    number = line[7]
    if number >= len(packs):
        raise broken("a place names a pack that is not in its table")
    place = Place(packs[number], line[8], line[9]) if line[9] else NOWHERE
    return Item(line[0], line[1], line[2], line[3], line[4], line[5], line[6], place)


def _check_node(level: int, items: Sequence[Item]) -> None:
    before = b""
    for item in items:
        if item.name <= before:
            raise broken("names in a node are not in order")
        before = item.name
        if (item.kind == SPAN) != (level > 0):
            raise broken("a node mixes entries and runs of entries")
        if reason := _fault(item):
            raise broken(f"{shown(item.name)}: {reason}")


def unreadable(item: Item) -> bool:
    """Whether nobody would read this item, were it written: what is decoded is held to these, and to no others."""
    bounds = len(item.name) <= NAME_LIMIT and abs(item.mtime_ns) <= TIME_LIMIT
    return not bounds or len(item.digest) > TARGET_LIMIT or bool(_fault(item))


def _fault(item: Item) -> str:
    """What is wrong with an item; empty: nothing."""
    if b"/" in item.name or b"\0" in item.name or item.name in {b".", b".."}:
        return "no name of a file"
    match item.kind:
        case 1:
            wrong = not item.digest or b"\0" in item.digest or item.entries != 1 or item.mode != 0
            wrong = wrong or item.size != len(item.digest)
        case 0:
            wrong = len(item.digest) != 32 or item.entries != 1 or item.mode & ~FILE_MODES != 0
            wrong = wrong or (item.place.length == 0) != (item.size == 0)
        case 2:
            held = item.entries > 1
            wrong = len(item.digest) != (32 if held else 0) or item.mode & ~DIR_MODES != 0
            wrong = wrong or item.entries < 1 or (item.place.length > 0) != held
        case _:
            wrong = len(item.digest) != 32 or item.entries < 1 or item.place.length == 0
    return "a line of a node that no outlast writes" if wrong else ""


def encode_pieces(pieces: Sequence[Piece]) -> bytes:
    """The list of the pieces of a large file, in the pack that all its places without a pack are in."""
    table = PackTable()
    lines = [
        (piece.digest, table.number(piece.place.pack), piece.place.offset, piece.place.length)
        for piece in pieces
    ]
    return _ENCODER.encode((table.names(), lines))


def decode_pieces(data: bytes, pack: str, size: int) -> list[Piece]:
    """Read the list of the pieces of a file of `size` bytes, which lies in `pack`.

    Raises:
        PacksBroken
    """
    try:
        packs, lines = _PIECES.decode(data)
    except msgspec.DecodeError as error:
        raise broken(f"a list of pieces cannot be decoded ({error})") from None
    if len(lines) != -(-size // PIECE):
        raise broken("a large file has not the pieces that its size needs")
    if any(number >= len(packs) for _, number, _, _ in lines):
        raise broken("a place names a pack that is not in its table")
    names = [name or pack for name in packs]
    return [Piece(digest, Place(names[number], at, length)) for digest, number, at, length in lines]


def piece_sizes(size: int) -> Iterator[int]:
    """The bytes of each piece of a file of `size` bytes."""
    while size > PIECE:
        yield PIECE
        size -= PIECE
    if size:
        yield size


def kept_time(mtime_ns: int) -> int:
    """A time as it is kept: what lies some 292 years from 1970 or more stands there."""
    return max(-TIME_LIMIT, min(mtime_ns, TIME_LIMIT))


def is_target(target: bytes) -> bool:
    """Whether a link can lead there."""
    return 0 < len(target) <= TARGET_LIMIT and b"\0" not in target


def root_text(span: Item | None) -> str:
    """The text that names the tree whose uppermost node is `span`; None: nothing is in it."""
    if span is None:
        return EMPTY_ROOT
    place = span.place
    return (
        f"{VERSION}.{span.digest.hex()}.{place.pack}.{place.offset}.{place.length}.{span.entries}.{span.size}"
    )


def parse_root(root: str) -> Item:
    """The uppermost directory of a tree: an item without a name.

    Raises:
        PacksTooNew, PacksBroken
    """
    if root == EMPTY_ROOT:
        return Item(DIR, b"", 0o755, 0, 0, 1, _EMPTY, NOWHERE)
    version, _, rest = root.partition(".")
    if version.isdecimal() and int(version[:9]) > VERSION:
        raise PacksTooNew(found=version[:9], known=VERSION)
    try:
        digest, pack, *figures = rest.split(".")
        offset, length, count, size = (_figure(word) for word in figures)
        hashed = bytes.fromhex(digest)
    except ValueError:
        raise broken(f"{root[:200]!r} is no root of a tree") from None
    if version != str(VERSION) or len(hashed) != 32 or not pack or min(length, count) < 1:
        raise broken(f"{root[:200]!r} is no root of a tree")
    if count > ENTRIES_LIMIT:
        raise broken(f"it says that it has {count:,} entries, more than {ENTRIES_LIMIT:,}")
    return Item(DIR, b"", 0o755, 0, size, count + 1, hashed, Place(pack, offset, length))


def _figure(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 19:
        raise ValueError
    return int(word)


def broken(reason: str) -> PacksBroken:
    """The error for what no outlast writes."""
    return PacksBroken(reason=reason)


def shown(name: bytes) -> str:
    """A name of a file for people to read, whatever bytes it has."""
    return name.decode("utf-8", "backslashreplace")
