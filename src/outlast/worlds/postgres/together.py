"""Plain commits, those in the midst of a turn: they change nothing but their session's log and where it stands.

Nearly all commits are. A lone one is a single conditional update and an insert in one statement, for about the price
of a bare insert; many are one statement over arrays. Whatever is unusual about a commit, the general statement judges
it.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from outlast.errors import BadPayload
from outlast.world import Commit, Lease
from outlast.world.checks import check_content
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
    more = header.snapshot or header.release or header.consumes or header.refs or new.blobs
    if more or not calm:
        return False
    try:
        check_content(new)
    except BadPayload:
        return False
    return True


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
