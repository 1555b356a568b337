"""The pen of one attempt: puts records in order, one commit of the session in flight at a time.

Invariants:

* Records land in the order in which they were appended. While a commit is in flight what is appended queues; when it
  has landed, all that queued becomes the next.
* The live state holds everything appended, landed or not: decisions within the attempt see it at once, the outside
  sees it only when it is durable.
* Deltas are published between commits, never while one is in flight, so the count that the next commit seals is exact.
* After the World has refused anything, nothing is ever written again: the attempt is lost.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from outlast.codec import Packer, encode_delta, encode_records, record_refs
from outlast.engine.batch import Batcher
from outlast.errors import AttemptLost, OutlastError, WorldUnavailable
from outlast.fold import SessionState, apply_record
from outlast.records import FORMAT, AnyRecord
from outlast.records.events import LiveDelta
from outlast.world import Claim, Commit, Delta, Header, World
from outlast.world.commit import seal

LAZY_S: Final = 0.02
"""How long a record that nobody waits for may stay out of the World."""
SHOW_S: Final = 0.02
"""How long a delta may stay unpublished."""
HELD_LIMIT: Final = 20_000


class _Queued:
    """Records that wait for the next commit, with the future of whoever waits for them."""

    __slots__ = ("blobs", "consumes", "landed", "records", "release", "snapshot")

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.blobs: dict[str, bytes] = {}
        self.consumes: list[str] = []
        self.release = False
        self.snapshot = False
        self.landed: asyncio.Future[None] | None = None


class Writer:
    """Writes the commits of one lease. Belongs to one event loop."""

    def __init__(self, world: World, batcher: Batcher, claim: Claim, state: SessionState) -> None:
        self._world = world
        self._batcher = batcher
        self.lease = claim.lease
        self.state = state
        self._seq = claim.seq
        self._queued = _Queued()
        self._due = False
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._deltas: list[LiveDelta] = []
        self._published = 0
        self._held: set[str] = set(state.held)
        self._lost: AttemptLost | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self.wake_at_s: float | None = None
        self.unlanded: dict[str, bytes] = {}
        """Blobs that are appended and not yet in the World."""

    def packer(self) -> Packer:
        """Something that turns values into payloads; its blobs go with `append`."""
        return Packer(self._world.tenant, self._held)

    @property
    def lost(self) -> AttemptLost | None:
        return self._lost

    def append(
        self,
        *records: AnyRecord,
        packer: Packer | None = None,
        consumes: Sequence[str] = (),
        lazy: bool = False,
        release: bool = False,
    ) -> asyncio.Future[None]:
        """Queue `records` and apply them to the live state. The future ends when they are durable.

        A `lazy` append rides with the next commit, or makes one after `LAZY_S`; nobody is meant to wait for it.

        Raises:
            AttemptLost: this attempt no longer owns the session.
        """
        if self._lost is not None:
            raise self._lost
        for record in records:
            apply_record(self.state, record)
        queued = self._queued
        queued.records.extend(records)
        queued.consumes.extend(consumes)
        queued.release = queued.release or release
        if packer is not None and packer.blobs:
            queued.blobs.update(packer.blobs)
            self.unlanded.update(packer.blobs)
        if queued.landed is None:
            queued.landed = asyncio.get_running_loop().create_future()
            queued.landed.add_done_callback(_seen)
        landed = queued.landed
        if lazy:
            self._later(LAZY_S)
        else:
            self._due = True
            self._pump()
        return landed

    async def write(
        self,
        *records: AnyRecord,
        packer: Packer | None = None,
        consumes: Sequence[str] = (),
        release: bool = False,
    ) -> None:
        """Append and wait until it is durable.

        Raises:
            AttemptLost
        """
        await self.durable(self.append(*records, packer=packer, consumes=consumes, release=release))

    async def durable(self, landed: asyncio.Future[None]) -> None:
        """Wait for an append. A caller that is cancelled meanwhile does not cancel the commit."""
        try:
            await asyncio.shield(landed)
        except OutlastError as error:
            raise self._lost or AttemptLost(str(error)) from error

    async def flush(self) -> None:
        """Make everything appended so far durable."""
        while self._lost is None and (self._busy or self._queued.records or self._queued.consumes):
            if self._queued.landed is not None:
                self._due = True
                landed = self._queued.landed
                self._pump()
                await self.durable(landed)
            else:
                await asyncio.sleep(0)

    def show(self, delta: LiveDelta) -> None:
        """Show a delta to watchers soon; void ones and those of settled calls are left out."""
        if self._lost is None:
            last = self._deltas[-1] if self._deltas else None
            if last is not None and (last.call, last.kind, last.lane) == (delta.call, delta.kind, delta.lane):
                self._deltas[-1] = msgspec.structs.replace(last, text=last.text + delta.text)
            else:
                self._deltas.append(delta)
            self._later(SHOW_S)

    def lose(self, cause: str) -> None:
        """The lease is gone, as far as this process is concerned: write nothing more."""
        if self._lost is None:
            self._lost = AttemptLost(cause)
            landed, self._queued = self._queued.landed, _Queued()
            if landed is not None and not landed.done():
                landed.set_exception(self._lost)
            self.on_lost()

    def _later(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._time)

    def _time(self) -> None:
        self._timer = None
        self._due = True
        self._pump()

    def _pump(self) -> None:
        """Do the next thing on the session's one line, if it is free: a commit first, then deltas."""
        if self._busy or not self._due or self._lost is not None:
            return
        if self._queued.landed is not None:
            self._busy = True
            self._commit()
        elif self._deltas:
            self._busy = True
            self._publish()
        else:
            self._due = False

    def _commit(self) -> None:
        queued, self._queued = self._queued, _Queued()
        self._due = False
        commit = self._make(queued)
        landed = self._batcher.put(self.lease, commit)
        landed.add_done_callback(lambda done: self._landed(done, queued, commit))

    def _make(self, queued: _Queued) -> Commit:
        state, turn = self.state, self.state.turn
        named = dict.fromkeys((*record_refs(queued.records), *queued.blobs))
        refs = tuple(name for name in named if name not in self._held)
        body = encode_records(queued.records)
        header = Header(
            seq=self._seq + 1,
            fence=self.lease.fence,
            format=FORMAT,
            events=len(queued.records),
            digest="",
            sealed=self._published,
            consumes=tuple(queued.consumes),
            refs=refs,
            turn_open=turn is not None,
            wake_at_s=self.wake_at_s,
            parked=turn is not None and turn.parked is not None,
            status=status_of(state),
            snapshot=queued.snapshot,
            release=queued.release,
        )
        blobs = {name: queued.blobs[name] for name in refs if name in queued.blobs}
        return Commit(replace(header, digest=seal(header, body)), body, blobs)

    def _landed(self, done: asyncio.Future[None], queued: _Queued, commit: Commit) -> None:
        self._busy = False
        error = None if done.cancelled() else done.exception()
        landed = queued.landed
        if error is not None or done.cancelled():
            cause = self._lost or AttemptLost(str(error))
            if landed is not None and not landed.done():
                landed.set_exception(cause)
            self.lose(str(error))
            return
        self._seq += 1
        self.state.seq = self._seq
        self._published = 0
        self._remember(commit.header.refs)
        for name in queued.blobs:
            self.unlanded.pop(name, None)
        if landed is not None and not landed.done():
            landed.set_result(None)
        if self._queued.landed is not None or self._deltas:
            # What queued meanwhile becomes the next commit, unless it is lazy and its time has not come.
            self._due = self._due or self._timer is None
        self._pump()

    def _remember(self, refs: Sequence[str]) -> None:
        self._held.update(refs)
        self.state.held.extend(refs)
        if len(self.state.held) > HELD_LIMIT:
            dropped = self.state.held[: HELD_LIMIT // 2]
            self.state.held = self.state.held[HELD_LIMIT // 2 :]
            self._held.difference_update(dropped)

    def _publish(self) -> None:
        turn = self.state.turn
        alive = {} if turn is None else turn.calls
        deltas = [delta for delta in self._deltas if delta.call in alive and alive[delta.call].open]
        self._deltas = []
        self._due = False
        if not deltas:
            self._busy = False
            self._pump()
            return
        task = asyncio.get_running_loop().create_task(self._put_deltas(deltas))
        task.add_done_callback(lambda done: self._shown(done, len(deltas)))

    async def _put_deltas(self, deltas: Sequence[LiveDelta]) -> None:
        bodies = [Delta(encode_delta(delta)) for delta in deltas]
        pause = 0.05
        while True:
            try:
                return await self._world.publish(self.lease, self._seq, self._published, bodies)
            except WorldUnavailable:
                # The same indices may be put again; a World that is gone for good loses the lease to the keeper.
                if self._lost is not None:
                    return None
                await asyncio.sleep(pause)
                pause = min(1.0, pause * 2)

    def _shown(self, done: asyncio.Task[None], count: int) -> None:
        self._busy = False
        error = None if done.cancelled() else done.exception()
        if error is not None or done.cancelled():
            # A hole would make the sealed count a lie, and a refusal means that another owns the session.
            self.lose(f"deltas could not be shown: {error}")
            return
        self._published += count
        if self._queued.landed is not None or self._deltas:
            self._due = self._due or self._timer is None
        self._pump()


def _seen(landed: asyncio.Future[None]) -> None:
    """A lazy append has nobody who waits; its failure is the attempt's, told through `lost`."""
    if not landed.cancelled():
        landed.exception()


def status_of(state: SessionState) -> str:
    """The short text for `list`: `turn 3 open · attempt 2 · 7 calls · $0.0800`."""
    turn = state.turn
    if turn is None:
        if state.last is None:
            return "new"
        return f"turn {state.last.turn} {state.last.status} · ${state.usage.cost_usd:.4f}"
    word = turn.parked.why if turn.parked is not None else "open"
    tries = max(1, len(turn.attempts))
    return f"turn {turn.turn} {word} · attempt {tries} · {len(turn.calls)} calls · ${turn.usage.cost_usd:.4f}"
