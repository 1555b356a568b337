"""What a reader of a session is shown next: commits and the deltas between them, woven from one snapshot."""

from collections.abc import Generator
from typing import Final

import msgspec

from outlast.world import Cursor, Gap, Item
from outlast.world.weave import Place, Shown, place_behind, weave
from outlast.worlds.sqlite.reads import commitsbetween
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import SHIFT, Query, Row

SQL: Final = statements(__file__)

BATCH_ITEMS: Final = 1000
BATCH_BYTES: Final = 2 * 1024 * 1024

_bodies = msgspec.msgpack.Decoder(list[bytes])


def behind(query: Query, tenant: str, session: str, after: Cursor) -> tuple[list[Item], bool]:
    """The next items behind `after`, and whether there may be more; none if nothing is there yet.

    Costs what it returns, not what lies before.
    """
    row = query.get(tenant, session)
    place = _place(query, row, after)
    commits = commitsbetween(query, row.at(place.seq), row.at(row.seq))
    deltas = _deltas(query, row, place)
    items: list[Item] = []
    size, more = 0, False
    for item in weave(commits, deltas, place, after):
        items.append(item)
        size += 0 if isinstance(item.what, Gap) else len(item.what.body)
        more = len(items) == BATCH_ITEMS or size >= BATCH_BYTES
        if more:
            break
    commits.close()
    deltas.close()
    return items, more


def _place(query: Query, row: Row, after: Cursor) -> Place:
    found = query.one(SQL["events"], (row.at(after.seq),)) if 1 <= after.seq <= row.seq else None
    return place_behind(after, found[0] if found else None)


def _deltas(query: Query, row: Row, place: Place) -> Generator[Shown]:
    at = row.at(place.seq)
    found = query.one(SQL["first_row"], (at, place.index))
    for where, first, bodies in query.run(SQL["deltas"], (at, (found or (0,))[0] or 0, row.at(row.seq))):
        seq = where & (1 << SHIFT) - 1
        for offset, body in enumerate(_bodies.decode(bodies)):
            yield Shown(seq, first + offset, body)
