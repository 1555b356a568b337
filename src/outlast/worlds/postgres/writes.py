"""Commits and deltas: what may land, and everything that changes with it.

Statements only land what may land beyond doubt. What did not land is judged by a second statement with a snapshot of
its own (`explain`), which says why not, or that it had landed already, or that nothing stands in its way: then the
first statement had read too early (a competitor's commit came between its snapshot and its locks), and it is put
again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from outlast.errors import (
    BlobUnknown,
    CommitConflict,
    Fenced,
    InputTaken,
    NotIdle,
    OutlastError,
    WorldUnavailable,
)
from outlast.world import Commit, Delta, Header, Lease
from outlast.world.beginning import Opening
from outlast.world.checks import check_content
from outlast.world.hints import key, ready_key
from outlast.worlds.postgres.reads import check_alive
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import names, stored, told, told_labels
from outlast.worlds.postgres.together import Places, columns_of_spent, is_plain, land_one, land_plain

SQL: Final = statements(__file__)
TRIES: Final = 20
AGAIN: Final = Exception("to be put again")
"""Stands for a result that is not known yet."""
PIECE: Final = 500
"""Rows of deltas that one statement frees."""

_packs = msgspec.msgpack.Encoder()


def lost_every_race(store: PostgresStore) -> WorldUnavailable:
    """Others came first each time."""
    return WorldUnavailable(world=store.name, reason="others changed the same session each time it was tried")


def flags_of(header: Header) -> int:
    """What is true of a commit, as it is stored."""
    return header.turn_open | header.parked << 1 | header.snapshot << 2 | header.release << 3


@dataclass(frozen=True, slots=True)
class Past:
    """What lies beneath a session's first commit of its own: of a fork the past of its source, which never changes."""

    source: int | None = None
    fence: int = 0
    format: int = 0
    snapshot_seq: int = 0
    refs: frozenset[str] = frozenset()


async def create(store: PostgresStore, tenant: str, new: Opening) -> bool:
    """See `Log.create`."""
    number = await store.tenant(tenant)
    for _ in range(TRIES):
        standing = await _standing_opening(store, number, new)
        if standing:
            return False
        header = new.first.header
        check_content(new.first)
        if header.consumes:
            reason = "it is not in the inbox"
            raise InputTaken(session=new.session, input=header.consumes[0], reason=reason)
        missing = await unheld_blob(store, number, header.refs, new.first.blobs)
        if missing is not None:
            raise BlobUnknown(session=new.session, blob=missing, world=store.name)
        number = await store.make_tenant(tenant)
        if await make_session(store, number, new, Past()):
            store.told((key(tenant, new.session), ready_key(tenant)))
            return True
    raise lost_every_race(store)


async def make_session(store: PostgresStore, tenant: int, new: Opening, past: Past) -> bool:
    """Make a session with its first commit, on top of a past. False: something stands in its way by now."""
    header, blobs = new.first.header, new.first.blobs
    agent, placement = stored(new.agent), stored(new.placement)
    newest = max(past.format, header.format)
    named = {stored(name) for name in (*past.refs, *header.refs, *blobs)}
    given = {stored(name): data for name, data in blobs.items()}
    made = await store.rows(
        SQL["create"],
        store.now_s,
        tenant,
        await store.route(tenant, agent, placement, newest, new.priority),
        new.session,
        header.turn_open,
        header.parked,
        header.wake_at_s,
        newest,
        header.seq if header.snapshot else past.snapshot_seq,
        stored(header.status),
        header.format,
        header.events,
        header.sealed,
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
        past.source,
        past.fence,
        header.seq,
    )
    return bool(made)


async def _standing_opening(store: PostgresStore, tenant: int, new: Opening) -> bool:
    """The very same opening stands already.

    Raises:
        SessionExists, SessionErased
    """
    found = await store.rows(SQL["opening"], tenant, new.session)
    if not found:
        return False
    state, digest, agent, placement, label_names, label_values = found[0]
    check_alive(store, new.session, state)
    labels = told_labels(label_names, label_values)
    new.check_same(digest, told(agent), told(placement), labels)
    return True


async def unheld_blob(
    store: PostgresStore, tenant: int, refs: Sequence[str], given: Collection[str]
) -> str | None:
    """The first of `refs` that is neither given nor held."""
    wanted = [ref for ref in refs if ref not in given]
    if not wanted:
        return None
    held = {told(found[0]) for found in await store.rows(SQL["held_blobs"], tenant, [*map(stored, wanted)])}
    return next((ref for ref in wanted if ref not in held), None)


