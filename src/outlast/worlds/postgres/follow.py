"""What a reader of a session is shown next: commits and the deltas between them, woven from one snapshot."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from outlast.world import Cursor, Item
from outlast.world.weave import Shown, place_behind, weave
from outlast.worlds.postgres.reads import check_alive, commit_of
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore

SQL: Final = statements(__file__)

BATCH_ITEMS: Final = 1000
BATCH_BYTES: Final = 2 * 1024 * 1024
FAR: Final = 2**62

_bodies = msgspec.msgpack.Decoder(list[bytes])


async def behind(store: PostgresStore, tenant: str, session: str, after: Cursor) -> tuple[list[Item], bool]:
    """The next items behind `after`, and whether there may be more; none if nothing is there yet.

    Costs what it returns, not what lies before.
    """
    cursor = Cursor(min(after.seq, FAR), min(after.index, FAR))
    found = await store.rows(
        SQL["behind"],
        await store.tenant(tenant),
        session,
        cursor.seq,
        cursor.index,
        BATCH_ITEMS,
        BATCH_BYTES,
    )
    check_alive(store, session, found[0][0] if found else None)
    commits = (commit_of(row) for row in found if row[13] == 0)
    items = list(weave(commits, _deltas(found), place_behind(cursor, found[0][15]), cursor))
    full = len(found) >= BATCH_ITEMS or sum(len(row[12] or b"") for row in found) >= BATCH_BYTES
    return items, full and bool(items)


def _deltas(found: Sequence[Sequence[Any]]) -> Iterator[Shown]:
    """Those that count, though the commit that says so may not be among what was found."""
    for row in found:
        if row[13] == 1:
            seq, sealed, first = row[1], row[5], row[14]
            for index, body in enumerate(_bodies.decode(row[12]), first):
                if sealed is None or index < sealed:
                    yield Shown(seq, index, body)
