"""Who gets which session."""

from collections import Counter
from typing import Literal

from outlast.world import Commit, Header, SessionHead, Takeover, WorkerOffer
from outlast.world.commit import make_commit
from outlast.world.line import precedence
from outlast.worlds.memory.store import MemoryStore, Session


def choose(store: MemoryStore, tenant: str, offer: WorkerOffer) -> Session | None:
    """The session that the offer gets, if any: see `Queue.claim`."""
    kept = [there for (owner, _), there in store.sessions.items() if owner == tenant and not there.erased]
    full = _full(store, kept, offer)
    turns = list(offer.turns)

    def order(there: Session) -> tuple[object, ...]:
        agent = there.head.agent
        turn = turns.index(agent) if agent in offer.turns else len(turns)
        place = there.ready_at or 0.0
        return turn, precedence(place, there.head.priority, offer.turns.get(agent, 0)), there.change

    ready = [there for there in kept if _fits(there.head, offer) and _is_ready(store, there.head, offer)]
    return min((there for there in ready if not full(there.head.agent)), key=order, default=None)


def _full(store: MemoryStore, kept: list[Session], offer: WorkerOffer) -> "_Full":
    limits = offer.limits
    held = Counter(there.head.agent for there in kept if _is_held(store, there.head, offer))
    whole = limits.whole is not None and held.total() >= limits.whole
    return _Full(whole, frozenset(agent for agent, most in limits.agents.items() if held[agent] >= most))


class _Full:
    """Of which agents nothing more may be given."""

    def __init__(self, whole: bool, agents: frozenset[str]) -> None:  # noqa: FBT001 - one of two facts
        self._whole = whole
        self._agents = agents

    def __call__(self, agent: str) -> bool:
        return self._whole or agent in self._agents


def _is_held(store: MemoryStore, head: SessionHead, offer: WorkerOffer) -> bool:
    return store.stands(head.worker) and head.worker not in offer.dead


def _is_ready(store: MemoryStore, head: SessionHead, offer: WorkerOffer) -> bool:
    return not _is_held(store, head, offer) and head.is_ready(store.clock.now())


def _fits(head: SessionHead, offer: WorkerOffer) -> bool:
    wanted = offer.only is None or offer.only == head.session
    return (
        wanted
        and head.agent in offer.agents
        and head.placement in offer.placements
        and head.format <= offer.max_format
    )


def takeover_of(kept: Session, takeover: Takeover) -> Commit:
    """The commit that a claim writes."""
    head = kept.head
    header = Header(
        seq=head.seq + 1,
        fence=head.fence + 1,
        format=takeover.format,
        events=takeover.events,
        sealed=len(kept.deltas.get(head.seq, ())),
        turn_open=head.turn_open,
        wake_at_s=head.wake_at_s,
        parked=head.parked,
        status=head.status,
    )
    return make_commit(header, takeover.body)


def proof_of(head: SessionHead, offer: WorkerOffer) -> Literal["free", "expired", "proved"]:
    """How it is known that nobody holds the session any more."""
    if head.worker is None:
        return "free"
    return "proved" if head.worker in offer.dead else "expired"
