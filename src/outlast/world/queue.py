"""Who may advance which session, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
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
        above `max_format`, whose agent or placement is not offered.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """End the lease. Nothing happens when it no longer stands."""
        ...

    def open_liveness(self) -> Liveness: ...

    async def workers(self) -> Sequence[WorkerRow]:
        """Every worker that has a row, also those whose time ran out while sessions still name them."""
        ...
