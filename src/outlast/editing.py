"""Edits of documents by an application: at once while nobody holds the session, else through its inbox."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from outlast.clock import Clock
from outlast.codec import Packer, canonical, encode_input, encode_records, record_refs
from outlast.documents import Document, Shapes, Wish, wish
from outlast.engine.batch import patiently
from outlast.engine.documents import Documents
from outlast.engine.load import load_state
from outlast.engine.spacing import SNAPSHOT_AFTER
from outlast.errors import BadEdit, CommitConflict, Fenced, InputTaken, NotIdle
from outlast.fold import SessionState, records_of
from outlast.ids import digest, new_id
from outlast.records import (
    PLAIN,
    AnyEdit,
    AnyRecord,
    DocumentEdited,
    Edit,
    EditRejected,
    InputDropped,
)
from outlast.snapshots import snapshot_of
from outlast.state import status_of
from outlast.world import Commit, Cursor, Header, Input, SessionHead, World
from outlast.world.commit import make_commit

UNREADABLE = "no worker could read the edit"


class DocumentDesk:
    """The documents of a session, for an application."""

    def __init__(self, world: World, session: str, clock: Clock, shapes: Shapes | None = None) -> None:
        self.world = world
        self.id = session
        self._clock = clock
        self._shapes = shapes
        """What the documents must be; None when the caller does not know."""

    async def state(self) -> SessionState:
        """Everything recovery would know of it, read from the log."""
        head = await self.world.get(self.id)
        return await load_state(self.world, self.id, head.snapshot_seq)

    async def document(self, name: str) -> Document:
        """A document as it is now; version 0 and None if it is not there."""
        return await self._documents(await self._newest(await self.world.get(self.id))).seen(name)

    async def edit(
        self,
        name: str,
        *edits: AnyEdit,
        if_version: int | None = None,
        by: str = "",
        id: str | None = None,  # noqa: A002
    ) -> Document:
        """Edit a document, all or nothing, and return what it then is. Durable when this returns.

        While a turn is open the worker that advances the session does it; where none runs, this waits for one. From
        when it waits the edit is durable: whoever stops waiting has not taken it back.

        Args:
            edits: `Set`, `Merge` and `Delete`, done in order to whatever is there by then.
            if_version: only if this is the version of the document; 0 when it must not be there yet.
            by: who edits, for the log.
            id: the caller's own; the same id and content again is the same edit.

        Raises:
            BadEdit: nothing was changed, for the reason that it holds.
            BadPayload: a value is not JSON.
            InputConflict: the id was used with another content.
        """
        return await self._edit(wish(name, edits, if_version), by, id)

    async def follow_document(self, name: str) -> AsyncGenerator[Document]:
        """The document as it is now, then each version as it comes, without end."""
        state = await self._newest(await self.world.get(self.id))
        documents = self._documents(state)
        yield await documents.seen(name)
        async with aclosing(self._committed(state.seq)) as committed:
            async for record in committed:
                if isinstance(record, DocumentEdited) and record.name == name:
                    yield Document(name, record.version, await documents.value(record.value))

    async def _edit(self, wanted: Wish, by: str, input_id: str | None) -> Document:
        """Do it, or have a worker do it, and say what came of it."""
        value = Edit(wanted.name, wanted.edits, wanted.if_version, by, self._clock.now())
        if input_id is None:
            done = await self._idly(wanted, by)
            if done is not None:
                return done
        name = input_id or new_id("edit")
        content = canonical([wanted.name, msgspec.to_builtins(wanted.edits), wanted.if_version])
        new = Input(name, digest(type(value).__name__.encode(), content), encode_input(value))
        put = await self.world.put_input(self.id, new)
        if put.consumed_by is None:
            done = await self._idly(wanted, by, name)
            if done is not None:
                return done
        return await self._outcome(wanted, name)

    async def _idly(self, wanted: Wish, by: str, input_id: str = "") -> Document | None:
        """Do it while nobody holds the session; None when somebody does, or knows better what the document must be."""
        while True:
            head = await self.world.get(self.id)
            if head.turn_open:
                return None
            state = await self._newest(head)
            if self._shapes is None and _is_shaped(state, wanted.name):
                return None
            if state.seq != head.seq:  # what goes into the header must be of the newest commit
                continue
            try:
                return await self._commit(wanted, by, input_id, head, state)
            except CommitConflict:
                continue
            except (NotIdle, Fenced, InputTaken):
                return None

    async def _commit(
        self, wanted: Wish, by: str, input_id: str, head: SessionHead, state: SessionState
    ) -> Document:
        packer = Packer(self.world.tenant, set(state.held))
        documents = self._documents(state)
        record: DocumentEdited | EditRejected
        try:
            (record,) = await documents.land([wanted], packer, input_id=input_id, by=by)
        except BadEdit as error:
            if not input_id:
                raise
            record = documents.rejected(wanted.name, error, input_id=input_id, by=by)
        commit = _commit(state, head, record, packer, input_id)
        await patiently(partial(self.world.commit_idle, self.id, commit))
        return await self._told(wanted, record)

    async def _outcome(self, wanted: Wish, input_id: str) -> Document:
        """Wait until the edit is in the log, applied or rejected."""
        head = await self.world.get(self.id)  # read first: what is not consumed after it lands behind it
        found = await self.world.find_input(self.id, input_id)
        before = head.seq if found is None or found.consumed_by is None else found.consumed_by - 1
        async with aclosing(self._committed(before)) as committed:
            async for record in committed:
                if (
                    isinstance(record, DocumentEdited | EditRejected | InputDropped)
                    and record.input == input_id
                ):
                    return await self._told(wanted, record)
        raise BadEdit(name=wanted.name, reason=UNREADABLE)

    async def _told(self, wanted: Wish, record: DocumentEdited | EditRejected | InputDropped) -> Document:
        if isinstance(record, DocumentEdited):
            value = await self._documents(SessionState(session=self.id)).value(record.value)
            return Document(record.name, record.version, value)
        raise BadEdit(name=wanted.name, reason=record.reason)

    async def _committed(self, after: int) -> AsyncGenerator[AnyRecord]:
        async with aclosing(self.world.follow(self.id, Cursor.behind(after))) as items:
            async for item in items:
                if isinstance(item.what, Commit):
                    for record in records_of(self.id, item.what)[item.first :]:
                        yield record

    async def _newest(self, head: SessionHead) -> SessionState:
        return await load_state(self.world, self.id, head.snapshot_seq)

    def _documents(self, state: SessionState) -> Documents:
        return Documents(state, self._blobs, self._shapes or {}, self._clock)

    async def _blobs(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return await self.world.get_many(self.id, names)


def _is_shaped(state: SessionState, name: str) -> bool:
    """Whether a worker knows what the document must be."""
    there = state.documents.get(name)
    declared = state.opened is not None and name in state.opened.documents
    return declared or (there is not None and there.shape > 0)


def _commit(
    state: SessionState, head: SessionHead, record: AnyRecord, packer: Packer, input_id: str
) -> Commit:
    """The commit of an edit; also a snapshot, where much was committed since the newest."""
    records: list[AnyRecord] = [record]
    snapshot = state.seq - head.snapshot_seq > SNAPSHOT_AFTER
    if snapshot:
        records.insert(0, snapshot_of(state, packer))
    header = Header(
        seq=state.seq + 1,
        fence=state.fence,
        format=PLAIN,
        events=len(records),
        consumes=(input_id,) if input_id else (),
        refs=tuple(dict.fromkeys((*record_refs(records), *packer.blobs))),
        # As the commit before it said: a prompt that waits in the log keeps its session ready.
        wake_at_s=head.wake_at_s,
        status=status_of(state),
        snapshot=snapshot,
    )
    return make_commit(header, encode_records(records), packer.blobs)
