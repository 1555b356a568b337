"""How sessions come from others and go: forks, exports, erasures."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from outlast.erasing import check_may_be_erased, erase
from outlast.errors import Declined
from outlast.exporting import export
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation, Streamed
from outlast.server.routes.sessions import View, Word, session_of, view_of

Number = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]


class Fork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Opens a session that goes on from the past of another."""

    at: Number | None = None
    """The last commit that it shares; null: the newest."""
    before_turn: Number | None = None
    """Instead: as it was before this turn was begun."""
    session: str | None = None
    """Its id: the same again is the same fork; null: a new one."""
    labels: dict[Word, Word] = {}


class Erase(msgspec.Struct, frozen=True):
    """Whether a session is erased all the same."""

    force: bool = False
    """Also while its turn is open; a worker that advances it stops."""


class Erased(msgspec.Struct, frozen=True):
    """The session is gone for good."""

    session: str
    left: list[str]
    """What could not be removed on the server's machine, and why."""


async def fork_session(call: Call[Fork, Nothing]) -> View:
    """Open a session that has the past of this one up to a commit, and goes on by itself."""
    session, body = await session_of(call), call.body
    made = await session.fork(
        body.at, before_turn=body.before_turn, id=body.session, labels=body.labels or None
    )
    call.services.audit(call.identity, "fork", {"session": session.id, "fork": made.id, "at": body.at})
    await call.services.woken(call.identity.tenant, made.id)
    return await view_of(made)


async def export_session(call: Call[Nothing, Nothing]) -> Streamed:
    """Give the whole session as a tar archive: its commits as JSON, and every blob that they name."""
    session = await session_of(call)
    call.services.exports.begin()
    call.services.audit(call.identity, "export", {"session": session.id})
    headers = {"content-disposition": f'attachment; filename="{session.id}.tar"'}
    pieces = export(call.world, session.id, call.services.clock)
    return Streamed(pieces, "application/x-tar", headers, call.services.exports.end)


async def erase_session(call: Call[Nothing, Erase]) -> Erased:
    """Erase a session for good: its log, its blobs, and what was kept of it where the server runs."""
    session, data = await session_of(call), call.services.data
    if data is None:
        raise Declined(
            status=403, detail="This server was set up without a data directory: it erases nothing."
        )
    check_may_be_erased(await session.head(), force=call.query.force)
    call.services.audit(call.identity, "erase", {"session": session.id})
    return Erased(session.id, list(await erase(call.world, session.id, data, call.services.clock)))


_SESSION: Final = "/v1/sessions/{session}"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation("POST", f"{_SESSION}/forks", fork_session, Scope.WRITE, View, 201, body=Fork, fails=(409,)),
    Operation("GET", f"{_SESSION}/export", export_session, Scope.ADMIN, media="application/x-tar"),
    Operation("DELETE", _SESSION, erase_session, Scope.ADMIN, Erased, query=Erase, fails=(409,)),
)
