"""Reading Pi's session file, and making it fit to go on from.

Everything here is pure. A session file is a header and a list of entries, one JSON object a line; each entry names the
one before it as its parent, and the last is where Pi goes on. The facts behind this, and the version that they were
found on, are in `docs/internals/pi.md`.

Pi can be started on any part of the file that ends where it would ask the model next: it asks what it asked then, and
is given the same answer from the log. So a file is never completed. It is cut, back to where that holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from outlast.adapters.shapes import Json, as_object, as_objects

TURN: Final = "outlast.turn"
"""Type of the entry before everything of one turn."""
CONTINUE: Final = "outlast.continue"
"""Type of the message with which Pi is made to go on, and name of the command for it; no request holds it."""
VERSION: Final = 3
_FAILED: Final = frozenset({"error", "aborted"})
_OF_A_TURN: Final = frozenset({None, "assistant", "toolResult", "system"})
"""Roles of messages behind which Pi can still be given the result of a call; a prompt, say, is none."""
_SAYING: Final = frozenset({"branch_summary", "compaction", "custom_message"})
"""Entries that are no messages, and that the model is told of."""


@dataclass(frozen=True, slots=True)
class Dangling:
    """A tool call without a result."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Pen:
    """What one new entry is written with."""

    id: str
    at_ms: int
    """Unix time in milliseconds."""

    @property
    def at(self) -> str:
        """The time as a session file has it, `2026-11-29T16:25:32.135Z`."""
        time = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Turn:
    """What of a turn is in a session file."""

    begun: bool
    """The prompt is there."""
    answers: int = 0
    """Whole answers of the model."""
    steers: int = 0
    """What the user said after the prompt."""


@dataclass(slots=True)
class _Reading:
    users: int = 0
    answers: int = 0
    last: int = -1
    """Where the last answer stands."""
    failed: bool = False
    missing: dict[str, Dangling] = field(default_factory=dict[str, Dangling])
    """Calls of the last answer without a result, by id."""


def parse(lines: Sequence[str]) -> list[Json]:
    """The entries of `lines` up to the first that is none: a torn end, or what follows damage."""
    entries: list[Json] = []
    for line in lines:
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError):
            break
        if not isinstance(entry, dict):
            break
        entries.append(cast("Json", entry))
    return entries


def header(cwd: str, pen: Pen) -> str:
    """The first line of the file of a session, whose UUID is the pen's."""
    return _line({"type": "session", "version": VERSION, "id": pen.id, "timestamp": pen.at, "cwd": cwd})


def placed(lines: Sequence[str], cwd: str) -> list[str]:
    """The file as it must stand where the session works in `cwd` now: Pi does not start with one that is not there."""
    if not lines:
        return []
    first = as_object(msgspec.json.decode(lines[0]))
    here = first.get("type") != "session" or first.get("cwd") == cwd
    return list(lines) if here else [_line({**first, "cwd": cwd}), *lines[1:]]


def turn_begins(entries: Sequence[Json], input_id: str) -> int | None:
    """Where the turn of this prompt begins; None if nothing of it is in the file."""
    return next(
        (
            at
            for at, entry in enumerate(entries)
            if entry.get("customType") == TURN and as_object(entry.get("data")).get("input") == input_id
        ),
        None,
    )


def begin_turn(entries: Sequence[Json], input_id: str, pen: Pen) -> str:
    """The entry that begins the turn of a prompt, behind everything that is there."""
    return _entry(entries, pen, {"type": "custom", "customType": TURN, "data": {"input": input_id}})


def fit(entries: Sequence[Json], begins: int, steers: int) -> int:
    """How many entries to keep so that Pi can go on with the turn.

    Kept is everything before the last answer of the model: Pi asks again and is served that answer, runs what may run,
    and is told the rest. Behind its tools it decides whether to compact the conversation, as it did or would have done;
    it does so nowhere else in the same way. Where it has done so, everything is kept but what the user said behind that
    and no request has carried: that is said again.

    Args:
        begins: where the turn begins.
        steers: how many steers its requests have carried.
    """
    read = _Reading()
    for at in range(begins + 1, len(entries)):
        _take(read, at, message_of(entries[at]))
    behind = entries[read.last + 1 :]
    compacted = any(entry.get("type") == "compaction" for entry in behind)
    if read.last < 0 or (compacted and not read.failed and not read.missing):
        return unsaid(entries, begins, steers)
    return read.last


