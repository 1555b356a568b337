"""Sessions that begin with the past of another: the server copies its commits, and no bytes of blobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from outlast.errors import BlobUnknown, CommitUnknown, Fenced, SessionExists
from outlast.world import Commit
from outlast.world.checks import check_content
from outlast.world.hints import key, ready_key
from outlast.worlds.postgres.reads import check_alive
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import names, stored, told, told_names
from outlast.worlds.postgres.writes import TRIES, flags_of, lost_every_race, unheld_blob

SQL: Final = statements(__file__)


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork to be made."""

    source: str
    session: str
    first: Commit
    placement: str | None
    labels: Mapping[str, str]
    priority: int

    @property
    def at(self) -> int:
        """Number of the last commit that it shares."""
        return self.first.header.seq - 1


@dataclass(frozen=True, slots=True)
class _Past:
    """What is true of a source up to a commit, whatever happens to it later."""

    pk: int
    agent: str
    placement: str
    fence: int
    format: int
    snapshot_seq: int
    refs: frozenset[str]


async def fork(store: PostgresStore, tenant: str, new: Fork) -> bool:
    """See `Log.fork`."""
    number = await store.tenant(tenant)
    for _ in range(TRIES):
        if await _stands(store, number, new):
            return False
        past = await _past(store, number, new)
        check_content(new.first)
        missing = await unheld_blob(store, number, new.first.header.refs, new.first.blobs)
        if missing is not None:
            raise BlobUnknown(session=new.session, blob=missing, world=store.name)
        if await _make(store, number, new, past):
            store.told((key(tenant, new.session), ready_key(tenant)))
            return True
    raise lost_every_race(store)


async def _past(store: PostgresStore, tenant: int, new: Fork) -> _Past:
    found = await store.rows(SQL["past"], tenant, new.source, new.at)
    check_alive(store, new.source, found[0][0] if found else None)
    _, seq, pk, agent, placement, fence, newest, snapshot_seq, refs = found[0]
    if new.at > seq:
        raise CommitUnknown(session=new.source, seq=new.at, newest=seq)
    if new.first.header.fence != fence:
        raise Fenced(session=new.session, current=fence, fence=new.first.header.fence)
    named = frozenset(name for text in refs for name in told_names(text))
    return _Past(pk, agent, placement, fence, newest, snapshot_seq or 0, named)


async def _make(store: PostgresStore, tenant: int, new: Fork, past: _Past) -> bool:
    header, blobs = new.first.header, new.first.blobs
    placement = past.placement if new.placement is None else stored(new.placement)
    newest = max(past.format, header.format)
    named = {stored(name) for name in (*past.refs, *header.refs, *blobs)}
    given = {stored(name): data for name, data in blobs.items()}
    made = await store.rows(
        SQL["fork"],
        store.now_s,
        tenant,
        await store.route(tenant, past.agent, placement, newest, new.priority),
        new.session,
        header.turn_open,
        header.parked,
        header.wake_at_s,
        newest,
        header.seq if header.snapshot else past.snapshot_seq,
        stored(header.status),
        header.format,
        header.events,
        flags_of(header),
        header.digest,
        names(header.consumes),
        names(header.refs),
        new.first.body,
        sorted(named),
        sorted(named - given.keys()),
        list(given),
        list(given.values()),
        [stored(name) for name in new.labels],
        [stored(value) for value in new.labels.values()],
        past.pk,
        past.fence,
        header.seq,
    )
    return bool(made)


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
    differences = {
        "it is the source": bool(source) and source[0][0] == pk,
        "another first commit": first != new.first.header.digest,
        "another past": bool(source) and source[0][1] != past,
        "another placement": new.placement not in {None, told(placement)},
        "another labels": dict(zip(map(told, label_names), map(told, label_values), strict=True))
        != dict(new.labels),
    }
    for difference, holds in differences.items():
        if holds:
            raise SessionExists(session=new.session, difference=difference)
    return True
