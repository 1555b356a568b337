"""Answers of the Messages dialect: put together from a stream, and made into one again.

Format: "Messages" and "Streaming Messages" in Anthropic's API reference. A recorded answer is the provider's message.
If making a stream of it and reading that again would not give the same message, or the stream held anything of a kind
unknown here, the events are kept with it, and it is served again from those.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import msgspec

from outlast.adapter import ToolAsk
from outlast.gateway import sse
from outlast.gateway.dialect import Heard
from outlast.gateway.sse import Frame, Malformed
from outlast.prices import Price, anthropic_usage, find_price
from outlast.records import Usage

EVENTS: Final = "outlast_events"
"""Where a recorded answer keeps the events that it came in, if it could not be served rightly without them."""

_PASS: Final = Heard("pass")
_CALM: Final = Heard("calm")
_HOLD: Final = Heard("hold")
_END: Final = Heard("end")
PING: Final = sse.frame("ping", b'{"type":"ping"}')
_ENDING: Final = ("stop_reason", "stop_sequence", "container", "stop_details")
_BESIDE: Final = ("context_management",)
_JSON_INPUT: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class _Open:
    """A block whose end has not come."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}

    def add(self, key: str, piece: str) -> None:
        self.pieces.setdefault(key, []).append(piece)

    def close(self) -> bool:
        """Put the pieces in their place; says whether they all fit."""
        for key, pieces in self.pieces.items():
            text = "".join(pieces)
            if key != "input":
                self.block[key] = str(self.block.get(key) or "") + text
            elif text:
                try:
                    self.block["input"] = msgspec.json.decode(text)
                except (msgspec.DecodeError, RecursionError):
                    return False  # cut by the token limit, say; a client makes of it what it can
        return True


