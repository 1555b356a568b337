"""Who gets which session.

`session.ready_at` says from when a session is ready, were it free: it is kept within every statement that changes it,
so no index can miss a session and no sweep is needed; what time alone changes (a wake time that passes, a worker
whose row runs out) is looked at in each claim.

A claim reads a candidate, seals the takeover, and lands it on the condition that the session still stands as it was
read: no lock is held from one round trip to the next, so that a worker that is stopped in between holds up nobody.
Whoever loses the race chooses again; each round that is lost is one that another process has won: those of one process
choose one after the other.

Limits are exact although the choice was made before: the statement that takes counts anew, under a lock of its own
transaction that only claims which state limits wait for.

A claim that is not answered may have landed, or may yet. Its lease would stand for as long as its worker lives, which
knows nothing of it. So it is remembered, and given back before the next claim, until the server must have given it
up.
"""

from typing import Any, Final, Literal

from outlast.world import Claim, Header, Lease, Takeover, WorkerOffer
from outlast.world.commit import make_commit
from outlast.world.hints import key, ready_key
from outlast.world.line import by_priority, woken_first
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.store import PostgresStore
from outlast.worlds.postgres.texts import stored, told
from outlast.worlds.postgres.writes import flags_of, lost_every_race

SQL: Final = statements(__file__)
ROUNDS: Final = 200


async def claim(store: PostgresStore, tenant: str, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
    """See `Queue.claim`."""
    number = await store.tenant(tenant)
    await _give_back(store, number)
    statement = SQL["choose" if offer.only is None else "choose_one"]
    bindings = _bindings(store, number, offer)
    if offer.only is not None:
        return await _race(store, tenant, offer, takeover, statement, bindings)
    # One after the other: all that choose at once choose the same, and but for one of them for nothing.
    async with store.choosing:
        return await _race(store, tenant, offer, takeover, statement, bindings)


async def _race(
    store: PostgresStore,
    tenant: str,
    offer: WorkerOffer,
    takeover: Takeover,
    statement: str,
    bindings: tuple[Any, ...],
) -> Claim | None:
    """Choose and take, against the claims of other processes."""
    number = await store.tenant(tenant)
    for _ in range(ROUNDS):
        found = await store.rows(statement, *bindings)
        if not found:
            return None
        taken = await _take(store, number, offer, takeover, found[0])
        if taken is not None:
            store.told((key(tenant, taken.lease.session),))
            return taken
    raise lost_every_race(store)


def _bindings(store: PostgresStore, tenant: int, offer: WorkerOffer) -> tuple[Any, ...]:
    """What `choose` or `choose_one` is asked with."""
    turns, limits = offer.turns, offer.limits
    agents = sorted(offer.agents)
    order = {agent: turn for turn, agent in enumerate(turns)}
    claims = [turns.get(agent, 0) for agent in agents]
    which: tuple[Any, ...] = (offer.only,)
    if offer.only is None:
        which = (
            [order.get(agent, len(order)) for agent in agents],
            [by_priority(number) for number in claims],
            [woken_first(number) for number in claims],
        )
    return (
        tenant,
        [stored(agent) for agent in agents],
        [stored(placement) for placement in offer.placements],
        offer.max_format,
        [stored(worker) for worker in offer.dead],
        store.now_s,
        *which,
        [stored(agent) for agent in limits.agents],
        list(limits.agents.values()),
        limits.whole,
    )


async def _take(
    store: PostgresStore, tenant: int, offer: WorkerOffer, takeover: Takeover, row: tuple[Any, ...]
) -> Claim | None:
    """Land the takeover of a session, if it still stands as it was read."""
    pk, session, seq, fence, newest, deltas, snapshot_seq = row[:7]
    turn_open, parked, wake_at_s, status, worker, route, agent = row[7:]
    header = Header(
        seq=seq + 1,
        fence=fence + 1,
        format=takeover.format,
        events=takeover.events,
        sealed=deltas,
        turn_open=turn_open,
        wake_at_s=wake_at_s,
        parked=parked,
        status=told(status),
    )
    new = make_commit(header, takeover.body)
    if takeover.format > newest:
        [[_, placement, priority]] = await store.rows(SQL["route"], route)
        route = await store.route(tenant, agent, placement, takeover.format, priority)
    previous = None if worker is None else told(worker)
    proof: Literal["free", "expired", "proved"] = "free"
    if previous is not None:
        proof = "proved" if previous in offer.dead else "expired"
    lease = Lease(session, header.fence, offer.worker)
    bindings = (
        pk,
        seq,
        fence,
        deltas,
        worker,
        proof == "proved",
        store.now_s,
        stored(offer.worker),
        max(newest, takeover.format),
        route,
        header.format,
        header.events,
        wake_at_s,
        flags_of(header),
        new.header.digest,
        status,
        new.body,
        agent,
        offer.limits.agents.get(told(agent)),
        offer.limits.whole,
        [stored(dead) for dead in offer.dead],
        tenant,
    )
    try:
        landed = await store.rows(SQL["take"], *bindings)
    except BaseException:
        store.doubt(tenant, lease, new.header)
        raise
    if not landed:
        return None
    return Claim(lease, header.seq, snapshot_seq, proof, previous, header.status, told(agent))


async def _give_back(store: PostgresStore, tenant: int) -> None:
    """Give back what claims that were not answered may have taken, unless something was done with it."""
    for doubt in store.doubts(tenant):
        lease = doubt.lease
        bindings = (tenant, lease.session, lease.fence, stored(lease.worker), doubt.seq, doubt.digest)
        if await store.rows(SQL["give_back"], *bindings):
            store.settle(doubt)


async def release(store: PostgresStore, tenant: str, lease: Lease) -> None:
    """See `Queue.release`."""
    number = await store.tenant(tenant)
    if await store.rows(SQL["release"], number, lease.session, lease.fence, stored(lease.worker)):
        store.told((ready_key(tenant),))
