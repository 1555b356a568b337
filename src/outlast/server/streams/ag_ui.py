"""The moves of a turn as events of AG-UI 1.0, which CopilotKit and others read.

Format: the protocol's schema at version 1.0; what may follow what, `verifyEvents` of the npm package `@ag-ui/client`.

* A run is a turn, or what comes of it behind an interrupt. `RUN_STARTED` and `RUN_FINISHED` name the client's own run,
  so they are added for each who watches (`Rest` says how a run ends); all other events are the same for all.
* A message's id is made of session, turn and call, so it is the same whenever it is told.
* **What is void is taken back by a `MESSAGES_SNAPSHOT`** (`Retract`): the protocol has no smaller way. It says all
  messages, those that the client has sent and those of the turn that stand, so a client needs no other event for it.
* The protocol has no place to go on from. Whoever comes back sends its messages again and is told the turn from its
  beginning; a snapshot that ends with its own last message takes back what it had of the turn.
* The state is the session's documents, by name: a snapshot as they stand, then a JSON patch for each edit. A state
  that a client sends changes nothing: documents are edited by the API.

Not shown as messages, but as `CUSTOM` events: other lanes, running output of tools, waits that nobody ends, take-overs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from outlast.records import Usage
from outlast.server.streams.moves import (
    Asked,
    Attempt,
    Began,
    Called,
    Document,
    Ended,
    Move,
    Paused,
    Piece,
    Question,
    Ruled,
    Said,
    Settled,
    Steered,
    Void,
    Waits,
)
from outlast.server.streams.patches import patch
from outlast.tool import result_text

Message: TypeAlias = dict[str, Any]
_REASON: Final = {"allow": "tool_approval", "doubt": "in_doubt", "answer": "question"}


@dataclass(frozen=True, slots=True)
class Retract:
    """Only these messages of the turn stand now."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Rest:
    """A run ends here: the turn is settled, or waits for a person."""

    kind: Literal["success", "interrupt", "cancelled", "error"]
    interrupts: Sequence[Mapping[str, Any]] = ()
    error: str = ""
    result: object = None
    usage: Usage | None = None


Chunk: TypeAlias = "bytes | Retract | Rest"


@dataclass(slots=True)
class _Writing:
    """What of a model call is open."""

    call: int = 0
    text: bool = False
    thinking: bool = False
    shown: set[str] = field(default_factory=set[str])
    """Ids of its messages."""


