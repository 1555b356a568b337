"""The log of each session: a dense sequence of commits, and the deltas between them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outlast.world.commit import Commit, Delta, Item, Spent
from outlast.world.cursor import Cursor
from outlast.world.queue import Lease


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session as a list shows it: what stands in its newest header, and who holds it."""

    session: str
    agent: str
    placement: str
    """Where it can be advanced: `any`, or `host:<id>` for a directory of one machine."""
    seq: int
    """Number of the newest commit."""
    fence: int
    format: int
    """The highest format of any of its commits: only a worker that reads it may claim the session."""
    snapshot_seq: int
    """Number of the newest commit with a snapshot, 0 if there is none."""
    turn_open: bool
    parked: bool
    wake_at_s: float | None
    status: str
    worker: str | None
    """Id of the worker whose lease stands or ran out unreleased; None when free."""
    waiting_inputs: int
    """How many inputs are not consumed yet."""
    created_at_s: float
    updated_at_s: float
    """When its newest commit, a takeover too, landed or its newest input arrived, by the World's clock."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    priority: int = 0
    """Of two ready sessions of one agent the higher is claimed first (`Queue.claim`)."""

    def is_ready(self, now_s: float) -> bool:
        """Whether a worker has something to do for it at this Unix time, were it free."""
        if self.waiting_inputs:
            return True
        due = self.wake_at_s is not None and self.wake_at_s <= now_s
        return due or (self.turn_open and not self.parked and self.wake_at_s is None)


@dataclass(frozen=True, slots=True)
class Page:
    """Some sessions, newest change first, and where the next page begins (None at the end)."""

    sessions: Sequence[SessionHead]
    next: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """What a session takes up in its store, in bytes as they are stored, without what the store itself adds."""

    commits: int = 0
    log_bytes: int = 0
    """Bodies of its commits."""
    delta_bytes: int = 0
    """Deltas that were not dropped."""
    input_bytes: int = 0
    """Inputs that are not consumed."""
    blobs: int = 0
    """Blobs that it names. Those that it shares, with a fork or another session, count in each."""
    blob_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.log_bytes + self.delta_bytes + self.input_bytes + self.blob_bytes


class Log(Protocol):
    """Commits by number.

    Invariants, each a case of the contract:

    * *Dense.* The commits of a session are numbered 1, 2, 3 … without a hole; a reader always sees a prefix.
    * *Whole or not at all.* A commit's body, its blobs, the inputs it consumes and the header's effect on the
      queue become visible and durable together.
    * *One commit per number.* The first to land at a number stays. The same digest again means landed;
      another is a `CommitConflict`.
    * *Fenced.* A commit whose fence is not the session's newest never lands, however late it arrives.
    * *Durable before acknowledged*, to the degree the World's capabilities state.
    """

    async def create(
        self,
        session: str,
        first: Commit,
        *,
        agent: str,
        placement: str = "any",
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        """Open a session with commit 1. Returns False when the very same opening had already landed.

        The priority is from `-PRIORITY_LIMIT` to `PRIORITY_LIMIT` and stands until an input sets another; it is no
        part of what makes two openings the same.

        Raises:
            BadSessionId, BadPayload: the id is none, the commit is no first one, the priority out of its bounds;
                nothing was written.
            BlobUnknown: the commit names a blob that is neither given nor held.
            SessionExists: the id is taken by a session with another first commit, agent, placement or labels.
            SessionErased: the id was erased; it is never used again.
        """
        ...

    async def fork(
        self,
        source: str,
        session: str,
        first: Commit,
        *,
        placement: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        """Open a session whose past is that of `source`, up to the commit before `first`, its first own.

        Whole or not at all: from the same step on the fork has commits 1 to `first.header.seq` - 1 as the source has
        them, to the digest, then `first`; it names the blobs that the `refs` of all these say; and what the shared
        commits consumed is known in its inbox as consumed. What waits in the source's inbox is not in its own, and
        nobody holds it. Bytes of blobs are not copied; bodies may be. The source is not changed, whoever holds it.

        From then on both are sessions like any other: each goes on, frees deltas and is erased without the other, and
        may be forked itself. Cursors into the shared past are the same in both; deltas that count there may come as a
        `Gap` in the fork.

        Returns False when the very same fork had already landed, also if its source was erased since.

        Args:
            first: under the fence of the commit before it, with no deltas sealed and nothing consumed.
            placement: None is the source's. Agent and format are those of the source and of the commits that are there.

        Raises:
            BadSessionId, BadPayload: the id is none, `first` is no such commit, the priority out of its bounds.
            CommitUnknown: the source does not have the commit before `first`.
            Fenced: `first` is under another fence than that.
            BlobUnknown: it names a blob that is neither given nor held.
            SessionExists: the id is taken: by the source, by a session that was opened, or by another fork.
            SessionUnknown: there is no such source.
            SessionErased: the source, or the id, was erased.
        """
        ...

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        """Write commits of different sessions, at most one each, in as few round trips as the store allows.

        Returns one result per commit, in order: None when it landed (now, or earlier with the same digest),
        else the error that says why not. A refused commit leaves nothing behind and does not hinder its
        neighbours.

        * `Fenced`: its fence is not the session's newest, or the lease was released.
        * `CommitConflict`: another commit stands at its number, or the number is not the next.
        * `InputTaken`: an input that it consumes is not there, or was consumed by another commit.
        * `BlobUnknown`: a blob that it names is neither given nor held for this tenant.
        * `BadPayload`: its status is too long, or a text of it is no Unicode.
        * `SessionUnknown`, `SessionErased`

        Raises:
            WorldUnavailable: for none of the commits is it known whether it landed; the identical ones may be
            put again.
        """
        ...

    async def commit_idle(self, session: str, commit: Commit) -> None:
        """Write one commit while nobody holds the session: no lease stands, no turn is open.

        Fence and owner stay. The identical commit that already landed may be put again at any time.

        Raises:
            NotIdle: a lease stands or a turn is open.
            CommitConflict: `commit` is not the next number.
            Fenced, InputTaken, BlobUnknown, BadPayload, SessionUnknown, SessionErased
        """
        ...

    async def spent(self, first_day: int) -> Sequence[Spent]:
        """What the commits of this tenant's sessions have spent from that day on: one for each day, in order.

        A commit counts in the step in which it lands, once, however often it is put. Days more than `SPENT_DAYS` before
        today, by the World's clock, may be gone.
        """
        ...

    async def stored(self, session: str) -> Stored:
        """What the session takes up.

        Costs no more than a look at each of its rows, and no bytes of them.

        Raises:
            SessionUnknown, SessionErased
        """
        ...

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        """Show `deltas` after commit `after`, the first of them under delta index `first`, counted from 0.

        Relaxed durability: they may be lost with the machine, never reordered, never shown with a hole.
        Putting the same indices again changes nothing.

        Raises:
            CommitConflict: commit `after` is not the newest, or `first` would leave a hole.
            Fenced: the lease's fence is not the session's newest, or it was released.
            SessionUnknown, SessionErased
        """
        ...

    async def drop_deltas(self, lease: Lease, before: int) -> None:
        """Free the bytes of the deltas published after commits numbered below `before`. Their count stays.

        No cursor shifts: whoever reads there gets a `Gap`, from the middle on for the rest. Deltas after the newest
        commit stay, whatever `before` says: the next commit has yet to count them. Relaxed durability: what was
        dropped may be back after the loss of the machine. It may be done in pieces; doing it again frees what is left.

        Raises:
            Fenced: the lease's fence is not the session's newest, or it was released.
            SessionUnknown, SessionErased
        """
        ...

    async def get(self, session: str) -> SessionHead:
        """Raises SessionUnknown, SessionErased."""
        ...

    async def list(
        self, *, after: str | None = None, limit: int = 100, labels: Mapping[str, str] | None = None
    ) -> Page:
        """Sessions with all of `labels`, newest change first; `after` is the `next` of the page before."""
        ...

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        """The commits numbered above `after`, in order, without their blobs; at most `limit`."""
        ...

    def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        """Everything behind `after`, in order, and then whatever comes, without end.

        A reader is never shown a delta beyond what the next commit seals once that commit is there, never an
        item twice and never out of order; deltas of commit k come before commit k + 1. Costs the tail only.
        Deltas that count and whose bytes were dropped or lost come as a `Gap` with their count. The iterator
        ends with `SessionErased` when that happens, with `SessionUnknown` at once. Whoever stops early closes it
        (`aclosing`).
        """
        ...

    async def erase(self, session: str) -> None:
        """Remove everything of the session and leave a tombstone that fences.

        Nothing can be written there again. Repeating it changes nothing. From then on everything that names the
        session raises `SessionErased`.

        Raises:
            SessionUnknown
        """
        ...
