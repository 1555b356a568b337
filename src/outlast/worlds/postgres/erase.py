"""Removing a session: the tombstone at once, the rest in pieces that hold their locks briefly."""

from typing import Final

from outlast.errors import SessionUnknown
from outlast.world.hints import key
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore

SQL: Final = statements(__file__)
PIECE: Final = 200
DEAD: Final = 2


async def erase(store: PostgresStore, tenant: str, session: str) -> None:
    """See `Log.erase`. What was begun and cut short is taken up again."""
    number = await store.tenant(tenant)
    if await store.rows(SQL["entomb"], number, session):
        store.told((key(tenant, session),))
    found = await store.rows(SQL["find"], number, session)
    if not found:
        raise SessionUnknown(session=session, world=store.name)
    pk, state = found[0]
    if state == DEAD:
        return
    for statement in (SQL["erase_commits"], SQL["erase_deltas"]):
        while (await store.rows(statement, pk, PIECE))[0][0]:
            pass
    while await _erase_blobs(store, pk):
        pass
    await store.rows(SQL["bury"], pk)


async def _erase_blobs(store: PostgresStore, pk: int) -> bool:
    """Remove a piece of its blobs, those that nobody else names; returns whether there may be more."""
    async with store.transaction() as transaction:
        blobs = [found[0] for found in await transaction.rows(SQL["lock_blobs"], pk, PIECE)]
        await transaction.rows(SQL["erase_blobs"], pk, blobs)
    return bool(blobs)
