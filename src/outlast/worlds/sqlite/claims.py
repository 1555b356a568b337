"""Who gets which session.

`session.ready_at` says from when a session is ready, were it free: it is kept within every transaction that changes
it, so no index can miss a session and no sweep is needed; what time alone changes (a wake time that passes, a worker
whose row runs out) is looked at in each claim. A claim is a few index lookups, however many sessions there are: for
each route that fits the offer the first in line of the free ones, and of those of each worker that stands no longer.
"""

from collections.abc import Iterator
from typing import Final, Literal, Protocol

import msgspec

from outlast.world import Claim, Header, Lease, Takeover, WorkerOffer
from outlast.world.commit import make_commit
from outlast.world.hints import ready_key
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import ALIVE, Query, Row, Transaction
from outlast.worlds.sqlite.writes import LINE, land, shown

SQL: Final = statements(__file__)


class Deadlines(Protocol):
    """Until when workers stand."""

    def __call__(self, worker: str, /) -> float:
        """Unix time."""
        ...


def find_ready(query: Query, tenant: str, offer: WorkerOffer, deadline: Deadlines) -> int | None:
    """The number of the session that the offer would get, if any; reads only."""
    routes = [pk for (pk,) in query.rows(SQL["routes"], _routes(tenant, offer))]
    if offer.only is not None:
        return _only(query, tenant, offer, deadline, routes)
    found = min(_first(query, offer, deadline, routes), default=None)
    return None if found is None else found[1]


def _routes(tenant: str, offer: WorkerOffer) -> tuple[str, str, str, int]:
    return tenant, _list(offer.agents), _list(offer.placements), offer.max_format


def _list(names: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def _first(
    query: Query, offer: WorkerOffer, deadline: Deadlines, routes: list[int]
) -> Iterator[tuple[float, int]]:
    for route in routes:
        yield from query.rows(SQL["first_free"], (route, query.now_s))
    for (worker,) in query.rows(SQL["owners"]):
        if _lost(query, offer, deadline, worker):
            for route in routes:
                yield from query.rows(SQL["first_held"], (worker, route, query.now_s))


def _only(
    query: Query, tenant: str, offer: WorkerOffer, deadline: Deadlines, routes: list[int]
) -> int | None:
    row = query.find(tenant, offer.only or "")
    if row is None or row.state != ALIVE or row.route not in routes:
        return None
    free = row.worker is None or _lost(query, offer, deadline, row.worker)
    return row.pk if free and row.ready_at is not None and row.ready_at <= query.now_s else None


def _lost(query: Query, offer: WorkerOffer, deadline: Deadlines, worker: str) -> bool:
    return worker in offer.dead or deadline(worker) <= query.now_s


def claim(
    transaction: Transaction, tenant: str, offer: WorkerOffer, takeover: Takeover, deadline: Deadlines
) -> Claim | None:
    """See `Queue.claim`."""
    pk = find_ready(transaction, tenant, offer, deadline)
    if pk is None:
        return None
    [[*columns, session]] = transaction.rows(SQL["by_number"], (pk,))
    row = Row(*columns)
    header = Header(
        seq=row.seq + 1,
        fence=row.fence + 1,
        format=takeover.format,
        events=takeover.events,
        sealed=shown(transaction, row),
        turn_open=bool(row.turn_open),
        wake_at_s=row.wake_at_s,
        parked=bool(row.parked),
        status=row.status,
    )
    new = make_commit(header, takeover.body)
    land(transaction, tenant, session, row, new, worker=offer.worker)
    lease = Lease(session, header.fence, offer.worker)
    return Claim(lease, header.seq, row.snapshot_seq, _proof(row, offer), row.worker, row.status)


def _proof(row: Row, offer: WorkerOffer) -> Literal["free", "expired", "proved"]:
    if row.worker is None:
        return "free"
    return "proved" if row.worker in offer.dead else "expired"


def release(transaction: Transaction, tenant: str, lease: Lease) -> None:
    """See `Queue.release`."""
    row = transaction.find(tenant, lease.session)
    if row is None or row.state != ALIVE or (row.fence, row.worker) != (lease.fence, lease.worker):
        return
    in_line = row.ready_at is not None and row.ready_at < 0
    # Behind all that already wait.
    ready = transaction.next_change(tenant) - LINE if in_line else row.ready_at
    transaction.run(SQL["release"], (ready, row.pk))
    transaction.told.add(ready_key(tenant))


def owners(query: Query) -> set[str]:
    """Every worker that a session names."""
    return {worker for (worker,) in query.rows(SQL["owners"])}
