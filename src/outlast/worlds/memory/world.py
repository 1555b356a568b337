"""One tenant's handle on a `MemoryStore`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Final

from outlast.errors import (
    BadPayload,
    BlobUnknown,
    CommitConflict,
    Fenced,
    InputConflict,
    InputTaken,
    NotIdle,
    SessionErased,
    SessionUnknown,
)
from outlast.world import (
    Capability,
    Claim,
    Commit,
    Cursor,
    Delta,
    Input,
    Item,
    Lease,
    Page,
    SessionHead,
    Spent,
    Stored,
    Subscription,
    Takeover,
    WorkerOffer,
    WorkerRow,
)
from outlast.world.beginning import Fork, Opening
from outlast.world.checks import check_content, check_fork, check_input, check_opening, parse_token
from outlast.world.line import LINE, ready_at
from outlast.worlds.memory.claims import choose, proof_of, takeover_of
from outlast.worlds.memory.follow import behind
from outlast.worlds.memory.forks import is_same, past_of
from outlast.worlds.memory.store import Hints, MemoryLiveness, MemoryStore, Session, new_head

CAPABILITIES: Final = frozenset({Capability.EXACT_LIMITS})


class MemoryWorld:
    """One tenant's view of a `MemoryStore`. The promises are those of `outlast.world`."""

    def __init__(self, store: MemoryStore, tenant: str = "default") -> None:
        self._store = store
        self._tenant = tenant

    @property
    def name(self) -> str:
        return "memory"

    @property
    def tenant(self) -> str:
        return self._tenant

    @property
    def capabilities(self) -> frozenset[Capability]:
        return CAPABILITIES

    def for_tenant(self, tenant: str = "default") -> "MemoryWorld":
        return MemoryWorld(self._store, tenant)

    # Log

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
        new = Opening(session, first, agent, placement, dict(labels or {}), priority)
        check_opening(session, first.header, agent, placement, new.labels, priority)
        kept = self._store.sessions.get((self._tenant, session))
        if kept is not None:
            return self._same_opening(kept, new)
        head = new_head(session, agent, placement, dict(new.labels), self._store.clock.now())
        kept = Session(replace(head, priority=priority), [], 0)
        if refusal := self._content_refusal(kept, first):
            raise refusal
        self._store.sessions[self._tenant, session] = kept
        self._land(kept, first, None)
        return True

    def _same_opening(self, kept: Session, new: Opening) -> bool:
        head = kept.head
        if kept.erased:
            raise SessionErased(session=head.session)
        new.check_same(kept.commits[0].header.digest, head.agent, head.placement, head.labels)
        return False

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
        new = Fork(source, session, first, placement, dict(labels or {}), priority)
        check_fork(session, first.header, placement, new.labels, priority)
        sessions = self._store.sessions
        there = sessions.get((self._tenant, session))
        if there is not None and is_same(there, sessions.get((self._tenant, source)), new):
            return False
        kept = past_of(self._find(source), new, self._store.clock.now())
        if refusal := self._content_refusal(kept, first):
            raise refusal
        sessions[self._tenant, session] = kept
        self._land(kept, first, None)
        return True

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        return [self._commit(lease, commit) for lease, commit in commits]

    def _commit(self, lease: Lease, commit: Commit) -> Exception | None:
        try:
            kept = self._find(lease.session)
        except (SessionUnknown, SessionErased) as error:
            return error
        if _landed(kept, commit):
            return None
        head = kept.head
        if not (head.fence == lease.fence == commit.header.fence and head.worker == lease.worker):
            return Fenced(session=head.session, current=head.fence, fence=commit.header.fence)
        if refusal := self._content_refusal(kept, commit):
            return refusal
        self._land(kept, commit, None if commit.header.release else head.worker)
        return None

    async def commit_idle(self, session: str, commit: Commit) -> None:
        kept = self._find(session)
        if _landed(kept, commit):
            return
        head = kept.head
        if head.turn_open or self._stands(head.worker):
            raise NotIdle(session=session, reason="a turn is open" if head.turn_open else "a lease stands")
        if commit.header.fence != head.fence:
            raise Fenced(session=session, current=head.fence, fence=commit.header.fence)
        if refusal := self._content_refusal(kept, commit):
            raise refusal
        self._land(kept, commit, head.worker)

    def _content_refusal(self, kept: Session, commit: Commit) -> Exception | None:
        header, session = commit.header, kept.head.session
        if header.seq != len(kept.commits) + 1:
            return CommitConflict(session=session, seq=header.seq)
        try:
            check_content(commit)
        except BadPayload as error:
            return error
        for position, name in enumerate(header.consumes):
            there = kept.inputs.get(name)
            if there is None or there.consumed_by is not None or name in header.consumes[:position]:
                reason = "it is not in the inbox" if there is None else "it was already consumed"
                return InputTaken(session=session, input=name, reason=reason)
        return self._blob_refusal(session, header.refs, commit.blobs)

    def _blob_refusal(
        self, session: str, refs: Sequence[str], given: Mapping[str, bytes]
    ) -> Exception | None:
        for ref in refs:
            if ref not in given and (self._tenant, ref) not in self._store.blobs:
                return BlobUnknown(session=session, blob=ref, world=self.name)
        return None

    def _land(self, kept: Session, commit: Commit, worker: str | None) -> None:
        header, head = commit.header, kept.head
        self._keep_blobs(kept, header.refs, commit.blobs)
        kept.commits.append(replace(commit, blobs={}, spent=None))
        if commit.spent is not None:
            self._store.spend(self._tenant, commit.spent)
        for name in header.consumes:
            kept.inputs[name] = replace(kept.inputs[name], consumed_by=header.seq, body=b"", refs=())
        kept.head = replace(
            head,
            seq=header.seq,
            fence=header.fence,
            format=max(head.format, header.format),
            snapshot_seq=header.seq if header.snapshot else head.snapshot_seq,
            turn_open=header.turn_open,
            parked=header.parked,
            wake_at_s=header.wake_at_s,
            status=header.status,
            worker=worker,
            waiting_inputs=head.waiting_inputs - len(header.consumes),
        )
        # Who gives a session up joins the line at its end.
        stood = kept.ready_at if head.worker in {worker, None} else None
        kept.ready_at = ready_at(header, kept.head.waiting_inputs, stood, self._changed(kept))

    def _keep_blobs(self, kept: Session, refs: Sequence[str], given: Mapping[str, bytes]) -> None:
        kept.names.update(refs, given)
        for name, data in given.items():
            self._store.blobs.setdefault((self._tenant, name), data)

    async def spent(self, first_day: int) -> Sequence[Spent]:
        return self._store.spent(self._tenant, first_day)

    async def stored(self, session: str) -> Stored:
        kept = self._find(session)
        waiting = [one.body for one in kept.inputs.values() if one.consumed_by is None]
        blobs = [self._store.blobs[self._tenant, name] for name in kept.names]
        return Stored(
            commits=len(kept.commits),
            log_bytes=sum(len(commit.body) for commit in kept.commits),
            delta_bytes=sum(len(delta.body) for shown in kept.deltas.values() for delta in shown),
            input_bytes=sum(map(len, waiting)),
            blobs=len(blobs),
            blob_bytes=sum(map(len, blobs)),
        )

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        kept = self._find_held(lease)
        head = kept.head
        shown = kept.deltas.get(after, [])
        if after != head.seq or first > len(shown):
            raise CommitConflict(session=head.session, seq=after)
        kept.deltas[after] = [*shown, *deltas[len(shown) - first :]]
        self._hint(head.session, ready=False)

    async def drop_deltas(self, lease: Lease, before: int) -> None:
        kept = self._find_held(lease)
        for after in [seq for seq in kept.deltas if seq < min(before, kept.head.seq)]:
            del kept.deltas[after]

    async def get(self, session: str) -> SessionHead:
        return self._find(session).head

    async def list(
        self, *, after: str | None = None, limit: int = 100, labels: Mapping[str, str] | None = None
    ) -> Page:
        before = parse_token(after)
        wanted = (labels or {}).items()
        found = sorted(
            (kept.change, kept.head)
            for (tenant, _), kept in self._store.sessions.items()
            if tenant == self._tenant and not kept.erased and wanted <= kept.head.labels.items()
            if before is None or kept.change < before
        )[::-1]
        more = len(found) > limit
        return Page([head for _, head in found[:limit]], str(found[limit - 1][0]) if more else None)

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        return self._find(session).commits[after : after + limit]

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async with self.subscribe(session) as hints:
            while True:
                items = list(behind(self._find(session), after))
                for item in items:
                    yield item
                    after = item.cursor
                if not items:
                    await hints.wait(60)

    async def erase(self, session: str) -> None:
        kept = self._store.sessions.get((self._tenant, session))
        if kept is None:
            raise SessionUnknown(session=session, world=self.name)
        gone, kept.names = kept.names, set[str]()
        kept.erased = True
        kept.commits, kept.deltas, kept.inputs = [], {}, {}
        others = [
            other.names for (tenant, _), other in self._store.sessions.items() if tenant == self._tenant
        ]
        for name in gone.difference(*others):
            del self._store.blobs[self._tenant, name]
        self._hint(session, ready=False)

    # Inbox

    async def put_input(self, session: str, new: Input) -> Input:
        kept = self._find(session)
        check_input(new)
        there = kept.inputs.get(new.id)
        if there is not None and there.digest != new.digest:
            raise InputConflict(session=session, input=new.id)
        if there is None:
            if refusal := self._blob_refusal(session, new.refs, new.blobs):
                raise refusal
            self._keep_blobs(kept, new.refs, new.blobs)
            there = replace(new, blobs={}, arrival=len(kept.inputs) + 1, consumed_by=None, priority=None)
            kept.inputs[new.id] = there
            head = kept.head
            priority = head.priority if new.priority is None else new.priority
            kept.head = replace(head, waiting_inputs=head.waiting_inputs + 1, priority=priority)
            change = self._changed(kept)
            kept.ready_at = ready_at(kept.commits[-1].header, 1, kept.ready_at, change)
        self._hint(session, ready=True, inbox=True)
        return there

    async def inputs(self, session: str) -> Sequence[Input]:
        return [there for there in self._find(session).inputs.values() if there.consumed_by is None]

    async def find_input(self, session: str, input_id: str) -> Input | None:
        return self._find(session).inputs.get(input_id)

    # Queue

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        kept = choose(self._store, self._tenant, offer)
        if kept is None:
            return None
        head = kept.head
        new = takeover_of(kept, takeover)
        self._land(kept, new, offer.worker)
        lease = Lease(head.session, new.header.fence, offer.worker)
        proof = proof_of(head, offer)
        snapshot_seq = head.snapshot_seq
        return Claim(lease, head.seq + 1, snapshot_seq, proof, head.worker, head.status, head.agent)

    async def release(self, lease: Lease) -> None:
        kept = self._store.sessions.get((self._tenant, lease.session))
        if kept and not kept.erased and (kept.head.fence, kept.head.worker) == (lease.fence, lease.worker):
            kept.head = replace(kept.head, worker=None)
            if kept.ready_at is not None and kept.ready_at < 0:
                self._store.changes += 1
                kept.ready_at = self._store.changes - LINE
            self._hint(lease.session, ready=True)

    def open_liveness(self) -> MemoryLiveness:
        return MemoryLiveness(self._store)

    async def tenants(self) -> Sequence[str]:
        return sorted({tenant for tenant, _ in self._store.sessions})

    async def workers(self) -> Sequence[WorkerRow]:
        return list(self._store.workers.values())

    def _stands(self, worker: str | None) -> bool:
        return self._store.stands(worker)

    # Blobs and hints

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        kept = self._find(session)
        for name in hashes:
            if name not in kept.names:
                raise BlobUnknown(session=session, blob=name, world=self.name)
        return {name: self._store.blobs[self._tenant, name] for name in hashes}

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._subscribe(session, inbox)

    @asynccontextmanager
    async def _subscribe(self, session: str | None, inbox: bool) -> AsyncGenerator[Hints]:  # noqa: FBT001 - by place
        hints = Hints(self._tenant, session, inbox=inbox)
        self._store.hints.append(hints)
        try:
            yield hints
        finally:
            self._store.hints.remove(hints)

    def _changed(self, kept: Session) -> int:
        self._store.changes += 1
        kept.change = self._store.changes
        kept.head = replace(kept.head, updated_at_s=self._store.clock.now())
        self._hint(kept.head.session, ready=kept.head.worker is None)
        return kept.change

    def _hint(self, session: str, *, ready: bool, inbox: bool = False) -> None:
        for hints in self._store.hints:
            about = hints.session == session and (inbox or not hints.inbox)
            if hints.tenant == self._tenant and (about or (ready and hints.session is None)):
                hints.changed.set()

    def _find(self, session: str) -> Session:
        kept = self._store.sessions.get((self._tenant, session))
        if kept is None:
            raise SessionUnknown(session=session, world=self.name)
        if kept.erased:
            raise SessionErased(session=session)
        return kept

    def _find_held(self, lease: Lease) -> Session:
        kept = self._find(lease.session)
        if kept.head.fence != lease.fence or kept.head.worker != lease.worker:
            raise Fenced(session=lease.session, current=kept.head.fence, fence=lease.fence)
        return kept


def _landed(kept: Session, commit: Commit) -> bool:
    at = commit.header.seq - 1
    return 0 <= at < len(kept.commits) and kept.commits[at].header.digest == commit.header.digest
