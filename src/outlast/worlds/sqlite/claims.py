"""Who gets which session.

`session.ready_at` says from when a session is ready, were it free: it is kept within every transaction that changes
it, so no index can miss a session and no sweep is needed; what time alone changes (a wake time that passes, a worker
whose row runs out) is looked at in each claim. A claim is a few index lookups, however many sessions there are: for
each route that fits the offer, which is of one agent and one priority, the first in line and the first woken of the
free ones, and of those of each worker that stands no longer. Among these few the order is found (`outlast.world.line`).

Limits are exact: what counts is counted within the transaction that takes, and transactions that write come one after
the other. Only who states limits pays for it, a look at each entry of the index that a standing lease has.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from outlast.world import Claim, Header, Lease, Takeover, WorkerOffer
from outlast.world.commit import make_commit
from outlast.world.hints import ready_key
from outlast.world.line import LINE, precedence
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import ALIVE, Query, Row, Transaction
from outlast.worlds.sqlite.writes import land, shown

SQL: Final = statements(__file__)


class Deadlines(Protocol):
    """Until when workers stand."""

    def __call__(self, worker: str, /) -> float:
        """Unix time."""
        ...


class Route(NamedTuple):
    """What an offer fits. The order is that of `routes`."""

    pk: int
    agent: str
    priority: int


class Found(NamedTuple):
    """A session that the offer may get. The least comes first: see `Queue.claim`."""

    turn: int
    precedence: tuple[int, bool, float]
    pk: int
    agent: str


def find_ready(query: Query, tenant: str, offer: WorkerOffer, deadline: Deadlines) -> Found | None:
    """The session that the offer would get, if any; reads only."""
    routes = [Route(*found) for found in query.rows(SQL["routes"], _routes(tenant, offer))]
    if offer.limits:
        full = _full(query, tenant, offer, deadline)
        routes = [route for route in routes if route.agent not in full]
    if offer.only is not None:
        return _only(query, tenant, offer, deadline, routes)
    return min(_first(query, offer, deadline, routes), default=None)


def _routes(tenant: str, offer: WorkerOffer) -> tuple[str, str, str, int]:
    return tenant, _list(offer.agents), _list(offer.placements), offer.max_format


def _list(names: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def _full(query: Query, tenant: str, offer: WorkerOffer, deadline: Deadlines) -> frozenset[str]:
    """Those of the offered agents of which nothing more may be given."""
    held = Counter[str]()
    for (worker,) in query.rows(SQL["owners"]):
        if not _lost(query, offer, deadline, worker):
            held.update(dict(query.rows(SQL["held_by"], (worker, tenant))))
    limits = offer.limits
    if limits.whole is not None and held.total() >= limits.whole:
        return offer.agents
    return frozenset(agent for agent, most in limits.agents.items() if held[agent] >= most)


def _first(query: Query, offer: WorkerOffer, deadline: Deadlines, routes: list[Route]) -> Iterator[Found]:
    order = {agent: turn for turn, agent in enumerate(offer.turns)}

    def found(route: Route, place: float, pk: int) -> Found:
        claims = offer.turns.get(route.agent, 0)
        turn = order.get(route.agent, len(order))
        return Found(turn, precedence(place, route.priority, claims), pk, route.agent)

    for route in routes:
        for place, pk in query.rows(SQL["first_free"], (route.pk, query.now_s)):
            yield found(route, place, pk)
    for (worker,) in query.rows(SQL["owners"]):
        if _lost(query, offer, deadline, worker):
            for route in routes:
                for place, pk in query.rows(SQL["first_held"], (worker, route.pk, query.now_s)):
                    yield found(route, place, pk)


def _only(
    query: Query, tenant: str, offer: WorkerOffer, deadline: Deadlines, routes: list[Route]
) -> Found | None:
    row = query.find(tenant, offer.only or "")
    route = None if row is None else next((there for there in routes if there.pk == row.route), None)
    if row is None or route is None or row.state != ALIVE:
        return None
    free = row.worker is None or _lost(query, offer, deadline, row.worker)
    if not free or row.ready_at is None or row.ready_at > query.now_s:
        return None
    return Found(0, precedence(row.ready_at, route.priority, 0), row.pk, route.agent)


def _lost(query: Query, offer: WorkerOffer, deadline: Deadlines, worker: str) -> bool:
    return worker in offer.dead or deadline(worker) <= query.now_s


def claim(
    transaction: Transaction, tenant: str, offer: WorkerOffer, takeover: Takeover, deadline: Deadlines
) -> Claim | None:
    """See `Queue.claim`."""
    found = find_ready(transaction, tenant, offer, deadline)
    if found is None:
        return None
    [[*columns, session]] = transaction.rows(SQL["by_number"], (found.pk,))
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
    return Claim(lease, header.seq, row.snapshot_seq, _proof(row, offer), row.worker, row.status, found.agent)


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
