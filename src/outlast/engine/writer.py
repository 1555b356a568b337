"""The pen of one attempt: puts records in order, one commit of the session in flight at a time.

Invariants:

* Records land in the order in which they were appended. While a commit is in flight what is appended queues; when it
  has landed, all that queued becomes the next.
* The live state holds everything appended, landed or not: decisions within the attempt see it at once, the outside
  sees it only when it is durable.
* Deltas are published between commits, never while one is in flight, so the count that the next commit seals is exact.
* After the World has refused anything, or once the lease is no longer sure to stand, nothing is ever written again: the
  attempt is lost.
* A commit may give the lease back. It is the last: nothing is appended after it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from outlast.agenda import wake_of
from outlast.codec import Packer, encode_record, format_of, record_refs
from outlast.engine.batch import Batcher, patiently
from outlast.engine.ending import Ending
from outlast.engine.queued import Landing, Queued
from outlast.engine.shown import Deltas, put
from outlast.engine.spacing import Spacing
from outlast.errors import AttemptLost, LogBroken
from outlast.fold import SessionState, apply_record, remember
from outlast.records import FORMAT, AnyRecord, CallOutcome, CallRetracted, Snapshot
from outlast.records.events import LiveDelta
from outlast.squeezing import squeeze
from outlast.state import status_of
from outlast.tally import spent_by
from outlast.world import Claim, Commit, Header, Spent, World
from outlast.world.commit import make_commit

LAZY_S: Final = 0.1
"""How long a record that nobody waits for may stay out of the World: most ride with one that somebody does wait for."""
SHOW_S: Final = 0.02
"""How long a delta may stay unpublished where others were shown shortly before; else it is shown at once."""
RUN_OUT, GIVEN_BACK, OVER = "its lease is not sure to stand any more", "its lease is given back", "it is over"


class Writer:
    """Writes the commits of one lease. Belongs to one event loop.

    Args:
        stands: whether the lease is sure to stand at this moment. A process that was suspended finds out here, before
            anything it does reaches the outside.
    """

    def __init__(
        self,
        world: World,
        batcher: Batcher,
        claim: Claim,
        state: SessionState,
        *,
        stands: Callable[[], bool] = lambda: True,
        spacing: Spacing | None = None,
    ) -> None:
        self._world = world
        self._batcher = batcher
        self.lease = claim.lease
        self.state = state
        self._stands = stands
        self._seq = claim.seq
        self._snapshot_seq = claim.snapshot_seq
        self._queued = Queued()
        self._due = False
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._spacing = spacing or Spacing()
        self._deltas = Deltas()
        self._published = 0
        self._shown_at_s = -SHOW_S
        self._idle = asyncio.Event()
        self._held: set[str] = set(state.held)
        self._lost: AttemptLost | None = None
        self._ends = False  # the commit that gives the lease back is appended
        self.released = False
        """That commit has landed: the lease is another's to claim."""
        self._showing: asyncio.Task[None] | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self.adds: Callable[[Sequence[AnyRecord]], Sequence[AnyRecord]] = lambda _: ()
        """What the same commit must say beside records that were just applied."""
        self.spent = Spent()
        """What its records have added to what the tenant has spent."""
        self.wake_at_s: float | None = None
        self.asleep = False
        """The turn waits for an input, and for no time."""
        self.unlanded: dict[str, bytes] = {}
        """Blobs that are appended and not yet in the World."""

    def packer(self) -> Packer:
        """Something that turns values into payloads; its blobs go with `append`."""
        return Packer(self._world.tenant, self._held)

    async def blobs(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The stored bytes of blobs, also of those that are not in the World yet."""
        fresh = {name: self.unlanded[name] for name in names if name in self.unlanded}
        rest = [name for name in names if name not in fresh]
        if not rest:
            return fresh
        return {**fresh, **await patiently(lambda: self._world.get_many(self.state.session, rest))}

    @property
    def lost(self) -> AttemptLost | None:
        return self._lost

    def check(self) -> None:
        """Return if this attempt may still act; called before every effect, since a lease may have run out meanwhile.

        Raises:
            AttemptLost: this attempt no longer owns the session.
        """
        if self._lost is None and not self._stands():
            self.lose(RUN_OUT)
        if self._lost is not None:
            raise self._lost
        if self._ends:
            raise AttemptLost(GIVEN_BACK)

    def append(
        self,
        *records: AnyRecord,
        packer: Packer | None = None,
        consumes: Sequence[str] = (),
        lazy: bool = False,
        release: bool = False,
    ) -> Landing:
        """Queue `records` and apply them to the live state. What is returned ends when they are durable.

        A `lazy` append rides with the next commit, or makes one after `LAZY_S`; nobody is meant to wait for it. With
        `release` the commit gives the lease back: it is the last.

        Raises:
            AttemptLost: this attempt no longer owns the session.
            BadPayload: a record holds what is not JSON; nothing was appended.
            LogBroken: a record breaks the order of the log; nothing was appended.
        """
        self.check()
        texts = [encode_record(record) for record in records]
        if not self._queued.records and self._spacing.is_due(self.state):
            self._take_snapshot()
        self._apply(records)
        if more := self.adds(records):
            self._apply(more)
            records, texts = (*records, *more), [*texts, *map(encode_record, more)]
        queued = self._queued
        queued.records.extend(records)
        queued.texts.extend(texts)
        queued.consumes.extend(consumes)
        queued.format = max(queued.format, format_of(records))
        if packer is not None and packer.blobs:
            queued.blobs.update(packer.blobs)
            self.unlanded.update(packer.blobs)
        if queued.landed is None:
            queued.landed = Ending()
        landed = queued.landed
        queued.release = self._ends = release
        if lazy:
            self._later(LAZY_S)
        else:
            self._due = True
            self._pump()
        return landed

    def leave_to_newer(self) -> None:
        """Let no worker claim the session after this one that reads no more than this one does.

        Raises:
            AttemptLost: this attempt no longer owns the session.
        """
        self._queued.format = FORMAT + 1
        self.append()

    def _apply(self, records: Sequence[AnyRecord]) -> None:
        for place, record in enumerate(records):
            spent = spent_by(self.state.turn, record)
            try:
                apply_record(self.state, record)
            except LogBroken as error:
                if place:  # the live state is ahead of every log there will be: nothing may be decided by it any more
                    self.lose(str(error))
                raise
            if spent is not None:
                self._queued.spent, self.spent = self._queued.spent.plus(spent), self.spent.plus(spent)
            if isinstance(record, CallOutcome | CallRetracted):
                self._deltas.drop(record.call)

    async def write(
        self,
        *records: AnyRecord,
        packer: Packer | None = None,
        consumes: Sequence[str] = (),
        release: bool = False,
    ) -> None:
        """Append and wait until it is durable.

        Raises:
            AttemptLost, BadPayload
        """
        await self.durable(self.append(*records, packer=packer, consumes=consumes, release=release))

    def _take_snapshot(self) -> None:
        """Let the commit that is begun now, of which nothing is queued yet, begin with the state as it is."""
        packer, queued = self.packer(), self._queued
        record = self._spacing.take(self.state, packer)
        self._apply([record])
        queued.records.append(record)
        queued.texts.append(encode_record(record))
        queued.blobs.update(packer.blobs)
        self.unlanded.update(packer.blobs)

    @property
    def wants_snapshot(self) -> bool:
        """The end of the turn should be followed by a snapshot."""
        return self._spacing.ends_turn(self.state, self._seq - self._snapshot_seq)

    async def snapshot(self) -> None:
        """Between two turns: write the state down if that is wanted."""
        if self.wants_snapshot:
            await self.flush()
            self.check()
            self._take_snapshot()
            await self.write()

    async def durable(self, landed: Landing) -> None:
        """Wait for an append. A caller that is cancelled meanwhile does not cancel the commit."""
        await landed.wait()

    async def flush(self) -> None:
        """Make everything appended so far durable, and wait until nothing is under way."""
        while self._lost is None and (self._busy or self._queued.landed is not None):
            self._idle.clear()
            self._due = self._due or self._queued.landed is not None
            self._pump()
            if self._lost is None:
                await self._idle.wait()

    def show(self, delta: LiveDelta) -> None:
        """Show a delta to watchers soon; void ones and those of settled calls are left out."""
        if self._lost is None and not self._ends:
            self._deltas.add(delta)
            # Somebody waits for the first word; of the many that follow several go together.
            self._later(max(0.0, self._shown_at_s + SHOW_S - asyncio.get_running_loop().time()))

    def lose(self, cause: str) -> None:
        """The lease is gone, as far as this process is concerned: write nothing more."""
        if self._lost is None:
            self._lost = AttemptLost(cause)
            landed, self._queued = self._queued.landed, Queued()
            if landed is not None:
                landed.fail(self._lost)
            self._deltas = Deltas()
            for pending in (self._showing, self._timer):
                if pending is not None:
                    pending.cancel()
            self._idle.set()
            self.on_lost()

    async def close(self) -> None:
        """Write nothing more; nothing that was begun here is left but a commit in flight, which the batcher has."""
        self.lose(OVER)
        if self._showing is not None and not self._showing.done():
            await asyncio.wait({self._showing})

    def _later(self, delay_s: float) -> None:
        loop, timer = asyncio.get_running_loop(), self._timer
        at_s = loop.time() + delay_s
        if timer is not None and timer.when() > at_s:
            timer.cancel()
        elif timer is not None:
            return
        self._timer = loop.call_at(at_s, self._time)

    def _time(self) -> None:
        self._timer = None
        self._due = True
        self._pump()

    def _pump(self) -> None:
        """Do the next thing on the session's one line, if it is free: a commit first, then deltas."""
        if self._busy or not self._due or self._lost is not None:
            return
        if not self._stands():
            self.lose(RUN_OUT)
        elif self._queued.landed is not None:
            self._busy = True
            self._commit()
        elif self._deltas:
            self._busy = True
            self._publish()
        else:
            self._due = False

    def _commit(self) -> None:
        queued, self._queued = self._queued, Queued()
        self._due = False
        commit = self._make(queued)
        self._batcher.put(self.lease, commit, lambda error: self._landed(error, queued, commit))

    def _make(self, queued: Queued) -> Commit:
        state, turn = self.state, self.state.turn
        named = dict.fromkeys((*record_refs(queued.records), *queued.blobs))
        refs = tuple(name for name in named if name not in self._held)
        text = b"[" + b",".join(queued.texts) + b"]"
        self._spacing.written += len(text)
        body = squeeze(text)
        header = Header(
            seq=self._seq + 1,
            fence=self.lease.fence,
            format=queued.format,
            events=len(queued.records),
            sealed=self._published,
            consumes=tuple(queued.consumes),
            refs=refs,
            turn_open=turn is not None,
            wake_at_s=wake_of(state, self.wake_at_s, asleep=self.asleep),
            parked=turn is not None and (turn.parked is not None or self.asleep),
            status=status_of(state),
            snapshot=isinstance(next(iter(queued.records), None), Snapshot),
            release=queued.release,
        )
        blobs = {name: queued.blobs[name] for name in refs if name in queued.blobs}
        return make_commit(header, body, blobs, queued.spent)

    def _landed(self, error: Exception | None, queued: Queued, commit: Commit) -> None:
        self._busy = False
        self._idle.set()
        landed = queued.landed
        if error is not None:
            if landed is not None:
                landed.fail(self._lost or AttemptLost(str(error)))
            self.lose(str(error))
            return
        self._seq += 1
        self.state.seq = self._seq
        self.state.shown = self.state.shown or commit.header.sealed > 0
        self._published = 0
        self.released = commit.header.release
        if commit.header.snapshot:
            self._snapshot_seq = self._seq
        self._held.update(commit.header.refs)
        self._held.difference_update(remember(self.state, commit.header.refs))
        for name in queued.blobs:
            self.unlanded.pop(name, None)
        if landed is not None:
            landed.end(None)
        if self._queued.landed is not None or self._deltas:
            # What queued meanwhile becomes the next commit, unless it is lazy and its time has not come.
            self._due = self._due or self._timer is None
        self._pump()

    def _publish(self) -> None:
        deltas, self._due = self._deltas.take(self.state.turn), False
        if not deltas:
            self._busy = False
            self._pump()
            return
        self._shown_at_s = asyncio.get_running_loop().time()
        putting = put(
            self._world, self.lease, (self._seq, self._published), deltas, lambda: self._lost is not None
        )
        self._showing = asyncio.get_running_loop().create_task(putting)
        self._showing.add_done_callback(lambda done: self._shown(done, len(deltas)))

    def _shown(self, done: asyncio.Task[None], count: int) -> None:
        self._busy = False
        self._idle.set()
        error = None if done.cancelled() else done.exception()
        if error is not None or done.cancelled():
            # A hole would make the sealed count a lie, and a refusal means that another owns the session.
            self.lose(f"deltas could not be shown: {error}")
            return
        self._published += count
        if self._queued.landed is not None or self._deltas:
            self._due = self._due or self._timer is None
        self._pump()
