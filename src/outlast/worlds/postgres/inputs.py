"""The inbox."""

from collections.abc import Sequence
from typing import Any, Final

from outlast.errors import BlobUnknown, InputConflict
from outlast.world import Input
from outlast.world.hints import inbox_key, key, ready_key
from outlast.worlds.postgres.reads import check_alive
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import names, stored, told, told_names
from outlast.worlds.postgres.writes import lost_every_race, unheld_blob

SQL: Final = statements(__file__)
TRIES: Final = 20


async def put_input(store: PostgresStore, tenant: str, session: str, new: Input) -> Input:
    """See `Inbox.put_input`."""
    there = await _put(store, tenant, session, new)
    store.told((key(tenant, session), inbox_key(tenant, session), ready_key(tenant)))
    return there


async def _put(store: PostgresStore, tenant: str, session: str, new: Input) -> Input:
    number = await store.tenant(tenant)
    named = {stored(name) for name in (*new.refs, *new.blobs)}
    given = {stored(name): data for name, data in new.blobs.items()}
    bindings = (
        number,
        session,
        stored(new.id),
        stored(new.digest),
        names(new.refs),
        new.body,
        sorted(named),
        sorted(named - given.keys()),
        list(given),
        list(given.values()),
        store.now_s,
        new.priority,
    )
    for _ in range(TRIES):
        if new.priority is not None:
            await _make_route(store, number, session, new.priority)
        fresh = await store.rows(SQL["put"], *bindings)
        if fresh:
            return Input(new.id, new.digest, new.body, new.refs, arrival=fresh[0][0])
        there = await find_input(store, tenant, session, new.id)
        if there is not None:
            if there.digest != new.digest:
                raise InputConflict(session=session, input=new.id)
            return there
        missing = await unheld_blob(store, number, new.refs, new.blobs)
        if missing is not None:
            raise BlobUnknown(session=session, blob=missing, world=store.name)
    raise lost_every_race(store)


async def _make_route(store: PostgresStore, tenant: int, session: str, priority: int) -> None:
    """Have the route that the session will be on with this priority."""
    for agent, placement, newest in await store.rows(SQL["route"], tenant, session):
        await store.route(tenant, agent, placement, newest, priority)


async def find_input(store: PostgresStore, tenant: str, session: str, input_id: str) -> Input | None:
    """See `Inbox.find_input`."""
    found = await store.rows(SQL["find"], await store.tenant(tenant), session, stored(input_id))
    check_alive(store, session, found[0][0] if found else None)
    return None if found[0][1] is None else _input(input_id, found[0])


async def waiting_inputs(store: PostgresStore, tenant: str, session: str) -> list[Input]:
    """See `Inbox.inputs`."""
    found = await store.rows(SQL["waiting"], await store.tenant(tenant), session)
    check_alive(store, session, found[0][0] if found else None)
    return [_input(told(row[6]), row) for row in found if row[1] is not None]


def _input(input_id: str, row: Sequence[Any]) -> Input:
    return Input(input_id, told(row[2]), row[5], told_names(row[4]), arrival=row[1], consumed_by=row[3])
