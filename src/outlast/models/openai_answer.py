"""An answer from the chunks of OpenAI's Chat Completions API ("Streaming events" in its reference).

Servers that are compatible differ in what they leave out: ids, indices, the end. What can be made good is.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from outlast.ids import new_id
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
from outlast.models.openai_body import PROVIDER
from outlast.models.reading import Nonsense
from outlast.prices import Price, find_dated_price, openai_usage
from outlast.records import Usage

_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where compatible servers show what the model thinks: DeepSeek, vLLM and others; OpenRouter and others."""
_DETAILS: Final = "reasoning_details"
_SAID: Final = ("content", "refusal", *_THOUGHTS)


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    """A few servers give the object itself."""


class _CallPiece(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[_CallPiece] | None = None

    def pieces(self) -> Iterator[tuple[str, str]]:
        """What it says, and as what."""
        for key in _SAID:
            piece: str | None = getattr(self, key)
            if piece:
                yield key, piece


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None


class OpenAIReader:
    """See `outlast.models.reading.Reader`.

    Args:
        model: what was asked.
        prices: what tokens cost.
        taken: ids of tool calls that the conversation has already; an answer that uses one again gets another.
    """

    def __init__(self, model: str, prices: Mapping[str, Price], taken: Collection[str]) -> None:
        self._model = model
        self._prices = prices
        self._taken = set(taken)
        self._head: _Chunk | None = None
        self._used: dict[str, Any] = {}
        self._said: dict[str, list[str]] = {key: [] for key in _SAID}
        self._details: list[Any] = []
        self._calls: list[_Call] = []
        self._finish = ""

    @property
    def began(self) -> bool:
        return self._head is not None

    @property
    def usage(self) -> Usage | None:
        if not self._used:
            return None
        answering = (self._head and self._head.model) or self._model
        price = find_dated_price(answering, self._prices) or find_dated_price(self._model, self._prices)
        return openai_usage(self._used, price)

    def read(self, event: Mapping[str, Any]) -> Iterator[tuple[PieceKind, str]]:
        try:
            chunk = msgspec.convert(event, _Chunk)
        except msgspec.ValidationError as error:
            reason = f"a chunk cannot be read: {error}"
            raise Nonsense(reason) from None
        self._head = self._head or chunk
        self._used = chunk.usage or self._used
        for choice in (chunk.choices or [])[:1]:
            self._finish = choice.finish_reason or self._finish
            yield from self._hear(choice.delta or _Delta())

    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            Nonsense: it ended early.
        """
        head = self._head
        if head is None or not self._finish:
            reason = "it is empty" if head is None else "it ended early"
            raise Nonsense(reason)
        return Answer(
            message=AssistantMessage(tuple(self._parts())),
            stop=self._stop(),
            usage=self.usage,
            model=head.model or "",
            id=head.id or "",
            detail={"finish_reason": self._finish},
        )

    def _hear(self, delta: _Delta) -> Iterator[tuple[PieceKind, str]]:
        for key, piece in delta.pieces():
            self._said[key].append(piece)
            yield ("thinking" if key in _THOUGHTS else "text"), piece
        self._details += delta.reasoning_details or []
        for piece in delta.tool_calls or []:
            self._call(piece)

    def _call(self, piece: _CallPiece) -> None:
        """A piece of a tool call belongs to its index; without one, a new id begins a new call."""
        if piece.index is not None:
            found = [call for call in self._calls if call.index == piece.index]
        elif piece.id:
            found = [call for call in self._calls if call.id == piece.id]
        else:
            found = self._calls[-1:]
        if not found:
            found = [_Call(piece.index)]
            self._calls += found
        found[0].add(piece)

    def _stop(self) -> Stop:
        if self._said["refusal"]:
            return "refusal"
        stop: Stop = _STOPS.get(self._finish, "other")
        return "tools" if stop == "end" and self._calls else stop

    def _parts(self) -> Iterator[TextPart | ThinkingPart | ToolCallPart | OpaquePart]:
        thoughts = {key: "".join(self._said[key]) for key in _THOUGHTS if self._said[key]}
        if thoughts or self._details:
            data: dict[str, Any] = {**thoughts, **({_DETAILS: self._details} if self._details else {})}
            yield ThinkingPart(next(iter(thoughts.values()), ""), PROVIDER, data)
        text = "".join([*self._said["content"], *self._said["refusal"]])
        if text:
            yield TextPart(text)
        for call in self._calls:
            part = call.part(self._taken)
            self._taken.add(part.id)
            yield part


class _Call:
    """A tool call as it grows."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._written: list[str] = []

    def add(self, piece: _CallPiece) -> None:
        function = piece.function or _Function()
        self.id = self.id or piece.id or ""
        self._name = self._name or function.name or ""
        written = function.arguments or ""
        self._written.append(written if isinstance(written, str) else msgspec.json.encode(written).decode())

    def part(self, taken: Collection[str]) -> ToolCallPart:
        """The call, under an id of its own."""
        if not self._name:
            reason = "a tool call has no name"
            raise Nonsense(reason)
        own = self.id if self.id and self.id not in taken else new_id("call")
        text = "".join(self._written)
        try:
            return ToolCallPart(own, self._name, msgspec.json.decode(text or "{}", type=dict[str, Any]))
        except (msgspec.MsgspecError, RecursionError):
            return ToolCallPart(own, self._name, unreadable=text)
