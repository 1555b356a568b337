"""What the events of a log are on the screen of an editor.

ACP knows no retraction: what was said stays on the screen. So:

* **The text of a model call is shown when the call is settled**, and only then: text that may yet be retracted is
  never shown, and no sentence comes twice. Who would rather read along asks for `live`, and sees where an answer was
  cut off and given again (`live.Speech`).
* The output of a tool may be replaced, so it is shown live, and what a dead attempt showed is taken back.
* Everything follows from the log: an editor that loads the session is shown the same again, from its first word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from acp import schema

from outlast.adapters.shapes import as_list, as_object
from outlast.calls import MAIN
from outlast.cli.acp.live import Speech
from outlast.cli.acp.said import said_in
from outlast.cli.acp.tools import (
    CONTENT_LIMIT,
    Content,
    changes_of,
    kind_of,
    locations_of,
    output_content,
    plan_in,
    plan_of,
    title_of,
    words_of,
)
from outlast.clock import Clock
from outlast.records.events import Event

Update: TypeAlias = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
)
REDRAW_S: Final = 0.2
"""Live output of a call is drawn anew no sooner."""
PLANS: Final = frozenset({"plan", "todo", "todos"})
"""Documents that are lists of what is to be done."""
_HOLDERS: Final = ("items", "todos", "entries")


@dataclass
class _Call:
    kind: str
    name: str
    lane: str
    content: list[Content] = field(default_factory=list[Content])
    """What it is about to change."""
    output: str = ""
    drawn_s: float = -REDRAW_S


class Shown:
    """Folds the events of one session into updates.

    Args:
        cwd: where the session works; relative paths are below it.
        own: ids of the prompts that this editor sent: it shows them itself.
        live: show the text of a model call while it comes.
    """

    def __init__(self, cwd: str, own: set[str], clock: Clock, *, live: bool = False) -> None:
        self._speech = Speech() if live else None
        self._cwd = cwd
        self._own = own
        self._clock = clock
        self._calls: dict[int, _Call] = {}
        self._inputs: dict[int, str] = {}
        self._text = ""

    def take(self, event: Event, value: object) -> Sequence[Update]:  # noqa: C901 - one arm per kind, nothing else
        """What is to be drawn.

        Args:
            value: of the event's payload.
        """
        match event.kind:
            case "turn.opened":
                self._inputs[event.turn] = event.name
                return [] if event.name in self._own else [user_says(words_of(value))]
            case "steer.taken":
                return [user_says(event.text)]
            case "call.opened":
                return self._opened(event, value)
            case "call.started":
                return self._progress(event, status="in_progress")
            case "call.output":
                return self._output(event)
            case "call.text":
                return self._spoken(event)
            case "call.retracted":
                self._cut(event.call)
                return self._taken_back(event.call)
            case "attempt.opened":
                self._cut(0)
                return [update for call in list(self._calls) for update in self._taken_back(call)]
            case "call.settled":
                return self._settled(event, value)
            case "document.edited" if event.name in PLANS:
                return _plan(value)
            case "turn.settled":
                return self._over(event, value)
            case _:
                return []

    def _opened(self, event: Event, value: object) -> Sequence[Update]:
        kind = str(event.facts.get("kind", ""))
        call = self._calls[event.call] = _Call(kind, event.name, event.lane)
        if kind not in {"tool", "wait"}:
            return []
        call.content = changes_of(event.name, value, self._cwd)
        start = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=call_id(event.call),
            title=title_of(event.name, value),
            kind=kind_of(event.name),
            status="pending",
            content=list(call.content),
            locations=locations_of(value, self._cwd),
            raw_input=value,
        )
        entries = plan_in(event.name, value)
        return [start] if entries is None else [start, plan_update(entries)]

    def _progress(self, event: Event, **fields: Any) -> Sequence[Update]:
        call = self._calls.get(event.call)
        if call is None or call.kind not in {"tool", "wait"}:
            return []
        return [_progressed(event.call, **fields)]

    def _output(self, event: Event) -> Sequence[Update]:
        call = self._calls.get(event.call)
        if call is None:
            return []
        call.output = call.output[: event.offset].ljust(event.offset, "…") + event.text
        now_s = self._clock.elapsed()
        if now_s - call.drawn_s < REDRAW_S:
            return []
        call.drawn_s = now_s
        return self._progress(event, content=[*call.content, *output_content(call.name, call.output)])

    def _taken_back(self, number: int) -> Sequence[Update]:
        call = self._calls[number] if number in self._calls else _Call("", "", "")
        if not call.output:
            return []
        call.output, call.drawn_s = "", -REDRAW_S
        return [_progressed(number, content=list(call.content))]

    def _settled(self, event: Event, value: object) -> Sequence[Update]:
        call = self._calls.pop(event.call, None)
        if call is None:
            return []
        if call.kind == "model":
            return self._said(event, call, value)
        if call.kind not in {"tool", "wait"}:
            return []
        ended: schema.ToolCallStatus = "completed" if event.status == "ok" else "failed"
        told = "" if call.content and ended == "completed" else words_of(value)  # a diff says what was done
        content = [*call.content, *output_content(call.name, told)]
        raw = value if len(words_of(value)) <= CONTENT_LIMIT else None
        return [_progressed(event.call, status=ended, content=content, raw_output=raw)]

    def _said(self, event: Event, call: _Call, value: object) -> Sequence[Update]:
        if event.status != "ok" or call.lane != MAIN:
            return []
        found: list[Update] = []
        said = said_in(value)
        if self._speech is not None:
            rest = self._speech.end("".join(text for kind, text in said if kind == "text"))
            self._text = next((text for kind, text in reversed(said) if kind == "text"), self._text)
            return [agent_says(rest, event.call)] if rest else []
        for kind, text in said:
            found.append(agent_says(text, event.call) if kind == "text" else _thinks(text, event.call))
            self._text = text if kind == "text" else self._text
        return found

    def _spoken(self, event: Event) -> Sequence[Update]:
        call = self._calls.get(event.call)
        if self._speech is None or call is None or (call.kind, call.lane) != ("model", MAIN):
            return []
        added = self._speech.hear(event.offset, event.text)
        return [agent_says(added, event.call)] if added else []

    def _cut(self, number: int) -> None:
        """What a model call has said is void; 0: of all that are open."""
        call = self._calls.get(number)
        if self._speech is not None and (not number or (call is not None and call.lane == MAIN)):
            self._speech.cut()

    def _over(self, event: Event, value: object) -> Sequence[Update]:
        """A result that nobody has said yet; of a turn that the editor does not wait for also why it failed."""
        self._calls.clear()
        if self._speech is not None:
            self._speech.end("")
        said, self._text = self._text, ""
        if (
            event.status == "done"
            and isinstance(value, str)
            and value.strip()
            and value.strip() != said.strip()
        ):
            return [agent_says(value)]
        if event.status == "failed" and self._inputs.get(event.turn) not in self._own:
            return [agent_says(f"The turn failed: {event.text}")]
        return []


def call_id(call: int) -> str:
    """How an editor names a call."""
    return f"call-{call}"


def user_says(text: str) -> schema.UserMessageChunk:
    """What the user said."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_block(text))


def agent_says(text: str, call: int = 0) -> schema.AgentMessageChunk:
    """What the agent says; `call`: in which call it said it."""
    if not call:
        return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_block(text))
    return schema.AgentMessageChunk(
        session_update="agent_message_chunk", content=_block(text), message_id=call_id(call)
    )


def plan_update(entries: list[schema.PlanEntry]) -> schema.AgentPlanUpdate:
    """The whole list of what is to be done."""
    return schema.AgentPlanUpdate(session_update="plan", entries=entries)


def _thinks(text: str, call: int) -> schema.AgentThoughtChunk:
    return schema.AgentThoughtChunk(
        session_update="agent_thought_chunk", content=_block(text), message_id=call_id(call)
    )


def _progressed(call: int, **fields: Any) -> schema.ToolCallProgress:
    given = {name: value for name, value in fields.items() if value is not None}
    return schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call_id(call), **given)


def _plan(value: object) -> Sequence[Update]:
    """A document that is a list, or holds one under a usual name."""
    holder = as_object(value)
    held = next((holder[key] for key in _HOLDERS if key in holder), None)
    listed = as_list(value) or as_list(held)
    return [plan_update(plan_of(listed))]


def _block(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)