def unsaid(entries: Sequence[Json], begins: int, steers: int) -> int:
    """How many entries to keep of a turn that was cut short: all but what the user said and no request has carried."""
    users = 0
    for at in range(begins + 1, len(entries)):
        if message_of(entries[at]).get("role") == "user":
            if users > steers:
                return at
            users += 1
    return len(entries)


def found(entries: Sequence[Json], begins: int) -> Turn:
    """What of the turn that begins there is in the file."""
    read = _Reading()
    for at in range(begins + 1, len(entries)):
        message = message_of(entries[at])
        read.users += message.get("role") == "user"
        _take(read, at, message)
    return Turn(read.users > 0, read.answers, max(0, read.users - 1))


def branch(entries: Sequence[Json]) -> list[Json]:
    """The entries that lead to the last one, where Pi goes on: of what was left by going back, nothing."""
    by_id = {entry.get("id"): entry for entry in entries[1:]}
    found: list[Json] = []
    at: Json | None = entries[-1] if len(entries) > 1 else None
    while at is not None:
        found.append(at)
        by_id.pop(at.get("id"), None)  # no entry leads to itself
        at = by_id.get(at.get("parentId"))
    return found[::-1]


def dangling(entries: Sequence[Json]) -> Sequence[Dangling]:
    """The calls of the last answer that have no result, if nothing has been said since."""
    read = _Reading()
    for at, entry in enumerate(branch(entries)):
        message = message_of(entry)
        _take(read, at, message)
        if message.get("role") not in _OF_A_TURN or entry.get("type") in _SAYING:
            read.missing = {}
    return list(read.missing.values())


def say_result(entries: Sequence[Json], call: Dangling, told: Mapping[str, Any], pen: Pen) -> str:
    """The entry that gives a dangling call its result, behind everything that is there."""
    message = {"role": "toolResult", "toolCallId": call.id, "toolName": call.name, **told}
    return _entry(entries, pen, {"type": "message", "message": {**message, "timestamp": pen.at_ms}})


def say_steer(entries: Sequence[Json], text: str, pen: Pen) -> str:
    """The entry of what the user said while the turn ran, behind everything that is there."""
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": pen.at_ms}
    return _entry(entries, pen, {"type": "message", "message": message})


def without_continues(lines: Sequence[str]) -> tuple[int, Sequence[str]]:
    """The lines without what made Pi go on in earlier attempts: how many stay as they are, and those behind them.

    No request holds it, but a summary would.
    """
    entries = parse(lines)
    first = next((at for at, entry in enumerate(entries) if _is_continue(entry)), None)
    if first is None:
        return len(lines), ()
    parents: dict[str, object] = {}
    kept: list[str] = []
    for entry in entries[first:]:
        parent = entry.get("parentId")
        while isinstance(parent, str) and parent in parents:
            parent = parents[parent]
        if _is_continue(entry):
            parents[str(entry.get("id"))] = parent
        else:
            kept.append(_line({**entry, "parentId": parent}))
    return first, kept


def _take(read: _Reading, at: int, message: Json) -> None:
    match message.get("role"):
        case "assistant":
            read.last = at
            read.failed = message.get("stopReason") in _FAILED
            read.answers += not read.failed
            read.missing = {} if read.failed else _calls(message)
        case "toolResult":
            read.missing.pop(str(message.get("toolCallId")), None)
        case _:
            pass


def _calls(message: Json) -> dict[str, Dangling]:
    calls = [block for block in as_objects(message.get("content")) if block.get("type") == "toolCall"]
    return {
        str(call.get("id")): Dangling(
            str(call.get("id")), str(call.get("name")), as_object(call.get("arguments"))
        )
        for call in calls
    }


def message_of(entry: Json) -> Json:
    """The message that an entry is; empty if it is none."""
    return as_object(entry.get("message")) if entry.get("type") == "message" else {}


def _is_continue(entry: Json) -> bool:
    return entry.get("type") == "custom_message" and entry.get("customType") == CONTINUE


def _entry(entries: Sequence[Json], pen: Pen, said: Mapping[str, Any]) -> str:
    parent = entries[-1].get("id") if len(entries) > 1 else None
    return _line({"type": said["type"], "id": pen.id, "parentId": parent, "timestamp": pen.at, **said})


def _line(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
