"""Documents of a session: read, edit, follow."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final

import anyio
import msgspec

from outlast.documents import Document
from outlast.errors import NotFound
from outlast.ids import new_id
from outlast.records import AnyEdit
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation, Streamed
from outlast.server.routes.inputs import Own
from outlast.server.routes.sessions import session_of
from outlast.session import Session
from outlast.world import Cursor

WAIT_S: Final = 30.0
BYTES: Final = 4 * 1024 * 1024
_BEAT: Final = b": \n\n"


class Documents(msgspec.Struct, frozen=True):
    """The documents of a session: by name, the version."""

    documents: dict[str, int]


class DocumentView(msgspec.Struct, frozen=True):
    """A document as it is at a version."""

    name: str
    version: int
    value: Any


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edits a document, all or nothing."""

    edits: Annotated[tuple[AnyEdit, ...], msgspec.Meta(min_length=1, max_length=1000)]
    """Done in order to whatever is there by then."""
    if_version: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Only if this is its version; 0 when it must not be there yet."""
    id: Own | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=WAIT_S)] = 10.0
    """How long to wait for the worker of an open turn."""


class Edited(msgspec.Struct, frozen=True):
    """What came of an edit."""

    input: str
    document: DocumentView | None
    """As it then is; null: the edit is durable and waits for the worker that advances the session."""


async def list_documents(call: Call[Nothing, Nothing]) -> Documents:
    """List the documents of a session."""
    state = await (await session_of(call)).state()
    return Documents({name: there.version for name, there in sorted(state.documents.items())})


async def get_document(call: Call[Nothing, Nothing]) -> DocumentView:
    """Show a document as it is now."""
    session = await session_of(call)
    document = await session.document(call.path["name"])
    if not document.version:
        raise NotFound(detail=f"Session {session.id} has no document {document.name!r}.")
    return _view(document)


async def edit_document(call: Call[Edit, Nothing]) -> Edited:
    """Edit a document. While a turn is open its worker does so; an edit that waits for one is durable."""
    session, body = await session_of(call), call.body
    name = body.id or new_id("edit")
    document: Document | None = None
    with anyio.move_on_after(body.wait_s):
        document = await session.edit(
            call.path["name"], *body.edits, if_version=body.if_version, by=call.identity.name, id=name
        )
    await call.services.woken(call.identity.tenant, session.id)
    return Edited(name, None if document is None else _view(document))


async def follow_document(call: Call[Nothing, Nothing]) -> Streamed:
    """Follow a document: as it is now, then the newest whenever it changes, as server-sent events."""
    return Streamed(_versions(call, await session_of(call), call.path["name"]))


async def _versions(call: Call[Nothing, Nothing], session: Session, name: str) -> AsyncGenerator[bytes]:
    seq = (await session.head()).seq  # read first: what changes after it lies behind it
    document = await session.document(name)
    yield _frame(document)
    batches = call.services.hub.batches(call.identity.tenant, session.id, Cursor.behind(seq))
    async with aclosing(batches) as found:
        async for batch in found:
            if not batch:
                yield _BEAT
            elif any(one.event.kind == "document.edited" and one.event.name == name for one in batch):
                newest = await session.document(name)
                if newest.version > document.version:
                    document = newest
                    yield _frame(document)


def _frame(document: Document) -> bytes:
    data = msgspec.json.encode(_view(document))
    return b"id: %d\nevent: document\ndata: %s\n\n" % (document.version, data)


def _view(document: Document) -> DocumentView:
    return DocumentView(document.name, document.version, document.value)


_DOCUMENT: Final = "/v1/sessions/{session}/documents/{name}"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/v1/sessions/{session}/documents", list_documents, Scope.READ, Documents),
    Operation("GET", _DOCUMENT, get_document, Scope.READ, DocumentView),
    Operation(
        "PATCH", _DOCUMENT, edit_document, Scope.WRITE, Edited, body=Edit, most_bytes=BYTES, fails=(409,)
    ),
    Operation("GET", f"{_DOCUMENT}/follow", follow_document, Scope.READ, media="text/event-stream"),
)