class MessageReader:
    """See `outlast.gateway.dialect.AnswerReader`."""

    def __init__(self, model: str, prices: Mapping[str, Price]) -> None:
        self._model = model
        self._prices = prices
        self._message: dict[str, Any] | None = None
        self._blocks: list[dict[str, Any]] = []
        self._open: dict[int, _Open] = {}
        self._events: list[dict[str, Any]] = []
        self._odd = False
        self._holding = False

    def read(self, frame: Frame) -> Heard:
        if frame.data is None:
            return _CALM
        event = _event(frame)
        kind = event.get("type", frame.event)
        if kind == "ping":
            return _CALM
        if kind == "error":
            return Heard("error", text=_error_text(event))
        self._events.append(event)
        if kind == "message_start":
            self._start(event)
            return _PASS
        if self._message is None:
            _malformed(f"{kind} comes before message_start")
        return self._inside(str(kind), event)

    def _inside(self, kind: str, event: dict[str, Any]) -> Heard:
        match kind:
            case "content_block_start":
                self._begin(event)
            case "content_block_delta":
                return self._delta(event)
            case "content_block_stop":
                self._holding = True
                self._close(event)
            case "message_delta":
                self._holding = True
                self._ending(event)
            case "message_stop":
                return self._stop()
            case _:
                self._odd = True
        return self._flow()

    def _flow(self) -> Heard:
        return _HOLD if self._holding else _PASS

    def _start(self, event: dict[str, Any]) -> None:
        message = event.get("message")
        if self._message is not None or not isinstance(message, dict):
            _malformed("message_start comes twice or without a message")
        self._message = dict(cast("dict[str, Any]", message))
        if self._message.get("content"):
            _malformed("message_start has content already")

    def _begin(self, event: dict[str, Any]) -> None:
        index, block = event.get("index"), event.get("content_block")
        if index != len(self._blocks) or not isinstance(block, dict):
            _malformed(f"block {index} begins where block {len(self._blocks)} should")
        copied = dict(cast("dict[str, Any]", block))
        self._blocks.append(copied)
        self._open[len(self._blocks) - 1] = _Open(copied)

    def _delta(self, event: dict[str, Any]) -> Heard:
        block, delta = self._opened(event), event.get("delta")
        if not isinstance(delta, dict):
            _malformed("a delta without content")
        match cast("dict[str, Any]", delta):
            case {"type": "text_delta", "text": str(text)}:
                block.add("text", text)
                return Heard(self._flow().flow, "text", text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block.add("thinking", text)
                return Heard(self._flow().flow, "thinking", text)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                block.add("input", text)
            case {"type": "signature_delta", "signature": str(signature)}:
                block.block["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                block.block["citations"] = [*(block.block.get("citations") or []), citation]
            case _:
                self._odd = True
        return self._flow()

    def _close(self, event: dict[str, Any]) -> None:
        block = self._opened(event)
        del self._open[cast("int", event["index"])]
        if not block.close():
            self._odd = True
        if block.block.get("type") == "tool_use":
            _check_ask(block.block)

    def _opened(self, event: dict[str, Any]) -> _Open:
        index = event.get("index")
        found = self._open.get(index) if isinstance(index, int) else None
        if found is None:
            _malformed(f"block {index} is not open")
        return found

    def _ending(self, event: dict[str, Any]) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        message = cast("dict[str, Any]", self._message)
        ending = cast("dict[str, Any]", delta) if isinstance(delta, dict) else {}
        beside = {key: value for key, value in event.items() if key not in {"type", "delta", "usage"}}
        self._odd = self._odd or not (ending.keys() <= set(_ENDING) and beside.keys() <= set(_BESIDE))
        message.update(ending)
        message.update(beside)
        if isinstance(usage, dict):
            said = {key: value for key, value in cast("dict[str, Any]", usage).items() if value is not None}
            message["usage"] = {**(message.get("usage") or {}), **said}

    def _stop(self) -> Heard:
        message = cast("dict[str, Any]", self._message)
        if self._open or not message.get("stop_reason"):
            _malformed("the message ends with a block open or without a reason")
        message["content"] = self._blocks
        return _END

    @property
    def usage(self) -> Usage | None:
        return None if self._message is None else usage_of(self._message, self._model, self._prices)

    def over(self) -> bool:
        return False

    def answer(self) -> Mapping[str, Any]:
        message = cast("dict[str, Any]", self._message)
        if not self._odd and _read_again(message) == message:
            return message
        return {**message, EVENTS: self._events}

    def message(self) -> Mapping[str, Any] | None:
        """What has been read, whole or not."""
        return self._message


def _read_again(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    again = MessageReader("", {})
    try:
        for frame in sse.Cutter(limit=1 << 62).feed(b"".join(message_frames(message))):
            again.read(frame)
    except Malformed:
        return None
    return again.message()


def read_message(body: bytes) -> Mapping[str, Any]:
    """The answer in a response that is no stream.

    Raises:
        Malformed: it is none, or not a whole one.
    """
    try:
        message = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"the answer is no JSON object: {error}"
        raise Malformed(reason) from None
    blocks = message.get("content")
    if message.get("type") != "message" or not isinstance(blocks, list) or not message.get("stop_reason"):
        _malformed("the answer is no whole message")
    for block in cast("list[object]", blocks):
        if not isinstance(block, dict):
            _malformed("a content block is no object")
        if cast("dict[str, Any]", block).get("type") == "tool_use":
            _check_ask(cast("dict[str, Any]", block))
    return message


def asks_of(answer: Mapping[str, Any]) -> list[ToolAsk]:
    """The tool calls that an answer asks the harness for; those that the provider runs itself are none."""
    return [
        ToolAsk(block["id"], block["name"], block["input"])
        for block in answer["content"]
        if block.get("type") == "tool_use"
    ]


def usage_of(answer: Mapping[str, Any], model: str, prices: Mapping[str, Price]) -> Usage | None:
    """What the provider reported, and what that costs at list price."""
    reported: object = answer.get("usage")
    if not isinstance(reported, dict):
        return None
    price = find_price(str(answer.get("model") or model), prices) or find_price(model, prices)
    return anthropic_usage(cast("dict[str, Any]", reported), price)


def answer_frames(answer: Mapping[str, Any]) -> list[bytes]:
    """A recorded answer as the frames of a stream."""
    events = cast("Sequence[dict[str, Any]] | None", answer.get(EVENTS))
    if events is None:
        return message_frames(answer)
    return [sse.frame(str(event.get("type", "")), msgspec.json.encode(event)) for event in events]


def answer_body(answer: Mapping[str, Any]) -> bytes:
    """A recorded answer as one JSON object."""
    return msgspec.json.encode({key: value for key, value in answer.items() if key != EVENTS})


def message_frames(message: Mapping[str, Any]) -> list[bytes]:
    """A message as the frames of a stream, each block in one piece."""
    late = {*_ENDING, *_BESIDE} - {"stop_reason", "stop_sequence"}
    opened = {key: value for key, value in message.items() if key not in late}
    opened |= {key: None for key in ("stop_reason", "stop_sequence") if key in message}
    opened["content"] = []
    events: list[dict[str, Any]] = [{"type": "message_start", "message": opened}]
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    ending: dict[str, Any] = {"type": "message_delta"}
    ending["delta"] = {key: message[key] for key in _ENDING if key in message}
    ending |= {key: message[key] for key in _BESIDE if key in message}
    if "usage" in message:
        ending["usage"] = message["usage"]
    events += [ending, {"type": "message_stop"}]
    return [sse.frame(event["type"], msgspec.json.encode(event)) for event in events]


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it begins, and the deltas that complete it."""
    kind = block.get("type")
    if kind == "text":
        empty = {**block, "text": ""}
        deltas = list(_text_delta("text", block))
        if block.get("citations"):
            empty["citations"] = []
            deltas += [{"type": "citations_delta", "citation": citation} for citation in block["citations"]]
        return empty, deltas
    if kind == "thinking":
        deltas = list(_text_delta("thinking", block))
        if "signature" not in block:
            return {**block, "thinking": ""}, deltas
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in _JSON_INPUT:
        text = msgspec.json.encode(block.get("input")).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    return block, []


def _text_delta(key: str, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block.get(key):
        yield {"type": f"{key}_delta", key: block[key]}


def _event(frame: Frame) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(frame.data or b"", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"an event is no JSON object: {error}"
        raise Malformed(reason) from None
    # A client goes by the one, we by the other: they must say the same.
    if frame.event and event.get("type", frame.event) != frame.event:
        _malformed(f"an event called {frame.event!r} says that it is {event.get('type')!r}")
    return event


def _check_ask(block: dict[str, Any]) -> None:
    if not (isinstance(block.get("id"), str) and block["id"] and isinstance(block.get("name"), str)):
        _malformed("a tool call has no id or no name")
    if not isinstance(block.get("input"), dict):
        _malformed("the input of a tool call is no object")


def _error_text(event: Mapping[str, Any]) -> str:
    error: object = event.get("error")
    if not isinstance(error, dict):
        return "the provider reported an error"
    said = cast("dict[str, Any]", error)
    return f"{said.get('type', 'error')}: {said.get('message', '')}"


def _malformed(reason: str) -> NoReturn:
    raise Malformed(reason)
