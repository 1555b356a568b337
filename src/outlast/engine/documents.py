"""The documents of a session under its lease, or while nobody holds it: edits in one order, each on what is there.

An edit is decided on the newest value that the log will have, in one step with its place in the log: where a value must
be fetched meanwhile, and another edit comes first, it is decided anew. So none is ever done to what is no more.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.adapter import ToolResult
from outlast.clock import Clock
from outlast.codec import GetBlobs, Packer, to_json
from outlast.documents import COUNT_LIMIT, Document, Shapes, Wish, edited, shape_of, whole, wish
from outlast.engine.effects import as_unicode
from outlast.engine.results import said_of
from outlast.errors import BadEdit, BadInput
from outlast.fold import SessionState
from outlast.records import AnyEdit, AnyRecord, CallIntent, DocumentEdited, EditRejected, Payload
from outlast.squeezing import unsqueeze

NOT_EDITED = (
    "{name} ran to its end, but its edits were not kept. {error} The rest of it stands. It returned: {said}"
)
OVER = "the call that edits it is over"


class Documents:
    """Reads documents in the live state of a session, and makes records of edits."""

    def __init__(self, state: SessionState, get_blobs: GetBlobs, shapes: Shapes, clock: Clock) -> None:
        self.state = state
        self._get_blobs = get_blobs
        self._shapes = shapes
        self._clock = clock

    async def value(self, payload: Payload) -> Any:
        """The JSON value of a payload."""
        if not payload.ref:
            return msgspec.json.decode(payload.json)
        found = await self._get_blobs([payload.ref])
        return msgspec.json.decode(unsqueeze(found[payload.ref]))

    async def seen(self, name: str, wishes: Sequence[Wish] = ()) -> Document:
        """A document as it would be after these edits of it.

        Raises:
            BadEdit
        """
        of_it = [one for one in wishes if one.name == name]
        while True:
            there = self.state.documents.get(name)
            value = None if there is None else await self.value(there.value)
            if self.state.documents.get(name) is there:
                version = 0 if there is None else there.version
                for one in of_it:
                    value = msgspec.json.decode(self._text(one, value, version))
                    version += 1
                return Document(name, version, value)

    async def land(
        self, wishes: Sequence[Wish], packer: Packer, *, call: int = 0, input_id: str = "", by: str = ""
    ) -> Sequence[DocumentEdited]:
        """The records of these edits, all of them: to be appended before anything else is awaited.

        Raises:
            BadEdit: one of them cannot be done; none is.
        """
        names = {one.name for one in wishes}
        while True:
            there = {name: self.state.documents.get(name) for name in names}
            values = {name: None if at is None else await self.value(at.value) for name, at in there.items()}
            if all(self.state.documents.get(name) is at for name, at in there.items()):
                break
        versions = {name: self.state.version_of(name) for name in names}
        records: list[DocumentEdited] = []
        for one in wishes:
            text = self._text(one, values[one.name], versions[one.name])
            versions[one.name] += 1
            values[one.name] = msgspec.json.decode(text)
            edits = Payload() if whole(one) else packer.text(to_json(one.edits, what=one.name))
            shape = shape_of(self._shapes, one.name)
            records.append(
                DocumentEdited(
                    one.name,
                    versions[one.name],
                    packer.text(text),
                    edits,
                    call,
                    input_id,
                    by,
                    0 if shape is None else shape.version,
                    self._clock.now(),
                )
            )
        return records

    def rejected(
        self, name: str, error: BadInput, *, call: int = 0, input_id: str = "", by: str = ""
    ) -> EditRejected:
        """What stands in the log for an edit that changed nothing."""
        reason = as_unicode(str(error.facts["reason"]))
        return EditRejected(name, reason, self.state.version_of(name), call, input_id, by, self._clock.now())

    def _text(self, one: Wish, value: Any, version: int) -> bytes:
        there, shape = self.state.documents.get(one.name), shape_of(self._shapes, one.name)
        known = 0 if shape is None else shape.version
        if there is not None and shape is not None and there.shape > known:
            reason = f"it has shape {there.shape}, and this code knows {known}"
            raise BadEdit(name=one.name, reason=reason)
        if there is None and len(self.state.documents) >= COUNT_LIMIT:
            raise BadEdit(name=one.name, reason=f"the session has {COUNT_LIMIT} documents already")
        return edited(one, value, version, shape)

    async def with_outcome(
        self, intent: CallIntent, result: ToolResult, docs: "CallDocs | None", packer: Packer
    ) -> tuple[ToolResult, Sequence[AnyRecord]]:
        """How a tool's call ends that edited documents, and what comes before its outcome, in the same commit."""
        if docs is None:
            return result, ()
        docs.over = True
        if not docs.wishes or result.status != "ok":
            return result, ()
        try:
            return result, await self.land(docs.wishes, packer, call=intent.call)
        except BadEdit as error:
            said = as_unicode(said_of(result.value))
            text = NOT_EDITED.format(name=intent.name, error=error, said=said)
            return ToolResult("error", text), [
                self.rejected(str(error.facts["name"]), error, call=intent.call)
            ]


class CallDocs:
    """The documents as one call of a tool has them (`outlast.documents.Docs`)."""

    __slots__ = ("_documents", "over", "wishes")

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.wishes: list[Wish] = []
        """What it has edited, in order; nothing of it is in the log."""
        self.over = False

    async def get(self, name: str) -> Document:
        return await self._documents.seen(name, self.wishes)

    async def edit(self, name: str, *edits: AnyEdit, if_version: int | None = None) -> Document:
        wanted = wish(name, edits, if_version)
        while True:
            before = tuple(self.wishes)
            document = await self._documents.seen(name, (*before, wanted))
            if self.over:
                raise BadEdit(name=name, reason=OVER)
            if tuple(self.wishes) == before:  # the tool may do several things at once
                self.wishes.append(wanted)
                return document
