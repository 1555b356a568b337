"""What the handles on one memory share: sessions, blobs, worker rows, and who waits for hints."""

import asyncio
from dataclasses import dataclass, field, replace

import anyio

from outlast.clock import Clock, SystemClock
from outlast.world import Commit, Delta, Input, SessionHead, Spent, WorkerRow
from outlast.world.commit import DAY_S, SPENT_DAYS


@dataclass(slots=True)
class Session:
    """A session: its commits, and what is kept beside them."""

    head: SessionHead
    commits: list[Commit]
    change: int
    ready_at: float | None = None
    """See `outlast.world.line`."""
    deltas: dict[int, list[Delta]] = field(default_factory=dict[int, list[Delta]])
    """After each commit, what was published."""
    inputs: dict[str, Input] = field(default_factory=dict[str, Input])
    names: set[str] = field(default_factory=set[str])
    """Hashes of the blobs that its commits and inputs name."""
    erased: bool = False


class Hints:
    """One subscription."""

    def __init__(self, tenant: str, session: str | None, *, inbox: bool) -> None:
        self.tenant = tenant
        self.session = session
        self.inbox = inbox
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        with anyio.move_on_after(timeout_s):
            await self.changed.wait()
        changed = self.changed.is_set()
        self.changed.clear()
        return changed


class MemoryStore:
    """What several handles share: give one store to each `open_memory` whose Worlds are to meet."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.sessions: dict[tuple[str, str], Session] = {}
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.hints: list[Hints] = []
        self.changes = 0
        self._spent: dict[tuple[str, int], Spent] = {}

    def spend(self, tenant: str, more: Spent) -> None:
        """Add to a day of a tenant; forget days that are long over."""
        self._spent[tenant, more.day] = self._spent.get((tenant, more.day), Spent(more.day)).plus(more)
        oldest = int(self.clock.now() // DAY_S) - SPENT_DAYS
        for day in [one.day for one in self.spent(tenant, 0) if one.day < oldest]:
            del self._spent[tenant, day]

    def spent(self, tenant: str, first_day: int) -> list[Spent]:
        """By day, in order."""
        found = [one for (of, _), one in self._spent.items() if of == tenant and one.day >= first_day]
        return sorted(found, key=lambda one: one.day)

    def stands(self, worker: str | None) -> bool:
        """The worker's row stands, and so do its leases."""
        row = self.workers.get(worker or "")
        return row is not None and row.deadline_s > self.clock.now()


class MemoryLiveness:
    """A worker's row in the store's memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def renew(self, row: WorkerRow, ttl_s: float) -> float:
        """See `outlast.world.Liveness`."""
        self._store.workers[row.worker] = replace(row, deadline_s=self._store.clock.now() + ttl_s)
        return ttl_s

    def retire(self, worker: str) -> None:
        """See `outlast.world.Liveness`."""
        self._store.workers.pop(worker, None)
        for hints in list(self._store.hints):
            if hints.session is None and not hints.loop.is_closed():
                hints.loop.call_soon_threadsafe(hints.changed.set)

    def close(self) -> None:
        """See `outlast.world.Liveness`."""


def new_head(session: str, agent: str, placement: str, labels: dict[str, str], now_s: float) -> SessionHead:
    """A session before its first commit."""
    return SessionHead(
        session=session,
        agent=agent,
        placement=placement,
        seq=0,
        fence=0,
        format=0,
        snapshot_seq=0,
        turn_open=False,
        parked=False,
        wake_at_s=None,
        status="",
        worker=None,
        waiting_inputs=0,
        created_at_s=now_s,
        updated_at_s=now_s,
        labels=labels,
    )
