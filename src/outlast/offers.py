"""Tools that every agent program is offered beside the application's: to wait for days, to ask a person, for documents.

A program cannot be stopped in the middle of its own loop, but a tool call of it can last: the call is a wait in the
log, the program is stopped, and worker and sandbox are free until a signal, a time or an answer ends the wait and
becomes the result of the call. A document is edited by a tool like any other: what a call edits takes effect in the
commit of its outcome or not at all, so recovery may run it again as often as it must.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from outlast.errors import BadEdit, BadPayload
from outlast.records import AnyEdit
from outlast.tool import Tool, ToolFailed, ToolIO, tool

WAIT: Final = "outlast_wait"
ASK: Final = "outlast_ask"
DOCUMENT: Final = "outlast_document"

SIGNAL_LIMIT: Final = 512
"""Characters of the name of a signal."""

_Signal = Annotated[
    str, msgspec.Meta(description="Name of the signal to wait for, as whoever sends it knows it.")
]
_Seconds = Annotated[
    float, msgspec.Meta(description="Wait at most this many seconds; 0 for no limit beside a signal.", ge=0)
]
_Until = Annotated[
    str, msgspec.Meta(description="Wait at most until this time, as ISO 8601 with its offset.")
]
_Question = Annotated[str, msgspec.Meta(description="What the person is asked, complete in itself.")]
_Choices = Annotated[list[str], msgspec.Meta(description="Answers to choose from, if there are only some.")]


@tool(replay="safe", name=WAIT)
async def _wait(
    io: ToolIO,  # noqa: ARG001 - every tool is given io
    signal: _Signal = "",
    seconds: _Seconds = 0.0,
    until: _Until = "",
) -> str:
    """Wait for a signal from outside (the end of a CI run, say), for some time, or until a time: minutes or days.

    Costs nothing meanwhile. Returns the signal's content; a wait whose time is over first says so.
    """
    said = f"signal={signal!r}, seconds={seconds:g}, until={until!r}"
    wanted = "a signal, some seconds, or a time like 2027-01-31T08:00:00+00:00"
    raise ToolFailed(f"There is nothing to wait for in {said}. Give {wanted}.")


@tool(replay="safe", name=ASK)
async def _ask(
    io: ToolIO,  # noqa: ARG001 - every tool is given io
    question: _Question,
    choices: _Choices = [],  # noqa: B006 - each call gets a copy
) -> str:
    """Ask a person and wait for the answer, which may take days. Returns the answer."""
    raise ToolFailed(f"Say what the person is to be asked; this is no question: {question!r} {choices}.")


_Name = Annotated[str, msgspec.Meta(description="Name of the document.")]
_Edits = Annotated[
    list[AnyEdit],
    msgspec.Meta(
        description="Done in order, all or none: `set` puts `value` at `path`, `merge` merges it in (RFC 7396), "
        "`delete` removes what is there. `path` is a JSON pointer (RFC 6901); empty for the whole document, `-` at its "
        "end for behind a list. Leave it out to read."
    ),
]
_IfVersion = Annotated[
    int | None,
    msgspec.Meta(description="Edit only if the document has this version; 0 if it must not be there yet."),
]


@tool(replay="safe", name=DOCUMENT)
async def _document(
    io: ToolIO,
    name: _Name,
    edits: _Edits = [],  # noqa: B006 - each call gets a copy
    if_version: _IfVersion = None,
) -> dict[str, Any]:
    """Read or edit a document of this session: JSON of up to 64 KB that the application sees and edits too.

    Without `edits` it returns the document's version and value; version 0 and null if it is not there. With them it
    edits, which makes it if it is not there, and returns the version. Read it again before an edit that hangs on what
    it holds, and give `if_version`.
    """
    try:
        if edits:
            made = await io.docs.edit(name, *edits, if_version=if_version)
            return {"name": made.name, "version": made.version}
        found = await io.docs.get(name)
    except (BadEdit, BadPayload) as error:
        raise ToolFailed(str(error)) from None
    return {"name": found.name, "version": found.version, "value": found.value}


OFFERED: Final[Mapping[str, Tool]] = {one.name: one for one in (_wait, _ask, _document)}


@dataclass(frozen=True, slots=True)
class Offered:
    """What a call of one of these tools waits for."""

    until_s: float
    """Unix time at which it ends by itself; 0 never."""


def read_offer(name: str, arguments: Mapping[str, Any], now_s: float) -> Offered | None:
    """What a tool call waits for; None if it is another tool's, or says nothing that can be waited for."""
    if name not in {WAIT, ASK} or not arguments.keys() <= OFFERED[name].schema["properties"].keys():
        return None  # the tool itself says what does not fit
    if name == ASK:
        asked = arguments.get("question")
        return Offered(0.0) if isinstance(asked, str) and asked.strip() else None
    signal, seconds, until = (arguments.get(key) for key in ("signal", "seconds", "until"))
    times = [now_s + seconds] if isinstance(seconds, int | float) and seconds > 0 else []
    if until:
        moment = _moment(until)
        if moment is None:
            return None
        times.append(moment)
    if isinstance(signal, str) and len(signal) > SIGNAL_LIMIT:
        return None
    if not times and not (isinstance(signal, str) and signal):
        return None
    return Offered(max(min(times), 1.0) if times else 0.0)


def _moment(text: object) -> float | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
