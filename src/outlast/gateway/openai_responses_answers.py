"""Answers of the Responses dialect: put together from a stream, and made into one again.

Format: "The response object" and "Streaming events" in OpenAI's API reference. Each item comes whole in the event that
ends it, so a recorded answer is the response with those items, without what it repeats of the request. If the stream
held anything that would be lost so, its events are kept with it, and it is served again from those.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import msgspec

from outlast.adapter import ToolAsk
from outlast.gateway import sse
from outlast.gateway.dialect import Heard
from outlast.gateway.openai_errors import error_text
from outlast.gateway.openai_responses_frames import response_frames
from outlast.gateway.openai_tools import custom_ask, function_ask
from outlast.gateway.sse import Frame, Malformed
from outlast.prices import Price, find_dated_price, openai_usage
from outlast.records import Usage

EVENTS: Final = "outlast_events"
"""Where a recorded answer keeps the events that it came in, if it could not be served rightly without them."""
KEEPALIVE: Final = sse.frame("keepalive", b'{"type":"keepalive"}')

_PASS: Final = Heard("pass")
_CALM: Final = Heard("calm")
_HOLD: Final = Heard("hold")
_END: Final = Heard("end")
_SILENT: Final = frozenset({"keepalive", "ping"})
_BEGINS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_TEXTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
# Items that harnesses act on only when they end; of all others nothing passes before the log has the answer.
_WORDS: Final = frozenset({"message", "reasoning"})
_WHOLE: Final = frozenset({"completed", "incomplete", None})
_ECHOES: Final = ("instructions", "tools")
_CALL: Final = "_call"
_BESIDE: Final = frozenset({"id", "call_id", "type", "status"})


class ResponseReader:
    """See `outlast.gateway.dialect.AnswerReader`."""

    def __init__(self, model: str, prices: Mapping[str, Price]) -> None:
        self._model = model
        self._prices = prices
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._odd = False
        self._holding = False

    def read(self, frame: Frame) -> Heard:
        if frame.data is None:
            return _CALM
        event = _event(frame)
        kind = str(event.get("type") or frame.event)
        if kind in _SILENT:
            return _CALM
        if kind == "error":
            return Heard("error", text=error_text(event.get("error") or event))
        if kind == "response.failed":
            self._take(event)
            return Heard("error", text=error_text(self._response.get("error")))
        self._events.append(_lean_event(event))
        if kind in _ENDS:
            return self._end(event)
        return self._within(kind, event)

    def _within(self, kind: str, event: dict[str, Any]) -> Heard:
        if kind in _BEGINS:
            self._take(event)
        elif kind == "response.output_item.added":
            self._holding = self._holding or _item_of(event).get("type") not in _WORDS
        elif kind == "response.output_item.done":
            self._holding = True
            self._done(event)
        elif not kind.startswith("response."):
            self._odd = True
        flow = (_HOLD if self._holding else _PASS).flow
        text = event.get("delta")
        if isinstance(text, str) and (kind in _TEXTS or kind in _THOUGHTS):
            return Heard(flow, "text" if kind in _TEXTS else "thinking", text)
        return Heard(flow)

    def _take(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            _malformed(f"{event.get('type')} comes without a response")
        self._response = _lean(cast("dict[str, Any]", response))

    def _done(self, event: dict[str, Any]) -> None:
        index = event.get("output_index", len(self._items))
        if not isinstance(index, int) or index in self._items:
            _malformed(f"item {index} ends twice or has no place")
        self._items[index] = _item_of(event)

    def _end(self, event: dict[str, Any]) -> Heard:
        self._take(event)
        heard = [self._items[index] for index in sorted(self._items)]
        output: object = self._response.get("output")
        told = cast("list[dict[str, Any]]", output) if isinstance(output, list) else []
        if not heard and told:
            self._odd = True  # a server that tells no item by itself: the client goes by the last event
            heard = told
        elif told and told != heard:
            self._odd = True
            _check_same(asks_of({"output": heard}), told)
        self._response["output"] = heard
        _check_items(heard)
        return _END

    def over(self) -> bool:
        return False

    @property
    def usage(self) -> Usage | None:
        return usage_of(self._response, self._model, self._prices)

    def answer(self) -> Mapping[str, Any]:
        return {**self._response, EVENTS: self._events} if self._odd else self._response


def read_response(body: bytes) -> Mapping[str, Any]:
    """The answer in a response that is no stream.

    Raises:
        Malformed: it is none, or not a whole one.
    """
    response = _decoded(body, "the answer")
    items = response.get("output")
    if response.get("error"):
        _malformed(f"the response has failed: {error_text(response['error'])}")
    if not isinstance(items, list) or response.get("status") not in _WHOLE:
        _malformed("the answer is no whole response")
    _check_items(cast("list[object]", items))
    return _lean(response)


def asks_of(answer: Mapping[str, Any]) -> list[ToolAsk]:
    """The tool calls that an answer asks the harness for; those that the provider runs itself are none."""
    items = cast("Sequence[dict[str, Any]]", answer["output"])
    run = {item.get("call_id") for item in items if str(item.get("type", "")).endswith("_output")}
    return [
        _ask(item)
        for item in items
        if (call_id := _call_id(item)) and call_id not in run and item.get("execution") != "server"
    ]


def usage_of(answer: Mapping[str, Any], model: str, prices: Mapping[str, Price]) -> Usage | None:
    """What the provider reported, and what that costs at list price."""
    reported: object = answer.get("usage")
    if not isinstance(reported, dict):
        return None
    price = find_dated_price(str(answer.get("model") or model), prices) or find_dated_price(model, prices)
    return openai_usage(cast("dict[str, Any]", reported), price)


def answer_frames(answer: Mapping[str, Any]) -> list[bytes]:
    """A recorded answer as the frames of a stream."""
    events = cast("Sequence[dict[str, Any]] | None", answer.get(EVENTS))
    if events is None:
        return response_frames(answer)
    return [sse.frame(str(event.get("type", "")), msgspec.json.encode(event)) for event in events]


def answer_body(answer: Mapping[str, Any]) -> bytes:
    """A recorded answer as one JSON object."""
    return msgspec.json.encode({key: value for key, value in answer.items() if key != EVENTS})


def _call_id(item: Mapping[str, Any]) -> str:
    """The id of a call; empty of what is none."""
    kind = str(item.get("type", ""))
    if not kind.endswith(_CALL):
        return ""
    return str(item.get("call_id") or (item.get("id") if kind == "local_shell_call" else "") or "")


def _ask(item: Mapping[str, Any]) -> ToolAsk:
    kind, call_id = str(item["type"]), _call_id(item)
    match kind:
        case "function_call":
            return function_ask(call_id, full_name(item), item.get("arguments"))
        case "custom_tool_call":
            return custom_ask(call_id, full_name(item), item.get("input"))
        case "local_shell_call" if isinstance(item.get("action"), dict):
            return ToolAsk(call_id, "local_shell", item["action"])
        case _:
            about = {key: value for key, value in item.items() if key not in _BESIDE}
            return ToolAsk(call_id, kind.removesuffix(_CALL), about)


def full_name(item: Mapping[str, Any]) -> str:
    """The name of a tool with that of its namespace, as harnesses join the two: `mcp__server__tool`."""
    namespace, name = str(item.get("namespace") or ""), str(item.get("name", ""))
    if not namespace:
        return name
    return namespace + name if namespace.endswith("__") else f"{namespace}__{name}"


def _item_of(event: Mapping[str, Any]) -> dict[str, Any]:
    item = event.get("item")
    if not isinstance(item, dict):
        _malformed("an event about an item comes without it")
    return cast("dict[str, Any]", item)


def _check_items(items: Sequence[object]) -> None:
    seen: set[str] = set()
    for item in items:
        if not isinstance(item, dict):
            _malformed("an item of the answer is no object")
        held = cast("dict[str, Any]", item)
        if held.get("type") not in {"function_call", "custom_tool_call"}:
            continue
        call_id, name = held.get("call_id"), held.get("name")
        if not (isinstance(call_id, str) and call_id and isinstance(name, str) and name):
            _malformed("a tool call has no id or no name")
        if call_id in seen:
            _malformed(f"two tool calls have the id {call_id!r}")
        seen.add(call_id)


def _check_same(asks: Sequence[ToolAsk], items: Sequence[Mapping[str, Any]]) -> None:
    """Refuse an answer that asks for other calls at its end than before: a client might go by either."""
    _check_items(items)
    if asks_of({"output": items}) != list(asks):
        _malformed("the last event asks for other tool calls than those before it")


def _lean(response: Mapping[str, Any]) -> dict[str, Any]:
    """A response without what it repeats of the request, at every call again."""
    empty: dict[str, Any] = {"instructions": None, "tools": []}
    return {key: empty[key] if key in _ECHOES else value for key, value in response.items()}


def _lean_event(event: dict[str, Any]) -> dict[str, Any]:
    response = event.get("response")
    return (
        {**event, "response": _lean(cast("dict[str, Any]", response))}
        if isinstance(response, dict)
        else event
    )


def _event(frame: Frame) -> dict[str, Any]:
    event = _decoded(frame.data or b"", "an event")
    # A client goes by the one, we by the other: they must say the same.
    if frame.event and event.get("type", frame.event) != frame.event:
        _malformed(f"an event called {frame.event!r} says that it is {event.get('type')!r}")
    return event


def _decoded(data: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"{what} is no JSON object: {error}"
        raise Malformed(reason) from None


def _malformed(reason: str) -> NoReturn:
    raise Malformed(reason)