async def commit_many(
    store: PostgresStore, tenant: str, commits: Sequence[tuple[Lease, Commit]]
) -> list[Exception | None]:
    """See `Log.commit_many`."""
    number = await store.tenant(tenant)
    if len(commits) == 1 and is_plain(commits[0][1]) and await land_one(store, number, *commits[0]):
        store.told((key(tenant, commits[0][0].session),))
        return [None]
    results: list[Exception | None] = [None] * len(commits)
    left = dict(enumerate(commits))
    for _ in range(TRIES):
        # At most one of each session, also if the caller gave more.
        asked = {place: commits[place] for place in _firsts(left)}
        landed = await _land(store, number, asked)
        _tell(store, tenant, [commits[place] for place in landed])
        for place, entry in asked.items():
            verdict = None if place in landed else await _judge(store, number, entry)
            if verdict is not AGAIN:
                results[place] = verdict
                del left[place]
        if not left:
            return results
    raise lost_every_race(store)


async def _judge(store: PostgresStore, tenant: int, entry: tuple[Lease, Commit]) -> Exception | None:
    """The result of a commit that did not land just now; `AGAIN` if nothing stands in its way."""
    try:
        had_landed = await _explain(store, tenant, entry, idle=False)
    except WorldUnavailable:
        raise
    except OutlastError as error:
        return error
    return None if had_landed else AGAIN


def _firsts(left: Places) -> list[int]:
    sessions: dict[str, int] = {}
    for place, (lease, _) in left.items():
        sessions.setdefault(lease.session, place)
    return list(sessions.values())


async def _land(store: PostgresStore, tenant: int, asked: Places) -> frozenset[int]:
    """Write those of commits of different sessions that may land beyond doubt; returns their places."""
    fit = {place: entry for place, entry in asked.items() if _may_be_sent(*entry)}
    if not fit:
        return frozenset()
    if len(fit) > 1 and all(is_plain(new) for _, new in fit.values()):
        landed = await land_plain(store, tenant, fit)
        # A plain commit may still bring a newer format, or wake its session: the general statement knows.
        rest = {place: entry for place, entry in fit.items() if place not in landed}
        return landed | await _land_any(store, tenant, rest) if rest else landed
    return await _land_any(store, tenant, fit)


def _may_be_sent(lease: Lease, new: Commit) -> bool:
    """Nothing about the commit itself is wrong; what is, is told by `_explain` in its turn."""
    header = new.header
    if lease.fence != header.fence or len(set(header.consumes)) < len(header.consumes):
        return False
    try:
        check_content(new)
    except OutlastError:
        return False
    return True


async def _land_any(
    store: PostgresStore, tenant: int, asked: Places, *, idle: bool = False
) -> frozenset[int]:
    columns: list[tuple[Any, ...]] = []
    consumed: list[tuple[int, str]] = []
    named: dict[tuple[int, str], bool] = {}
    given: dict[str, bytes] = {}
    for ordinal, (lease, new) in enumerate(asked.values(), 1):
        columns.append(_columns(lease, new))
        consumed += [(ordinal, stored(name)) for name in new.header.consumes]
        named |= {(ordinal, stored(name)): False for name in new.header.refs}
        named |= {(ordinal, stored(name)): True for name in new.blobs}
        given |= {stored(name): data for name, data in new.blobs.items() if stored(name) not in given}
    landed = await store.rows(
        SQL["land"],
        tenant,
        store.now_s,
        idle,
        *zip(*columns, strict=True),
        [ordinal for ordinal, _ in consumed],
        [name for _, name in consumed],
        [ordinal for ordinal, _ in named],
        [name for _, name in named],
        list(named.values()),
        list(given),
        list(given.values()),
        *columns_of_spent([new.spent for _, new in asked.values()]),
    )
    places = list(asked)
    return frozenset(places[int(row[0]) - 1] for row in landed)


def _columns(lease: Lease, new: Commit) -> tuple[Any, ...]:
    header = new.header
    return (
        lease.session,
        header.seq,
        header.fence,
        stored(lease.worker),
        header.format,
        header.events,
        header.sealed,
        flags_of(header),
        header.digest,
        header.wake_at_s,
        stored(header.status),
        names(header.consumes),
        names(header.refs),
        new.body,
        len(header.consumes),
    )


def _tell(store: PostgresStore, tenant: str, landed: Sequence[tuple[Lease, Commit]]) -> None:
    told_keys = {key(tenant, lease.session) for lease, _ in landed}
    if any(new.header.release for _, new in landed):
        told_keys.add(ready_key(tenant))
    if told_keys:
        store.told(told_keys)


