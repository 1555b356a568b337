"""The moves of a turn as the AI SDK's UI message stream, version 1: what `useChat` of the npm package `ai` 7 reads.

Format: `uiMessageChunkSchema` of that package; how a client folds chunks into a message, `processUIMessageStream`.

* **Every chunk has an index**, counted from 0 in its turn, and the list only grows: the same log gives the same chunks
  in any process, so a client that has n of them asks for the n-th and gets the exact rest. Where pieces were lost
  (`moves.Gap`) the indices behind are no longer those that others saw: `exact` says up to where they are.
* **A model call of the conversation is a step.** When what it has shown is void `reset-step` takes it back; parts that
  belong to something else and stand in that step are sent again behind it.
* **Where the turn waits for a person the stream ends**, with `finish`, since a client sends an approval only then. What
  comes after has the next indices; there a `message-metadata` without content stands in place of that `finish`.
* The message's metadata say how the turn stands: `open`, `waiting` for a person, `done`, `failed`, `cancelled`. A
  client that is `ready` while they say `open` was cut off where its browser took that for an end: it resumes.
* A tool call is a `dynamic-tool` part named `call-<number>`; a question is one too, of the tool `ask`, and its output
  is the answer. Documents are `data-document`, other lanes `data-lane`, waits `data-wait`; live text of other lanes and
  take-overs are transient.

Not shown: calls within other lanes one by one, more of a tool's running output than its end, files, images as such.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from outlast.server.streams.moves import (
    Asked,
    Attempt,
    Began,
    Called,
    Document,
    Ended,
    Gap,
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
from outlast.server.streams.ui_parts import Chunk, LanePart, Stood, WordsPart, usage_of
from outlast.tool import result_text

TAIL: Final = 4_000
"""Characters of a running tool's output that are shown."""
LANE_TAIL: Final = 500
_FILLER: Final = b'{"type":"message-metadata","messageMetadata":{}}'
_NOT: Final = frozenset({"deny", "failed", "compensate"})
"""Rulings that are no approval."""


