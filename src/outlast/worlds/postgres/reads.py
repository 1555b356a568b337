"""What is read of a session apart from its inbox and its stream. Each is one statement, hence one snapshot."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.errors import BlobUnknown, SessionErased, SessionUnknown
from outlast.world import Commit, Header, Page, SessionHead, Spent, Stored, WorkerRow
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import stored, told, told_names

SQL: Final = statements(__file__)
ALIVE: Final = 0
NEWEST: Final = 2**60


async def get(store: PostgresStore, tenant: str, session: str) -> SessionHead:
    """See `Log.get`."""
    found = await store.rows(SQL["get"], await store.tenant(tenant), session)
    state = found[0][16] if found else None
    check_alive(store, session, state)
    return _head(found[0])


def check_alive(store: PostgresStore, session: str, state: int | None) -> None:
    """Return if a session of that `state` is there (None: there is no row) and not erased.

    Raises:
        SessionUnknown, SessionErased
    """
    if state is None:
        raise SessionUnknown(session=session, world=store.name)
    if state != ALIVE:
        raise SessionErased(session=session)


def _head(row: Sequence[Any]) -> SessionHead:
    return SessionHead(
        session=row[0],
        agent=told(row[1]),
        placement=told(row[2]),
        seq=row[3],
        fence=row[4],
        format=row[5],
        snapshot_seq=row[6],
        turn_open=row[7],
        parked=row[8],
        wake_at_s=row[9],
        status=told(row[10]),
        worker=None if row[11] is None else told(row[11]),
        waiting_inputs=row[12],
        created_at_s=row[13],
        updated_at_s=row[14],
        labels=dict(zip(map(told, row[17]), map(told, row[18]), strict=True)),
        priority=row[19],
    )


async def page(
    store: PostgresStore, tenant: str, before: int | None, limit: int, labels: Mapping[str, str]
) -> Page:
    """See `Log.list`; `before` is the change number below which the page begins."""
    names, values = [stored(name) for name in labels], [stored(value) for value in labels.values()]
    place = (await store.tenant(tenant), NEWEST if before is None else before)
    found = await store.rows(SQL["page"], *place, names, values, limit + 1)
    more = len(found) > limit
    return Page([_head(row) for row in found[:limit]], str(found[limit - 1][15]) if more else None)


async def commits(store: PostgresStore, tenant: str, session: str, after: int, limit: int) -> list[Commit]:
    """See `Log.commits`."""
    found = await store.rows(SQL["commits"], await store.tenant(tenant), session, after, limit)
    check_alive(store, session, found[0][0] if found else None)
    return [commit_of(row) for row in found if row[1] is not None]


def commit_of(row: Sequence[Any]) -> Commit:
    """A commit from its columns, of which the first is left out."""
    flags = row[6]
    header = Header(
        seq=row[1],
        fence=row[2],
        format=row[3],
        events=row[4],
        digest=row[7],
        sealed=row[5],
        consumes=told_names(row[10]),
        refs=told_names(row[11]),
        turn_open=bool(flags & 1),
        wake_at_s=row[8],
        parked=bool(flags & 2),
        status=told(row[9]),
        snapshot=bool(flags & 4),
        release=bool(flags & 8),
    )
    return Commit(header, row[12])


async def get_many(
    store: PostgresStore, tenant: str, session: str, hashes: Sequence[str]
) -> dict[str, bytes]:
    """See `Blobs.get_many`."""
    wanted = [stored(name) for name in hashes]
    found = await store.rows(SQL["blobs"], await store.tenant(tenant), session, wanted)
    check_alive(store, session, found[0][0] if found else None)
    there = {told(row[1]): row[2] for row in found if row[1] is not None}
    for name in hashes:
        if name not in there:
            raise BlobUnknown(session=session, blob=name, world=store.name)
    return there


async def tenants(store: PostgresStore) -> list[str]:
    """See `Queue.tenants`."""
    return sorted(told(name) for (name,) in await store.rows(SQL["tenants"]))


async def workers(store: PostgresStore) -> list[WorkerRow]:
    """See `Queue.workers`."""
    found = await store.rows(SQL["workers"])
    return [WorkerRow(told(worker), told(holder), deadline_s) for worker, holder, deadline_s in found]


async def dying(store: PostgresStore) -> list[tuple[str, str]]:
    """Tenant and id of sessions whose erasing was cut short."""
    return [(told(tenant), session) for tenant, session in await store.rows(SQL["dying"])]


async def spent(store: PostgresStore, tenant: str, first_day: int) -> list[Spent]:
    """See `Log.spent`."""
    return [Spent(*found) for found in await store.rows(SQL["spent"], await store.tenant(tenant), first_day)]


async def stored_of(store: PostgresStore, tenant: str, session: str) -> Stored:
    """See `Log.stored`."""
    found = await store.rows(SQL["stored"], await store.tenant(tenant), session)
    check_alive(store, session, found[0][0] if found else None)
    return Stored(*found[0][1:])