async def _explain(store: PostgresStore, tenant: int, entry: tuple[Lease, Commit], *, idle: bool) -> bool:
    """Why a commit did not land: True if it had landed, False if nothing stands in its way (any more).

    Raises:
        OutlastError: why it cannot land.
    """
    lease, new = entry
    header, session = new.header, lease.session
    consumes, refs = [stored(name) for name in header.consumes], [stored(name) for name in header.refs]
    found = await store.rows(SQL["explain"], tenant, session, header.seq, consumes, refs, store.now_s)
    check_alive(store, session, found[0][0] if found else None)
    seq, fence, worker, turn_open, newest, agent, placement, stands, digest = found[0][1:10]
    if digest == header.digest and 1 <= header.seq <= seq:
        return True
    if idle and (turn_open or stands):
        raise NotIdle(session=session, reason="a turn is open" if turn_open else "a lease stands")
    ours = idle or (lease.fence == header.fence and worker is not None and told(worker) == lease.worker)
    if fence != header.fence or not ours:
        raise Fenced(session=session, current=fence, fence=header.fence)
    if header.seq != seq + 1:
        raise CommitConflict(session=session, seq=header.seq)
    check_content(new)
    _check_needs(store, session, new, found[0][10:13])
    if header.format > newest:
        await store.route(tenant, agent, placement, header.format, found[0][14])
    return False


def _check_needs(store: PostgresStore, session: str, new: Commit, there: Sequence[Sequence[str]]) -> None:
    """Refuse a commit that consumes or names what is not there; `there`: inputs, those that wait, blobs."""
    inputs, waiting, blobs = (set(map(told, found)) for found in there)
    consumes = new.header.consumes
    for position, name in enumerate(consumes):
        if name not in waiting or name in consumes[:position]:
            reason = "it was already consumed" if name in inputs else "it is not in the inbox"
            raise InputTaken(session=session, input=name, reason=reason)
    for ref in new.header.refs:
        if ref not in new.blobs and ref not in blobs:
            raise BlobUnknown(session=session, blob=ref, world=store.name)


async def commit_idle(store: PostgresStore, tenant: str, session: str, new: Commit) -> None:
    """See `Log.commit_idle`."""
    number = await store.tenant(tenant)
    entry = (Lease(session, new.header.fence, ""), new)
    for _ in range(TRIES):
        if _may_be_sent(*entry) and await _land_any(store, number, {0: entry}, idle=True):
            store.told((key(tenant, session), ready_key(tenant)))
            return
        if await _explain(store, number, entry, idle=True):
            return
    raise lost_every_race(store)


async def publish(
    store: PostgresStore, tenant: str, lease: Lease, place: tuple[int, int], deltas: Sequence[Delta]
) -> None:
    """See `Log.publish`; `place` is the commit and the index of the first delta."""
    after, first = place
    number = await store.tenant(tenant)
    there = first
    for _ in range(TRIES):
        fresh = [delta.body for delta in deltas[there - first :]]
        if fresh and await store.rows(
            SQL["publish"],
            number,
            lease.session,
            after,
            lease.fence,
            stored(lease.worker),
            there,
            len(fresh),
            _packs.encode(fresh),
        ):
            store.told((key(tenant, lease.session),))
            return
        seq, there = await _held(store, number, lease)
        if after != seq or first > there:
            raise CommitConflict(session=lease.session, seq=after)
        if there - first >= len(deltas):
            return
    raise lost_every_race(store)


async def _held(store: PostgresStore, tenant: int, lease: Lease) -> tuple[int, int]:
    """Number of the newest commit, and how many deltas stand after it, while the lease is still the newest.

    Raises:
        Fenced, SessionUnknown, SessionErased
    """
    found = await store.rows(SQL["stand"], tenant, lease.session)
    check_alive(store, lease.session, found[0][0] if found else None)
    _, seq, fence, worker, deltas = found[0]
    if fence != lease.fence or worker is None or told(worker) != lease.worker:
        raise Fenced(session=lease.session, current=fence, fence=lease.fence)
    return seq, deltas


async def drop_deltas(store: PostgresStore, tenant: str, lease: Lease, before: int) -> None:
    """See `Log.drop_deltas`."""
    number = await store.tenant(tenant)
    while True:
        freed = await store.rows(
            SQL["drop"], number, lease.session, lease.fence, stored(lease.worker), before, PIECE
        )
        if not freed:
            await _held(store, number, lease)
            return
        if freed[0][0] < PIECE:
            return
