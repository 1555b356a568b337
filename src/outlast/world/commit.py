"""The atomic unit of a session's log, as a World sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from outlast.ids import digest
from outlast.world.cursor import Cursor

_NO_BLOBS: Final[Mapping[str, bytes]] = {}


class Header(msgspec.Struct, frozen=True):
    """What a World must act on. Everything else is the body, bytes to it.

    `turn_open`, `wake_at_s`, `parked` and `status` describe the session *as of* this commit: each commit
    replaces what the one before said.
    """

    seq: int
    """Dense from 1 within the session."""
    fence: int
    """The fence of the lease it is written under; 0 for the first commit and unchanged by `commit_idle`."""
    format: int
    """Version of the record format of the body."""
    events: int
    """How many events the body holds: the first indices of cursors into this commit (`width`)."""
    digest: str = ""
    """Over header and body (`seal`); the same digest at the same number is the same commit."""
    sealed: int = 0
    """How many deltas published after commit `seq - 1` count; later ones are never shown."""
    consumes: tuple[str, ...] = ()
    """Ids of the inputs that this commit takes out of the inbox."""
    refs: tuple[str, ...] = ()
    """Hashes of the blobs that the body names. Each is in `Commit.blobs` or held by the World for this
    tenant."""
    turn_open: bool = False
    """A turn is open: the session is ready as soon as no lease stands, unless `wake_at_s` says when."""
    wake_at_s: float | None = None
    """Unix time, by the World's clock, from which the session is ready.

    With `turn_open` it defers readiness (a wait); an arriving input makes the session ready all the same.
    """
    parked: bool = False
    """The open turn waits for a person: ready through an input, or at its wake time if it has one."""
    status: str = ""
    """A short text of the writer's for `list`; at most 1,000 characters."""
    snapshot: bool = False
    """The body begins with a snapshot from which folding may start."""
    release: bool = False
    """The lease ends with this commit."""

    @property
    def width(self) -> int:
        """How many cursor indices the commit takes up: one for each event, and one if it has none.

        Delta `j` after it stands at index `width + j`.
        """
        return max(1, self.events)


class Spent(msgspec.Struct, frozen=True):
    """What commits have used up of what a tenant may."""

    day: int = 0
    """Days from 1970-01-01 to the day (UTC) for which it counts, by the clock of whoever spent it."""
    cost_usd: float = 0.0
    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0

    def plus(self, other: "Spent") -> "Spent":
        """Both together, on the later day."""
        return Spent(
            max(self.day, other.day),
            self.cost_usd + other.cost_usd,
            self.tokens + other.tokens,
            self.calls + other.calls,
            self.seconds + other.seconds,
        )


DAY_S: Final = 86_400
SPENT_DAYS: Final = 92
"""Days before today, by the World's clock, of which what a tenant has spent is kept at least, one by one."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Records, consumed inputs and blobs that land whole or not at all."""

    header: Header
    body: bytes
    blobs: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Bytes by hash that must be durable no later than this commit; already stored ones may be given again,
    and the first bytes stay. What stands here counts as named, as `Header.refs` does."""
    spent: Spent | None = None
    """Added to what the tenant has spent, once, when the commit lands; not given back to readers."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One piece of a call that is still open, shown to watchers and never read by recovery."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Deltas whose bytes were dropped. Their count, and so every cursor, stays."""

    count: int


@dataclass(frozen=True, slots=True)
class Item:
    """What a reader is given: a commit, a delta or a gap, with the cursor of the last thing in it."""

    cursor: Cursor
    what: Commit | Delta | Gap
    first: int = 0
    """Of a commit: the index of the first event the reader has not seen. Of a gap: the index of its first
    delta."""


def make_commit(
    header: Header, body: bytes, blobs: Mapping[str, bytes] = _NO_BLOBS, spent: Spent | None = None
) -> Commit:
    """A commit whose header holds its digest, whatever digest stood there."""
    sealed = msgspec.structs.replace(header, digest=seal(header, body))
    return Commit(sealed, body, blobs, None if spent == Spent() else spent)


def seal(header: Header, body: bytes) -> str:
    """The digest of a commit: over everything in the header but the digest itself, and the body."""
    facts = (
        header.seq,
        header.fence,
        header.format,
        header.events,
        header.sealed,
        header.consumes,
        header.refs,
        header.turn_open,
        header.wake_at_s,
        header.parked,
        header.status,
        header.snapshot,
        header.release,
    )
    return digest(repr(facts).encode(), body)
