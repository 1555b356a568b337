"""Plain commits, those in the midst of a turn: they change nothing but their session's log and where it stands.

Nearly all commits are. A lone one is a single conditional update and an insert in one statement, for about the price
of a bare insert; many are one statement over arrays. Whatever is unusual about a commit, the general statement judges
it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from outlast.errors import BadPayload
from outlast.world import Commit, Lease, Spent
from outlast.world.checks import check_content
from outlast.world.commit import SPENT_DAYS
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import stored

SQL: Final = statements(__file__)

Places: TypeAlias = Mapping[int, tuple[Lease, Commit]]
"""Commits by their place in what was asked."""


def is_plain(new: Commit) -> bool:
    """It changes nothing of when its session is ready, and names nothing outside."""
    header = new.header
    calm = header.turn_open and not header.parked and header.wake_at_s is None
    more = header.snapshot or header.release or header.consumes or header.refs or new.blobs or new.spent
    if more or not calm:
        return False
    try:
        check_content(new)
    except BadPayload:
        return False
    return True


def columns_of_spent(spent: Sequence[Spent | None]) -> tuple[Any, ...]:
    """What commits have spent, as `land` takes it: ordinals counted from 1, and a list for each field."""
    found = [(ordinal, one) for ordinal, one in enumerate(spent, 1) if one is not None]
    rows = [msgspec.structs.astuple(one) for _, one in found]
    fields = [[row[at] for row in rows] for at in range(len(Spent.__struct_fields__))]
    return ([ordinal for ordinal, _ in found], *fields, SPENT_DAYS)


async def land_plain(store: PostgresStore, tenant: int, asked: Places) -> frozenset[int]:
    """Write those of plain commits that may land; returns their places."""
    columns = [
        (
            lease.session,
            new.header.seq,
            lease.fence,
            stored(lease.worker),
            new.header.format,
            new.header.events,
            new.header.sealed,
            new.header.digest,
            stored(new.header.status),
            new.body,
        )
        for lease, new in asked.values()
    ]
    landed = await store.rows(SQL["land_plain"], tenant, *zip(*columns, strict=True), store.now_s)
    sessions = {session for (session,) in landed}
    return frozenset(place for place, (lease, _) in asked.items() if lease.session in sessions)


async def land_one(store: PostgresStore, tenant: int, lease: Lease, new: Commit) -> bool:
    """Write a plain commit if it may land."""
    header = new.header
    if lease.fence != header.fence:
        return False
    landed = await store.rows(
        SQL["land_one"],
        tenant,
        lease.session,
        header.seq,
        header.fence,
        stored(lease.worker),
        header.format,
        header.events,
        header.sealed,
        header.digest,
        stored(header.status),
        new.body,
        store.now_s,
    )
    return bool(landed)
