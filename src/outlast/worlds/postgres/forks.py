"""Sessions that begin with the past of another: the server copies its commits, and no bytes of blobs."""

from typing import Final

from outlast.errors import BlobUnknown, CommitUnknown, Fenced
from outlast.world.beginning import Fork, Opening
from outlast.world.checks import check_content
from outlast.world.hints import key, ready_key
from outlast.worlds.postgres.reads import check_alive
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import told, told_labels, told_names
from outlast.worlds.postgres.writes import TRIES, Past, lost_every_race, make_session, unheld_blob

SQL: Final = statements(__file__)


async def fork(store: PostgresStore, tenant: str, new: Fork) -> bool:
    """See `Log.fork`."""
    number = await store.tenant(tenant)
    for _ in range(TRIES):
        if await _stands(store, number, new):
            return False
        agent, placement, past = await _past(store, number, new)
        check_content(new.first)
        missing = await unheld_blob(store, number, new.first.header.refs, new.first.blobs)
        if missing is not None:
            raise BlobUnknown(session=new.session, blob=missing, world=store.name)
        placement = placement if new.placement is None else new.placement
        opening = Opening(new.session, new.first, agent, placement, new.labels, new.priority)
        if await make_session(store, number, opening, past):
            store.told((key(tenant, new.session), ready_key(tenant)))
            return True
    raise lost_every_race(store)


async def _past(store: PostgresStore, tenant: int, new: Fork) -> tuple[str, str, Past]:
    """The source's agent, its placement, and what is true of it up to the commit, whatever happens to it later."""
    found = await store.rows(SQL["past"], tenant, new.source, new.at)
    check_alive(store, new.source, found[0][0] if found else None)
    _, seq, pk, agent, placement, fence, newest, snapshot_seq, refs = found[0]
    if new.at > seq:
        raise CommitUnknown(session=new.source, seq=new.at, newest=seq)
    if new.first.header.fence != fence:
        raise Fenced(session=new.session, current=fence, fence=new.first.header.fence)
    named = frozenset(name for text in refs for name in told_names(text))
    return told(agent), told(placement), Past(pk, fence, newest, snapshot_seq or 0, named)


async def _stands(store: PostgresStore, tenant: int, new: Fork) -> bool:
    """The very same fork stands already.

    Raises:
        SessionExists, SessionErased
    """
    found = await store.rows(SQL["standing"], tenant, new.session, new.at)
    if not found:
        return False
    state, pk, placement, past, first, label_names, label_values = found[0]
    check_alive(store, new.session, state)
    source = await store.rows(SQL["digest"], tenant, new.source, new.at)
    new.check_same(
        itself=bool(source) and source[0][0] == pk,
        digest=first or "",
        same_past=not source or source[0][1] == past,
        placement=told(placement),
        labels=told_labels(label_names, label_values),
    )
    return True
