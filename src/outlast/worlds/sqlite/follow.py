"""What a reader of a session is shown next: commits and the deltas between them, woven from one snapshot."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import msgspec

from outlast.world import Commit, Cursor, Delta, Gap, Item
from outlast.worlds.sqlite.reads import commitsbetween
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import SHIFT, Query, Row

SQL: Final = statements(__file__)

BATCH_ITEMS: Final = 1000
BATCH_BYTES: Final = 2 * 1024 * 1024

_bodies = msgspec.msgpack.Decoder(list[bytes])


@dataclass(slots=True)
class _Place:
    """Where the stream stands: before delta `index` after commit `seq`, or before commit `seq` + 1."""

    seq: int
    width: int
    index: int


@dataclass(slots=True)
class _Shown:
    seq: int
    index: int
    body: bytes


def behind(query: Query, tenant: str, session: str, after: Cursor) -> list[Item]:
    """The next items behind `after`; none if nothing is there yet. Costs what it returns, not what lies before."""
    row = query.get(tenant, session)
    place = _place(query, row, after)
    commits = commitsbetween(query, row.at(place.seq), row.at(row.seq))
    deltas = _deltas(query, row, place)
    items: list[Item] = []
    size = 0
    for item in _weave(commits, deltas, place, after):
        items.append(item)
        size += 0 if isinstance(item.what, Gap) else len(item.what.body)
        if len(items) == BATCH_ITEMS or size >= BATCH_BYTES:
            break
    commits.close()
    deltas.close()
    return items


def _place(query: Query, row: Row, after: Cursor) -> _Place:
    found = query.one(SQL["events"], (row.at(after.seq),)) if 1 <= after.seq <= row.seq else None
    width = max(1, found[0]) if found else 1
    if found is None or after.index < width - 1:
        # Commit `after.seq` itself comes first, or what is left of it; there are no deltas before it to be shown.
        return _Place(max(1, after.seq) - 1, 0, 0)
    return _Place(after.seq, width, after.index - width + 1)


def _deltas(query: Query, row: Row, place: _Place) -> Generator[_Shown]:
    at = row.at(place.seq)
    found = query.one(SQL["first_row"], (at, place.index))
    for where, first, bodies in query.run(SQL["deltas"], (at, (found or (0,))[0] or 0, row.at(row.seq))):
        seq = where & (1 << SHIFT) - 1
        for offset, body in enumerate(_bodies.decode(bodies)):
            yield _Shown(seq, first + offset, body)


def _weave(
    commits: Iterator[Commit], deltas: Iterator[_Shown], place: _Place, after: Cursor
) -> Iterator[Item]:
    """Put commits and deltas in order from `place` on."""
    ahead = next(deltas, None)
    for commit in chain(commits, [None]):
        counts = None if commit is None else commit.header.sealed
        while ahead is not None and ahead.seq <= place.seq:
            counted = counts is None or ahead.index < counts
            if place.width and ahead.index >= place.index and counted:
                yield from _missing(place, ahead.index)
                yield Item(Cursor(place.seq, place.width + ahead.index), Delta(ahead.body))
                place.index = ahead.index + 1
            ahead = next(deltas, None)
        if commit is None:
            return
        if place.width:
            yield from _missing(place, commit.header.sealed)
        seq, width = commit.header.seq, commit.header.width
        yield Item(Cursor(seq, width - 1), commit, after.index + 1 if seq == after.seq else 0)
        place = _Place(seq, width, 0)


def _missing(place: _Place, until: int) -> Iterator[Item]:
    """The gap before delta `until`, if there is one."""
    if place.index < until:
        cursor = Cursor(place.seq, place.width + until - 1)
        yield Item(cursor, Gap(until - place.index), place.index)
        place.index = until
