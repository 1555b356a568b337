"""OpenCode's own event log of a session, as the mirror holds it: one line for each event, at the place of its number.

Pure. The log is what `POST /sync/history` gives and `POST /sync/replay` takes; a part of it from the beginning is a log
too, so that a session is put back by taking away its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from outlast.adapters.shapes import Json, as_object, as_objects

DIRECTORY: Final = "opencode/"
_SUFFIX: Final = ".events"
_OF_SESSION: Final = ("session.created", "session.updated")


@dataclass(frozen=True, slots=True)
class Stored:
    """One event."""

    id: str
    seq: int
    type: str
    """With its version: `message.updated.1`."""
    data: Json

    @property
    def kind(self) -> str:
        """`type` without the version."""
        name, _, version = self.type.rpartition(".")
        return name if version.isdigit() else self.type


@dataclass(slots=True)
class Message:
    """A message as the events leave it."""

    id: str
    first: int
    """Number of its first event."""
    info: Json
    parts: dict[str, Json] = field(default_factory=dict[str, Json])

    @property
    def is_answer(self) -> bool:
        """It is the model's."""
        return self.info.get("role") == "assistant"

    @property
    def is_summary(self) -> bool:
        """It is what a compaction made."""
        return self.is_answer and bool(self.info.get("summary"))

    @property
    def tools(self) -> Sequence[Json]:
        """Its tool calls."""
        return [part for part in self.parts.values() if part.get("type") == "tool"]

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(
            str(part.get("text", "")) for part in self.parts.values() if part.get("type") == "text"
        )

    @property
    def is_whole(self) -> bool:
        """The answer ended, and so did every call in it."""
        time = as_object(self.info.get("time"))
        ended = bool(time.get("completed")) and bool(self.info.get("finish")) and not self.info.get("error")
        return ended and all(is_ended(part) for part in self.tools)

    @property
    def is_last(self) -> bool:
        """The answer asks for nothing more."""
        return self.is_whole and self.info.get("finish") not in {"tool-calls", "unknown"} and not self.tools


def is_ended(part: Mapping[str, Any]) -> bool:
    """Whether a tool call has its result."""
    state = as_object(part.get("state"))
    if state.get("status") == "error":
        return not as_object(state.get("metadata")).get("interrupted")
    return state.get("status") == "completed"


def path_of(aggregate: str) -> str:
    """The file of the mirror for the events of a session of OpenCode's."""
    return f"{DIRECTORY}{aggregate}{_SUFFIX}"


def aggregate_of(path: str) -> str | None:
    """The session of OpenCode's whose events a file of the mirror holds; None of another file."""
    if not (path.startswith(DIRECTORY) and path.endswith(_SUFFIX)):
        return None
    return path.removeprefix(DIRECTORY).removesuffix(_SUFFIX)


def as_line(event: Mapping[str, Any]) -> str:
    """The line of an event, as `/sync/history` gives it."""
    kept = {"id": event["id"], "seq": event["seq"], "type": event["type"], "data": event["data"]}
    return msgspec.json.encode(kept).decode()


def read(lines: Sequence[str]) -> list[Stored]:
    """The events in lines of the mirror, up to the first that is not the next."""
    events: list[Stored] = []
    for number, line in enumerate(lines):
        found: Json = as_object(msgspec.json.decode(line))
        if found.get("seq") != number:
            break
        events.append(
            Stored(str(found.get("id", "")), number, str(found.get("type", "")), as_object(found.get("data")))
        )
    return events


def replayed(aggregate: str, events: Sequence[Stored], directory: str) -> list[Json]:
    """Events as `/sync/replay` takes them, of a session that works in `directory`: of a fork, elsewhere than before."""
    return [
        {
            "id": event.id,
            "aggregateID": aggregate,
            "seq": event.seq,
            "type": event.type,
            "data": _placed(event, directory),
        }
        for event in events
    ]


def _placed(event: Stored, directory: str) -> Json:
    info = as_object(event.data.get("info"))
    if event.kind not in _OF_SESSION or "directory" not in info:
        return event.data
    return {**event.data, "info": {**info, "directory": directory}}


def session_of(events: Sequence[Stored]) -> Json:
    """What the session was created with; empty if its beginning is not there."""
    first = events[0] if events else None
    return as_object(first.data.get("info")) if first is not None and first.kind == "session.created" else {}


def is_root(events: Sequence[Stored]) -> bool:
    """Whether the session is a conversation, and not a sub-agent's."""
    info = session_of(events)
    return bool(info) and not info.get("parentID")


def permission_of(events: Sequence[Stored]) -> Sequence[Json]:
    """The session's own permission rules."""
    infos = (as_object(event.data.get("info")) for event in reversed(events) if event.kind in _OF_SESSION)
    return next((as_objects(info["permission"]) for info in infos if "permission" in info), ())


def messages_of(events: Sequence[Stored]) -> list[Message]:
    """The messages of the session, in the order in which they came."""
    found: dict[str, Message] = {}
    for event in events:
        match event.kind:
            case "message.updated":
                info = as_object(event.data.get("info"))
                _message(found, str(info.get("id", "")), event.seq).info = info
            case "message.part.updated":
                part = as_object(event.data.get("part"))
                message = _message(found, str(part.get("messageID", "")), event.seq)
                message.parts[str(part.get("id", ""))] = part
            case "message.removed":
                found.pop(str(event.data.get("messageID", "")), None)
            case "message.part.removed":
                message = found.get(str(event.data.get("messageID", "")))
                if message is not None:
                    message.parts.pop(str(event.data.get("partID", "")), None)
            case _:
                pass
    return list(found.values())


def _message(found: dict[str, Message], id: str, seq: int) -> Message:  # noqa: A002 - as the events have it
    return found.setdefault(id, Message(id, seq, {}))
