"""A file in the lines of the mirror: whole in the first, and in each further one the blocks that have changed since.

So that a database which grows a little with every call costs what has changed, and not itself each time. When the
changes outgrow the file, it is written whole again: never more than about twice is kept of what would be needed.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from outlast.ids import digest

BLOCK: Final = 4096
"""Bytes that are told to have changed together: a page of a database."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the mirror has of a file, as far as it must be known to tell what has changed."""

    blocks: Sequence[str]
    """A digest of each block."""
    size: int
    lines: int
    whole: int
    """Length of the line that holds it whole."""
    changes: int = 0
    """Length of the lines behind that."""


class _Change(msgspec.Struct, frozen=True):
    """A line that holds what has changed: `data` is, block by block, what stands in the blocks of `at`."""

    size: int
    at: list[int]
    data: str


_changes: Final = msgspec.json.Decoder(_Change)


def pack(data: bytes, known: Kept | None) -> tuple[int, Sequence[str], Kept]:
    """From which line on what is to stand in the mirror, so that it has `data`: nothing, if it has that already.

    Args:
        known: what it has; None: nothing of the file.
    """
    blocks = _digests(data)
    if known is not None:
        before = known.blocks
        at = [n for n, block in enumerate(blocks) if n >= len(before) or before[n] != block]
        if not at and known.size == len(data):
            return known.lines, (), known
        line = _changed(data, at)
        changes = known.changes + len(line)
        if changes <= known.whole:
            return known.lines, [line], Kept(blocks, len(data), known.lines + 1, known.whole, changes)
    line = _packed(data)
    return 0, [line], Kept(blocks, len(data), 1, len(line))


def unpack(lines: Sequence[str]) -> tuple[bytes, Kept]:
    """The file that these lines hold, of which there is one at least."""
    data = bytearray(zlib.decompress(b64decode(lines[0])))
    for line in lines[1:]:
        change = _changes.decode(line)
        new = zlib.decompress(b64decode(change.data))
        data += bytes(max(0, change.size - len(data)))
        del data[change.size :]
        for n, block in enumerate(change.at):
            there = data[block * BLOCK : (block + 1) * BLOCK]
            data[block * BLOCK : block * BLOCK + len(there)] = new[n * BLOCK : n * BLOCK + len(there)]
    whole = bytes(data)
    changes = sum(map(len, lines[1:]))
    return whole, Kept(_digests(whole), len(whole), len(lines), len(lines[0]), changes)


def _changed(data: bytes, at: Iterable[int]) -> str:
    blocks = list(at)
    new = b"".join(data[block * BLOCK : (block + 1) * BLOCK] for block in blocks)
    return msgspec.json.encode(_Change(len(data), blocks, _packed(new))).decode()


def _packed(data: bytes) -> str:
    return b64encode(zlib.compress(data, 1)).decode()


def _digests(data: bytes) -> list[str]:
    return [digest(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