class AgUiStream:
    """Events of one turn; `take` adds to them.

    Args:
        documents: the session's as they stood when this was made, with their versions.
    """

    def __init__(self, session: str, documents: Mapping[str, tuple[int, object]]) -> None:
        self.chunks: list[Chunk] = []
        self.weight = 0
        self.over = False
        self.pauses: dict[int, int] = {}
        """By number of the pause the index of its `Rest`."""
        self.asked: dict[int, tuple[str, Question]] = {}
        """By call what a person is asked now, and the id of the interrupt."""
        self._session = session
        self._turn = 0
        self._documents = dict(documents)
        self._messages: dict[str, Message] = {}
        self._writing = _Writing()
        self._parent = ""
        self._spoke = False
        self._tools: set[int] = set()
        self._waits: set[int] = set()
        self._kinds: Mapping[type[Move], Callable[[Any], None]] = {
            Began: self._began,
            Attempt: self._attempt,
            Asked: self._asked,
            Piece: self._piece,
            Void: self._void,
            Said: self._said,
            Called: self._called,
            Ended: self._ended,
            Waits: self._wait,
            Paused: self._paused,
            Ruled: self._ruled,
            Steered: self._steered,
            Document: self._document,
            Settled: self._settled,
        }

    @property
    def resting(self) -> bool:
        """Whether a run ends with its last chunk."""
        return bool(self.chunks) and isinstance(self.chunks[-1], Rest)

    def take(self, move: Move) -> None:
        """Take in one move."""
        fold = self._kinds.get(type(move))
        if fold is not None:
            fold(move)

    def _put(self, event: Mapping[str, Any]) -> None:
        self.chunks.append(encoded(event))
        self.weight += len(self.chunks[-1]) if isinstance(self.chunks[-1], bytes) else 0

    def _custom(self, name: str, value: object) -> None:
        self._put({"type": "CUSTOM", "name": f"outlast.{name}", "value": value})

    def _id(self, name: object) -> str:
        return f"{self._session}.{self._turn}.{name}"

    def _began(self, move: Began) -> None:
        self._turn = move.turn
        known = {name: value for name, (_, value) in self._documents.items()}
        self._put({"type": "STATE_SNAPSHOT", "snapshot": known})

    def _attempt(self, move: Attempt) -> None:
        self._custom("attempt", {"attempt": move.nth, "worker": move.worker})

    # Words

    def _asked(self, move: Asked) -> None:
        if move.ours:
            self._end_words()
            self._writing = _Writing(move.call)
            self._parent = self._id(move.call)
        else:
            self._custom("lane", {"lane": move.lane, "call": move.call, "doing": move.name})

    def _piece(self, move: Piece) -> None:
        if move.kind == "output" or not move.ours:
            kind = "output" if move.kind == "output" else "lane_text"
            about = {"call": move.call, "lane": move.lane, "offset": move.offset, "text": move.text}
            self._custom(kind, about)
        elif move.kind == "text":
            self._write(move)
        else:
            self._think(move)

    def _write(self, move: Piece) -> None:
        self._end_thinking()
        name = self._id(move.call)
        message = self._messages.setdefault(name, {"id": name, "role": "assistant", "content": ""})
        if not self._writing.text:
            self._writing.text = True
            self._put({"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"})
        self._writing.shown.add(name)
        self._spoke = True
        message["content"] = message.get("content", "") + move.text
        self._put({"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": move.text})

    def _think(self, move: Piece) -> None:
        name = self._thought(move.call)
        message = self._messages.setdefault(name, {"id": name, "role": "reasoning", "content": ""})
        if not self._writing.thinking:
            self._writing.thinking = True
            self._put({"type": "REASONING_START", "messageId": name})
            self._put({"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"})
        self._writing.shown.add(name)
        message["content"] += move.text
        self._put({"type": "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": move.text})

    def _thought(self, call: int) -> str:
        return self._id(f"{call}.thinking")

    def _end_thinking(self) -> None:
        if self._writing.thinking:
            self._writing.thinking = False
            name = self._thought(self._writing.call)
            self._put({"type": "REASONING_MESSAGE_END", "messageId": name})
            self._put({"type": "REASONING_END", "messageId": name})

    def _end_words(self) -> None:
        self._end_thinking()
        if self._writing.text:
            self._writing.text = False
            self._put({"type": "TEXT_MESSAGE_END", "messageId": self._id(self._writing.call)})

    def _void(self, move: Void) -> None:
        writing = self._writing
        if move.call != writing.call or not writing.shown:
            return
        self._end_words()
        for name in writing.shown:
            # A client keeps thoughts that a snapshot leaves out, so one that is void is told as empty.
            if self._messages[name]["role"] == "reasoning":
                self._messages[name]["content"] = ""
            else:
                del self._messages[name]
        writing.shown = set()
        self.chunks.append(Retract([dict(message) for message in self._messages.values()]))

    def _said(self, move: Said) -> None:
        if move.ours:
            self._end_words()
            self._writing.shown = set()
        else:
            self._custom("lane", {"lane": move.lane, "call": move.call, "said": move.saying.whole("text")})

    def _steered(self, move: Steered) -> None:
        name = self._id(f"steer-{move.nth}")
        self._messages[name] = {"id": name, "role": "user", "content": move.text}
        self._text(name, "user", move.text)

    def _text(self, name: str, role: str, text: str) -> None:
        self._put({"type": "TEXT_MESSAGE_START", "messageId": name, "role": role})
        self._put({"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text})
        self._put({"type": "TEXT_MESSAGE_END", "messageId": name})

    # Tools

    def _called(self, move: Called) -> None:
        if move.ours:
            self._tool(move.call, move.name, move.input)
        else:
            self._custom("lane", {"lane": move.lane, "call": move.call, "doing": move.name})

    def _tool(self, call: int, name: str, given: object) -> None:
        if call in self._tools:
            return
        self._tools.add(call)
        tool, parent = f"call-{call}", self._parent or self._id(call)
        arguments = msgspec.json.encode(given).decode()
        function = {"id": tool, "type": "function", "function": {"name": name, "arguments": arguments}}
        message = self._messages.setdefault(parent, {"id": parent, "role": "assistant"})
        message.setdefault("toolCalls", []).append(function)
        named = {"toolCallName": name, "parentMessageId": parent}
        self._put({"type": "TOOL_CALL_START", "toolCallId": tool, **named})
        self._put({"type": "TOOL_CALL_ARGS", "toolCallId": tool, "delta": arguments})
        self._put({"type": "TOOL_CALL_END", "toolCallId": tool})

    def _ended(self, move: Ended) -> None:
        if move.call in self._waits:
            self._waits.discard(move.call)
            self._custom("wait", {"call": move.call, "status": move.status})
        if move.call not in self._tools:
            return
        name, tool, content = self._id(f"{move.call}.result"), f"call-{move.call}", result_text(move.value)
        self._messages[name] = {"id": name, "role": "tool", "toolCallId": tool, "content": content}
        told = {"messageId": name, "toolCallId": tool, "role": "tool"}
        self._put({"type": "TOOL_CALL_RESULT", **told, "content": content})

    # Waits and people

    def _wait(self, move: Waits) -> None:
        if move.what != "answer":
            self._waits.add(move.call)
            about = {"call": move.call, "what": move.what, "about": dict(move.about), "status": "open"}
            self._custom("wait", about)

    def _paused(self, move: Paused) -> None:
        interrupts = [self._interrupt(ask, move.number) for ask in move.asks]
        if not interrupts:
            message = f"The turn is parked: {move.why}. Resolve to let it go on, cancel to end it."
            interrupts = [{"id": f"turn-{move.number}", "reason": move.why, "message": message}]
        self._end_words()
        self.pauses[move.number] = len(self.chunks)
        self.chunks.append(Rest("interrupt", interrupts))

    def _interrupt(self, ask: Question, pause: int) -> Mapping[str, Any]:
        name = f"{ask.call}-{ask.nth}-{pause}"
        self.asked[ask.call] = name, ask
        if ask.what == "answer":
            about = cast("dict[str, Any]", ask.input) if isinstance(ask.input, dict) else {}
            return {"id": name, "reason": "question", "message": str(about.get("question", ""))}
        self._tool(ask.call, ask.name, ask.input)
        what = (
            "may have run, and nobody knows. Run it again?" if ask.what == "doubt" else "wants to be allowed."
        )
        message = " ".join(filter(None, [f"{ask.name} {what}", ask.why]))
        return {"id": name, "reason": _REASON[ask.what], "message": message, "toolCallId": f"call-{ask.call}"}

    def _ruled(self, move: Ruled) -> None:
        self.asked.pop(move.call, None)
        self._custom("decided", {"call": move.call, "ruling": move.ruling, "by": move.by})

    # Documents, and the end

    def _document(self, move: Document) -> None:
        version, before = self._documents.get(move.name, (0, None))
        if move.version <= version:
            return
        self._documents[move.name] = move.version, move.value
        place = f"/{move.name}"
        delta = (
            patch(before, move.value, place)
            if version
            else [{"op": "add", "path": place, "value": move.value}]
        )
        self._put({"type": "STATE_DELTA", "delta": delta})

    def _settled(self, move: Settled) -> None:
        self._end_words()
        if not self._spoke and move.status == "done" and isinstance(move.value, str) and move.value:
            name = self._id("result")
            self._messages[name] = {"id": name, "role": "assistant", "content": move.value}
            self._text(name, "assistant", move.value)
        error = move.error or "The turn failed."
        match move.status:
            case "done":
                self.chunks.append(Rest("success", result=move.value, usage=move.usage))
            case "cancelled":
                self.chunks.append(Rest("cancelled", usage=move.usage))
            case _:
                self.chunks.append(Rest("error", error=error, usage=move.usage))
        self.over = True


def encoded(event: Mapping[str, Any]) -> bytes:
    """An event as it is sent."""
    return b"data: %b\n\n" % msgspec.json.encode(event)
