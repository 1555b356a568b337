"""Commits and deltas: what may land, and everything that changes with it. All within one transaction."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from outlast.errors import (
    BlobUnknown,
    CommitConflict,
    Fenced,
    InputTaken,
    NotIdle,
    OutlastError,
    SessionErased,
)
from outlast.world import Commit, Delta, Header, Lease
from outlast.world.beginning import Opening
from outlast.world.checks import check_content
from outlast.world.commit import DAY_S, SPENT_DAYS
from outlast.world.hints import key, ready_key
from outlast.world.line import ready_at
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.together import land_together
from outlast.worlds.sqlite.transaction import ALIVE, SHIFT, Row, Transaction

SQL: Final = statements(__file__)
ADD_COMMIT: Final = SQL["add_commit"]
ADVANCE: Final = SQL["advance"]
ADVANCE_ALL: Final = SQL["advance_all"]
DIGEST: Final = SQL["digest"]
SHOW: Final = SQL["show"]
SHOWN: Final = SQL["shown"]

PIECE: Final = 500
"""Rows of deltas that one transaction frees: it holds the write lock for a millisecond or a few."""

_packs = msgspec.msgpack.Encoder()


def create(transaction: Transaction, tenant: str, new: Opening) -> bool:
    """See `Log.create`."""
    found = transaction.find(tenant, new.session)
    if found is not None:
        return _same_opening(transaction, found, new)
    check_new(transaction, transaction.find_tenant(tenant), 0, new)
    newest = new.first.header.format
    row = open_row(transaction, tenant, new, newest)
    land(transaction, tenant, new.session, row._replace(format=newest), new.first)
    return True


def open_row(transaction: Transaction, tenant: str, new: Opening, newest: int) -> Row:
    """Make the row of a session, without commits and for workers that read the format `newest`, and its labels."""
    transaction.run(SQL["add_tenant"], (tenant,))
    number = transaction.find_tenant(tenant)
    route = find_route(transaction, (number, new.agent, new.placement, newest, new.priority))
    transaction.run(SQL["add_session"], (number, new.session, route, transaction.now_s, transaction.now_s))
    row = transaction.get(tenant, new.session)
    for name, value in new.labels.items():
        transaction.run(SQL["add_label"], (row.pk, name, value))
    return row


def _same_opening(transaction: Transaction, row: Row, new: Opening) -> bool:
    if row.state != ALIVE:
        raise SessionErased(session=new.session)
    digest, agent, placement = transaction.one(SQL["opening"], (row.at(1), row.pk)) or ("", "", "")
    new.check_same(digest, agent, placement, dict(transaction.rows(SQL["labels"], (row.pk,))))
    return False


def commit_many(
    transaction: Transaction, tenant: str, commits: Sequence[tuple[Lease, Commit]]
) -> list[Exception | None]:
    """See `Log.commit_many`."""
    landed = land_together(transaction, tenant, commits)
    results: list[Exception | None] = []
    for place, (lease, new) in enumerate(commits):
        try:
            if place not in landed:
                _commit(transaction, tenant, lease, new)
        except OutlastError as error:
            results.append(error)
        else:
            results.append(None)
    return results


def _commit(transaction: Transaction, tenant: str, lease: Lease, new: Commit) -> None:
    session, header = lease.session, new.header
    row = transaction.get(tenant, session)
    if _landed(transaction, row, header):
        return
    if not (row.fence == lease.fence == header.fence and row.worker == lease.worker):
        raise Fenced(session=session, current=row.fence, fence=header.fence)
    _check(transaction, row.tenant, (row, row.seq), session, new)
    land(transaction, tenant, session, row, new, worker=None if header.release else row.worker)


def commit_idle(transaction: Transaction, tenant: str, session: str, new: Commit) -> None:
    """See `Log.commit_idle`."""
    row = transaction.get(tenant, session)
    if _landed(transaction, row, new.header):
        return
    if row.turn_open or transaction.stands(row.worker):
        raise NotIdle(session=session, reason="a turn is open" if row.turn_open else "a lease stands")
    if new.header.fence != row.fence:
        raise Fenced(session=session, current=row.fence, fence=new.header.fence)
    _check(transaction, row.tenant, (row, row.seq), session, new)
    land(transaction, tenant, session, row, new, worker=row.worker)


def _landed(transaction: Transaction, row: Row, header: Header) -> bool:
    if not 1 <= header.seq <= row.seq:
        return False
    found = transaction.one(DIGEST, (row.at(header.seq),))
    return found is not None and found[0] == header.digest


def check_new(transaction: Transaction, tenant: int | None, seq: int, new: Opening) -> None:
    """Refuse a first commit that cannot land in a session that has `seq` commits before it and no inbox.

    Raises:
        CommitConflict, BadPayload, InputTaken, BlobUnknown
    """
    _check(transaction, tenant, (None, seq), new.session, new.first)


def _check(
    transaction: Transaction, tenant: int | None, place: tuple[Row | None, int], session: str, new: Commit
) -> None:
    """Refuse what cannot land, before anything is written.

    Args:
        place: its session, if there is one, and the number of its newest commit.
    """
    header, (row, seq) = new.header, place
    if header.seq != seq + 1:
        raise CommitConflict(session=session, seq=header.seq)
    check_content(new)
    for position, name in enumerate(header.consumes):
        found = transaction.one(SQL["unconsumed"], (row.pk, name)) if row else None
        if found is None or found[0] is not None or name in header.consumes[:position]:
            reason = "it is not in the inbox" if found is None else "it was already consumed"
            raise InputTaken(session=session, input=name, reason=reason)
    check_blobs(transaction, tenant, session, header.refs, new.blobs)


def check_blobs(
    transaction: Transaction,
    tenant: int | None,
    session: str,
    refs: Sequence[str],
    given: Mapping[str, bytes],
) -> None:
    """Refuse names of blobs that are neither given nor held.

    Raises:
        BlobUnknown
    """
    for ref in refs:
        if ref not in given and transaction.one(SQL["find_blob"], (tenant, ref)) is None:
            raise BlobUnknown(session=session, blob=ref, world=transaction.world)


def keep_blobs(transaction: Transaction, row: Row, refs: Sequence[str], given: Mapping[str, bytes]) -> None:
    """Store what is given and not there yet, and let the session name it and `refs`."""
    for name in {*refs, *given}:
        found = transaction.one(SQL["find_blob"], (row.tenant, name))
        if found is None:
            found = transaction.one(SQL["add_blob"], (row.tenant, name, given[name]))
        transaction.run(SQL["name_blob"], (row.pk, found[0] if found else None))


def land(
    transaction: Transaction, tenant: str, session: str, row: Row, new: Commit, *, worker: str | None = None
) -> None:
    """Write a commit that may land, with everything that its header changes."""
    header = new.header
    if header.refs or new.blobs:
        keep_blobs(transaction, row, header.refs, new.blobs)
    for name in header.consumes:
        transaction.run(SQL["consume"], (header.seq, row.pk, name))
    if new.spent is not None:
        transaction.run(SQL["spend"], (row.tenant, *msgspec.structs.astuple(new.spent)))
        transaction.run(SQL["forget_spent"], (row.tenant, int(transaction.now_s // DAY_S) - SPENT_DAYS))
    transaction.run(ADD_COMMIT, (row.at(header.seq), *_columns(header), new.body))
    _advance(transaction, tenant, row, header, worker)
    transaction.told.add(key(tenant, session))
    if worker is None:
        transaction.told.add(ready_key(tenant))


def _columns(header: Header) -> tuple[str | int | float | None, ...]:
    flags = header.turn_open | header.parked << 1 | header.snapshot << 2 | header.release << 3
    return (
        header.fence,
        header.format,
        header.events,
        header.sealed,
        flags,
        header.digest,
        header.wake_at_s,
        header.status,
        texts(header.consumes),
        texts(header.refs),
    )


def texts(names: Sequence[str]) -> str | None:
    """Some names as they are stored."""
    return msgspec.json.encode(names).decode() if names else None


def _advance(transaction: Transaction, tenant: str, row: Row, header: Header, worker: str | None) -> None:
    waiting = row.waiting - len(header.consumes)
    change = transaction.next_change(tenant)
    # Who gives a session up joins the line at its end.
    stood = row.ready_at if worker == row.worker or row.worker is None else None
    ready = ready_at(header, waiting, stood, change)
    route, newest = row.route, max(row.format, header.format)
    if newest != row.format:
        route = move_route(transaction, row, newest=newest)
    common = (
        header.seq,
        header.seq if header.snapshot else row.snapshot_seq,
        header.turn_open,
        header.parked,
        header.wake_at_s,
        header.status,
        waiting,
        change,
        transaction.now_s,
    )
    if (worker, route, ready, header.fence) == (row.worker, row.route, row.ready_at, row.fence) and row.seq:
        transaction.run(ADVANCE, (*common, row.pk))
    else:
        transaction.run(ADVANCE_ALL, (*common, header.fence, newest, worker, route, ready, row.pk))


def move_route(
    transaction: Transaction, row: Row, *, newest: int | None = None, priority: int | None = None
) -> int:
    """The route of the session, had it that newest format or that priority."""
    [[tenant, agent, placement, format_, stood]] = transaction.rows(SQL["route_of"], (row.route,))
    wanted = (newest or format_, stood if priority is None else priority)
    return find_route(transaction, (tenant, agent, placement, *wanted))


def find_route(transaction: Transaction, facts: tuple[int | None, str, str, int, int]) -> int:
    """The number of a route, which there is from now on: tenant, agent, placement, format, priority."""
    transaction.run(SQL["add_route"], facts)
    [[route]] = transaction.rows(SQL["find_route"], facts)
    return route


def shown(transaction: Transaction, row: Row) -> int:
    """How many deltas are stored after the newest commit."""
    found = transaction.one(SHOWN, (row.at(row.seq),))
    return found[0] if found else 0


def publish(
    transaction: Transaction, tenant: str, lease: Lease, place: tuple[int, int], deltas: Sequence[Delta]
) -> None:
    """See `Log.publish`; `place` is the commit and the index of the first delta."""
    after, first = place
    session = lease.session
    row = _held(transaction, tenant, lease)
    there = shown(transaction, row)
    if after != row.seq or first > there:
        raise CommitConflict(session=session, seq=after)
    fresh = [delta.body for delta in deltas[there - first :]]
    if fresh:
        transaction.run(SHOW, (row.pk << SHIFT | after, there, len(fresh), _packs.encode(fresh)))
        transaction.told.add(key(tenant, session))


def drop_deltas(transaction: Transaction, tenant: str, lease: Lease, before: int) -> bool:
    """Free a piece of what `Log.drop_deltas` frees, the oldest first; returns whether there may be more."""
    row = _held(transaction, tenant, lease)
    piece = (row.at(0), row.at(min(before, row.seq)), PIECE)
    return len(transaction.rows(SQL["drop"], piece)) == PIECE


def _held(transaction: Transaction, tenant: str, lease: Lease) -> Row:
    """The session of a lease that is still its newest."""
    row = transaction.get(tenant, lease.session)
    if row.fence != lease.fence or row.worker != lease.worker:
        raise Fenced(session=lease.session, current=row.fence, fence=lease.fence)
    return row
