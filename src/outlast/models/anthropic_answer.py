"""An answer from the events of Anthropic's Messages API ("Streaming Messages" in its reference)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from outlast.model import (
    Answer,
    AssistantMessage,
    OpaquePart,
    PieceKind,
    Stop,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from outlast.models.anthropic_body import PROVIDER
from outlast.models.reading import Nonsense
from outlast.prices import Price, anthropic_usage, find_price
from outlast.records import Usage

_STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_SHOWN: Final[Mapping[str, PieceKind]] = {"text_delta": "text", "thinking_delta": "thinking"}
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


class AnthropicReader:
    """See `outlast.models.reading.Reader`."""

    def __init__(self, model: str, prices: Mapping[str, Price]) -> None:
        self._model = model
        self._prices = prices
        self._opened: dict[str, Any] = {}
        self._used: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._ending: dict[str, Any] = {}
        self._whole = False

    @property
    def began(self) -> bool:
        return bool(self._opened)

    @property
    def usage(self) -> Usage | None:
        if not self._used:
            return None
        answering = str(self._opened.get("model") or self._model)
        price = find_price(answering, self._prices) or find_price(self._model, self._prices)
        return anthropic_usage(self._used, price)

    def read(self, event: Mapping[str, Any]) -> Iterable[tuple[PieceKind, str]]:
        kind = event.get("type")
        if kind != "message_start" and not self._opened:
            raise _nonsense(f"{kind} comes before the answer begins")
        match kind:
            case "message_start":
                self._opened = _object(event, "message")
                self._count(self._opened)
            case "content_block_start":
                self._blocks.append(_Block(_object(event, "content_block")))
            case "content_block_delta":
                return self._delta(event)
            case "message_delta":
                self._ending = _object(event, "delta")
                self._count(event)
            case "message_stop":
                self._whole = True
            case _:
                pass  # the end of a block, or what later versions say besides
        return ()

    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            Nonsense: it ended early.
        """
        if not self._whole or not self._ending.get("stop_reason"):
            raise _nonsense("it ended early" if self._opened else "it is empty")
        return Answer(
            message=AssistantMessage(tuple(block.part() for block in self._blocks)),
            stop=_STOPS.get(str(self._ending["stop_reason"]), "other"),
            usage=self.usage,
            model=str(self._opened.get("model") or ""),
            id=str(self._opened.get("id") or ""),
            detail={key: value for key, value in self._ending.items() if value is not None},
        )

    def _count(self, said: Mapping[str, Any]) -> None:
        usage = said.get("usage")
        if isinstance(usage, dict):
            told = cast("dict[str, Any]", usage)
            self._used |= {key: value for key, value in told.items() if value is not None}

    def _delta(self, event: Mapping[str, Any]) -> Iterable[tuple[PieceKind, str]]:
        delta, index = _object(event, "delta"), event.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self._blocks):
            raise _nonsense(f"block {index} has not begun")
        self._blocks[index].add(delta)
        shown = _SHOWN.get(str(delta.get("type")))
        return [] if shown is None else [(shown, str(delta.get(shown, "")))]


class _Block:
    """A block of content as it grows."""

    def __init__(self, began: dict[str, Any]) -> None:
        self._block = dict(began)
        self._written: list[str] = []
        self._cited: list[Any] = []
        self._grown: dict[str, list[str]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        for key, value in delta.items():
            match key:
                case "type":
                    pass
                case "partial_json":
                    self._written.append(str(value))
                case "citation":
                    self._cited.append(value)
                case _ if isinstance(value, str):
                    self._grown.setdefault(key, []).append(value)
                case _:
                    self._block[key] = value

    def part(self) -> TextPart | ThinkingPart | ToolCallPart | OpaquePart:
        """What the block is, once it is whole."""
        block = dict(self._block)
        for key, pieces in self._grown.items():
            block[key] = "".join([str(block.get(key) or ""), *pieces])
        if self._cited:
            block["citations"] = self._cited
        kind = str(block.get("type"))
        if kind == "tool_use":
            return self._tool_call(block)
        if self._written:
            block["input"] = _decoded("".join(self._written)) or {}
        if kind == "text":
            about = {key: value for key, value in block.items() if key not in {"type", "text"} and value}
            return TextPart(str(block.get("text", "")), about)
        if kind in _THINKING:
            return ThinkingPart(str(block.get("thinking", "")), PROVIDER, block)
        return OpaquePart(PROVIDER, block)

    def _tool_call(self, block: Mapping[str, Any]) -> ToolCallPart:
        call_id, name, given = block.get("id"), block.get("name"), block.get("input")
        if not isinstance(call_id, str) or not isinstance(name, str) or not call_id:
            raise _nonsense("a tool call has no id or no name")
        text = "".join(self._written)
        arguments = _decoded(text) if text else given
        if isinstance(arguments, dict):
            return ToolCallPart(call_id, name, cast("dict[str, Any]", arguments))
        return ToolCallPart(call_id, name, unreadable=text or str(given))


def _decoded(text: str) -> dict[str, Any] | None:
    """A JSON object; None for what is none, cut at the most tokens that it may have for one."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None


def _object(event: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise _nonsense(f"{event.get('type')} has no {key}")
    return cast("dict[str, Any]", value)


def _nonsense(reason: str) -> Nonsense:
    return Nonsense(reason)
