"""Who may advance which session, and until when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Proof: TypeAlias = Literal["free", "expired", "proved"]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """The liveness of one worker: its leases stand as long as this row does."""

    worker: str
    holder: str
    """What proves its death on its own host: text of an `outlast` holder (host and lock)."""
    deadline_s: float
    """Unix time by the World's clock up to which its leases stand."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most sessions of one tenant that are advanced at once, by all workers together.

    What counts is leases that stand. A limit binds the claims that state it: whoever states none, or a higher one,
    passes it, so all workers of a tenant are started with the same.
    """

    agents: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the agent's name; one that is not named has no limit of its own."""
    whole: int | None = None
    """Of the whole tenant, all its agents together; None: no limit."""

    def __bool__(self) -> bool:
        return bool(self.agents) or self.whole is not None


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    """What a worker can advance. Sessions that it does not fit are never given to it."""

    worker: str
    agents: frozenset[str]
    """Names of agents it has code for."""
    max_format: int
    """Newest record format it reads."""
    placements: frozenset[str] = frozenset({"any"})
    dead: frozenset[str] = frozenset()
    """Ids of workers that the caller has proved dead: their leases no longer stand."""
    only: str | None = None
    """Claim this session or none."""
    turns: Mapping[str, int] = field(default_factory=dict[str, int])
    """Whose turn it is: agents, the first to be served first, each with how many of its sessions this worker has
    claimed before. Agents that are not named come after them."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Takeover:
    """The commit that a claim writes.

    The World makes its header: next number, fence + 1, what the store holds of `sealed`, and turn, wake time,
    parking and status as they stood.
    """

    body: bytes
    events: int
    format: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to advance a session, with the fence that each of its writes carries."""

    session: str
    fence: int
    worker: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A session that was claimed."""

    lease: Lease
    seq: int
    """Number of the takeover commit, the head."""
    snapshot_seq: int
    proof: Proof
    """`free`: nobody held it. `proved`: the holder was proved dead. `expired`: its time ran out or its row is
    gone, and it may still be dying: recovery of anything not `safe` waits for the kill grace."""
    previous: str | None = None
    """Id of the worker that held it."""
    status: str = ""
    agent: str = ""
    """Name of the agent it is a session of."""


class Liveness(Protocol):
    """A worker's own handle on its liveness row, for its keeper's thread: never behind the World's write lock."""

    def renew(self, row: WorkerRow, ttl_s: float) -> float:
        """Let the worker's leases stand for `ttl_s` seconds from now, by the World's clock. Creates the row.

        Returns the seconds for which they are sure to stand, counted from before the call.

        Raises:
            WorldUnavailable: it did not happen, as far as is known.
        """
        ...

    def retire(self, worker: str) -> None:
        """The worker ends: its leases no longer stand."""
        ...

    def close(self) -> None: ...


class Queue(Protocol):
    """No second store: a session is *ready* when no lease stands on it and one of these holds.

    * its inbox holds something (any unconsumed input);
    * its wake time has passed;
    * a turn is open, it is not parked, and it has no wake time.

    A lease stands while its worker's row does (`Liveness`), unless released or the worker is among the
    offer's `dead`: a worker renews before its first claim. Workers belong to the store, not to a tenant. Time
    is the World's own clock. Whatever index a World keeps of ready sessions is a hint: `claim` also finds
    what the index missed, at the latest at its next sweep.
    """

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        """Take one ready session that fits the offer, or None.

        Of many who claim at once, one gets it. The takeover commit lands in the same atomic step that raises
        the fence: from then on no commit with an older fence lands. Never given: a session whose format is
        above `max_format`, whose agent or placement is not offered, nor one beyond the offer's `limits`. Of
        those that may be given it is, in this order,

        1. one of the agent that comes first in `turns`;
        2. one of the highest priority, but in each eighth claim of an agent (`outlast.world.line.by_priority`)
           of any;
        3. one that stands in line or, in each third claim (`woken_first`), one whose wake time has passed;
        4. the one that became ready first. Who gives a session up that is still ready puts it at the end of
           the line.

        So nothing that is ready waits for ever: among any 24 claims of an agent at least two are for whoever
        stands in line longest and one for whoever should have woken longest ago, whatever the priorities.

        With `Capability.EXACT_LIMITS`, claims that state the same limits never give more, however many race,
        unless a lease that had run out is renewed. Elsewhere claims that are made at the same instant may pass a
        limit, each by one.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """End the lease. Nothing happens when it no longer stands."""
        ...

    def open_liveness(self) -> Liveness: ...

    async def tenants(self) -> Sequence[str]:
        """The names of all tenants of the store that ever had a session, sorted."""
        ...

    async def workers(self) -> Sequence[WorkerRow]:
        """Every worker that has a row, also those whose time ran out while sessions still name them."""
        ...