class UiStream:
    """Chunks of one turn, as JSON; `take` adds to them.

    Args:
        session: for the message's id and metadata.
    """

    def __init__(self, session: str) -> None:
        self.chunks: list[bytes] = []
        self.exact: int | None = None
        """Up to which index chunks are the same in any process; None: all."""
        self.pauses: dict[int, int] = {}
        """By number of the pause the index of its `finish`."""
        self.over = False
        self._session = session
        self._weight = 0
        self._paused_now = False
        self._steps: list[int] = []
        self._in_step = False
        self._words: WordsPart | None = None
        self._parts = 0
        """Of the current model call's words."""
        self._shown: set[int] = set()
        """Model calls with something that a reset would take back."""
        self._spoke = False
        self._outputs: dict[int, str] = {}
        self._tools: set[int] = set()
        self._waits: dict[int, Chunk] = {}
        self.asked: dict[int, tuple[str, Question]] = {}
        """By call what a person is asked now, and the id under which a client was told."""
        self._denied: set[int] = set()
        self._lanes: dict[str, LanePart] = {}
        self._stood = Stood()
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
            Gap: self._gap,
            Settled: self._settled,
        }

    @property
    def resting(self) -> bool:
        """Whether its last chunk is a `finish`: who has read to there has all, for now or for good."""
        last = len(self.chunks) - 1
        return last >= 0 and (self.over or self.pauses.get(len(self.pauses)) == last)

    def chunk(self, index: int) -> bytes:
        """A chunk as whoever comes to it now is to read it."""
        later = index < len(self.chunks) - 1
        return _FILLER if later and index in self.pauses.values() else self.chunks[index]

    @property
    def weight(self) -> int:
        """Bytes of its chunks."""
        return self._weight

    def step_at(self, index: int) -> int:
        """Index of the last step's beginning at or before `index`; 0 if there is none."""
        return max((begin for begin in self._steps if begin <= index), default=0)

    def take(self, move: Move) -> None:
        """Take in one move."""
        fold = self._kinds.get(type(move))
        if self._paused_now and not isinstance(move, Gap):
            self._paused_now = False
            self._status("open")
        if fold is not None:  # a call that was granted is shown as one already when it starts
            fold(move)

    def _began(self, move: Began) -> None:
        metadata = {"session": self._session, "turn": move.turn, "status": "open"}
        self._put({"type": "start", "messageId": f"{self._session}.{move.turn}", "messageMetadata": metadata})

    def _attempt(self, move: Attempt) -> None:
        data = {"attempt": move.nth, "fence": move.fence, "worker": move.worker}
        self._put({"type": "data-attempt", "data": data, "transient": True})

    def _steered(self, move: Steered) -> None:
        name = f"steer-{move.nth}"
        parts = [{"type": "text", "text": move.text}]
        self._part(name, {"type": "steering-message", "id": name, "parts": parts})

    def _document(self, move: Document) -> None:
        data = {"name": move.name, "version": move.version, "value": move.value, "by": move.by}
        self._part(f"document-{move.name}", {"type": "data-document", "id": move.name, "data": data})

    def _gap(self, _: Gap) -> None:
        self.exact = len(self.chunks) if self.exact is None else self.exact

    def _status(self, status: str, **more: Any) -> None:
        """How the turn stands: by it a client knows an end from a line that was cut."""
        self._put({"type": "message-metadata", "messageMetadata": {"status": status, **more}})

    # one chunk

    def _put(self, chunk: Chunk) -> None:
        self.chunks.append(msgspec.json.encode(chunk))
        self._weight += len(self.chunks[-1])

    def _part(self, name: str, chunk: Chunk, *, anew: bool = True) -> None:
        """A chunk that makes or changes a part which belongs to no model call."""
        self._begin_step()
        self._stood.note(name, chunk, anew=anew)
        self._put(chunk)

    def _begin_step(self) -> None:
        if not self._in_step:
            self._in_step = True
            self._stood.next()
            self._steps.append(len(self.chunks))
            self._put({"type": "start-step"})

    def _end_step(self) -> None:
        self._end_words()
        if self._in_step:
            self._in_step = False
            self._put({"type": "finish-step"})

    # words

    def _asked(self, move: Asked) -> None:
        if not move.ours:
            lane = self._lanes.setdefault(move.lane, LanePart(move.lane))
            lane.models += 1
            self._show_lane(lane)
            return
        self._end_step()
        self._begin_step()
        self._parts = 0

    def _piece(self, move: Piece) -> None:
        if move.kind == "output":
            self._output(move)
        elif move.ours:
            self._write(move)
        else:
            data = {
                "lane": move.lane,
                "call": move.call,
                "kind": move.kind,
                "offset": move.offset,
                "text": move.text,
            }
            self._put({"type": "data-lane-text", "data": data, "transient": True})

    def _write(self, move: Piece) -> None:
        words = self._words
        if words is None or (words.call, words.kind) != (move.call, move.kind):
            self._end_words()
            self._parts += 1
            words = self._words = WordsPart(move.call, move.kind, self._parts)
            self._put({"type": f"{words.type}-start", "id": words.id})
        self._shown.add(move.call)
        self._spoke = self._spoke or move.kind == "text"
        self._put({"type": f"{words.type}-delta", "id": words.id, "delta": move.text})

    def _end_words(self) -> None:
        words, self._words = self._words, None
        if words is not None:
            self._put({"type": f"{words.type}-end", "id": words.id})

    def _void(self, move: Void) -> None:
        if move.call in self._outputs:
            self._outputs[move.call] = ""
            self._preliminary(move.call)
        if move.call in self._shown:
            self._shown.discard(move.call)
            self._words, self._parts = None, 0
            self._put({"type": "reset-step"})
            for chunks in self._stood.parts.values():
                for chunk in chunks:
                    self._put(chunk)

    def _said(self, move: Said) -> None:
        if move.ours:
            self._end_words()
            self._shown.discard(move.call)
            return
        lane = self._lanes.setdefault(move.lane, LanePart(move.lane))
        lane.said = move.saying.whole("text")[-LANE_TAIL:] or lane.said
        self._show_lane(lane)

    def _show_lane(self, lane: LanePart) -> None:
        data = {
            "lane": lane.lane,
            "models": lane.models,
            "tools": lane.tools,
            "doing": lane.doing,
            "said": lane.said,
        }
        self._part(f"lane-{lane.lane}", {"type": "data-lane", "id": lane.lane, "data": data})

    # tools

    def _called(self, move: Called) -> None:
        if move.ours:
            self._tool(move.call, move.name, move.input)
            return
        lane = self._lanes.setdefault(move.lane, LanePart(move.lane))
        lane.tools, lane.doing = lane.tools + 1, move.name
        self._show_lane(lane)

    def _tool(self, call: int, name: str, given: object) -> None:
        if call not in self._tools:
            self._tools.add(call)
            chunk = {"type": "tool-input-available", "toolCallId": f"call-{call}", "toolName": name}
            self._part(f"call-{call}", {**chunk, "input": given, "dynamic": True})

    def _output(self, move: Piece) -> None:
        if move.call in self._tools:
            self._outputs[move.call] = (self._outputs.get(move.call, "") + move.text)[-TAIL:]
            self._preliminary(move.call)

    def _preliminary(self, call: int) -> None:
        chunk = {"type": "tool-output-available", "toolCallId": f"call-{call}"}
        self._tool_part(call, {**chunk, "output": self._outputs[call], "preliminary": True})

    def _tool_part(self, call: int, chunk: Chunk) -> None:
        self._part(f"call-{call}", chunk, anew=False)

    def _ended(self, move: Ended) -> None:
        self._outputs.pop(move.call, None)
        if move.call in self._tools:
            self._settle_tool(move)
        elif move.call in self._waits:
            data = {**self._waits.pop(move.call), "status": move.status}
            self._part(f"wait-{move.call}", {"type": "data-wait", "id": f"call-{move.call}", "data": data})
        elif not move.ours:
            lane = self._lanes.setdefault(move.lane, LanePart(move.lane))
            lane.doing = ""
            self._show_lane(lane)

    def _settle_tool(self, move: Ended) -> None:
        named = {"toolCallId": f"call-{move.call}"}
        if move.status == "ok":
            self._tool_part(move.call, {"type": "tool-output-available", **named, "output": move.value})
        elif move.call in self._denied:
            self._tool_part(move.call, {"type": "tool-output-denied", **named})
        else:
            about = {"toolMetadata": {"outlast": {"status": move.status}}}
            text = result_text(move.value)
            self._tool_part(move.call, {"type": "tool-output-error", **named, "errorText": text, **about})

    # waits and people

    def _wait(self, move: Waits) -> None:
        if move.what == "answer":
            self._tool(move.call, "ask", dict(move.about))
            return
        data: Chunk = {"call": move.call, "what": move.what, "about": dict(move.about), "status": "open"}
        data |= {"until_s": move.until_s} if move.until_s else {}
        data |= {"child": move.child} if move.child else {}
        self._waits[move.call] = data
        self._part(f"wait-{move.call}", {"type": "data-wait", "id": f"call-{move.call}", "data": data})

    def _paused(self, move: Paused) -> None:
        for ask in move.asks:
            self._tool(ask.call, ask.name, ask.input)
            asked = f"{ask.call}-{ask.nth}-{move.number}"
            self.asked[ask.call] = asked, ask
            if ask.what != "answer":
                self._ask(ask, asked)
        if not move.asks:
            data = {"what": "person", "why": move.why, "evidence": dict(move.evidence), "status": "open"}
            self._part("wait-turn", {"type": "data-wait", "id": "turn", "data": data})
        self._end_step()
        self._status("waiting")
        self._paused_now = True
        self.pauses[move.number] = len(self.chunks)
        self._put({"type": "finish", "finishReason": "tool-calls" if move.asks else "other"})

    def _ask(self, ask: Question, asked: str) -> None:
        doubt = "It may have run. Approve to run it again." if ask.what == "doubt" else ""
        reason = " ".join(filter(None, [doubt, ask.why]))
        chunk = {"type": "tool-approval-request", "approvalId": asked, "toolCallId": f"call-{ask.call}"}
        self._tool_part(ask.call, {**chunk, **({"reason": reason} if reason else {})})

    def _ruled(self, move: Ruled) -> None:
        asked, ask = self.asked.pop(move.call, ("", None))
        if ask is None or ask.what == "answer":
            return
        if move.ruling == "deny":
            self._denied.add(move.call)
        by = {"reason": f"{move.ruling} by {move.by}"} if move.by else {"reason": move.ruling}
        chunk = {"type": "tool-approval-response", "approvalId": asked, "approved": move.ruling not in _NOT}
        self._tool_part(move.call, {**chunk, **by})

    # the end

    def _settled(self, move: Settled) -> None:
        if not self._spoke and move.value is not None and move.status == "done":
            self._result(move.value)
        self._end_step()
        self._status(move.status, **usage_of(move.usage))
        reason = "stop"
        if move.status == "failed":
            self._put({"type": "error", "errorText": move.error or "The turn failed."})
            reason = "error"
        elif move.status == "cancelled":
            self._put({"type": "abort", "reason": move.error or "The turn was cancelled."})
            reason = "other"
        self._put({"type": "finish", "finishReason": reason})
        self.over = True

    def _result(self, value: object) -> None:
        """A loop's own result, where no model has said anything."""
        if not isinstance(value, str):
            self._part("result", {"type": "data-result", "id": "result", "data": value})
            return
        self._begin_step()
        self._put({"type": "text-start", "id": "result"})
        self._put({"type": "text-delta", "id": "result", "delta": value})
        self._put({"type": "text-end", "id": "result"})
