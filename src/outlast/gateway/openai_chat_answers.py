"""Answers of the Chat Completions dialect: put together from a stream, and made into one again.

Format: "The chat completion object" and "The chat completion chunk object" in OpenAI's API reference; thinking as
DeepSeek (`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`) document it, an error in the midst of
a stream as OpenRouter does. A recorded answer is the completion. What cannot be put together without a guess is kept
as the chunks that it came in, and served again from those.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import msgspec

from outlast.adapter import ToolAsk
from outlast.gateway.dialect import Heard
from outlast.gateway.openai_chat_calls import CallReader, check_calls
from outlast.gateway.openai_errors import error_text
from outlast.gateway.openai_tools import custom_ask, function_ask
from outlast.gateway.sse import Frame, Malformed
from outlast.prices import Price, find_dated_price, openai_usage
from outlast.records import Usage

EVENTS: Final = "outlast_events"
"""Where a recorded answer keeps the chunks that it came in, if it could not be served rightly without them."""
COMMENT: Final = b": still there\n\n"

_CALM: Final = Heard("calm")
_OURS: Final = Heard("ours")
_END: Final = Heard("end")
_DONE: Final = b"[DONE]"
_TEXTS: Final = ("content", "refusal")
_THOUGHTS: Final = ("reasoning_content", "reasoning")
_CHUNK: Final = "chat.completion.chunk"
_INSIDE: Final = frozenset({"index", "delta", "finish_reason"})
_OUTSIDE: Final = frozenset({"choices", "object"})


class _Choice:
    """One of the answers that were asked for; as a rule there is one."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.finish: str | None = None
        self.odd = False
        self._lists: dict[str, list[Any]] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls = CallReader()

    def read(self, choice: Mapping[str, Any]) -> bool:
        """Take a piece; says whether a harness may act on it."""
        delta: Mapping[str, Any] = choice.get("delta") or {}
        if delta.get("function_call"):
            _malformed("a call of a function has no id")
        for key, value in delta.items():
            if value is not None and key not in {"role", "tool_calls", "function_call"}:
                self._add(key, value)
        calls = cast("list[object]", delta.get("tool_calls") or [])
        if not isinstance(delta.get("tool_calls"), list | None):
            _malformed("the tool calls are no list")
        self._calls.read(calls)
        self.about.update({key: choice[key] for key in choice if key not in _INSIDE})
        self.odd = self.odd or bool(choice.get("logprobs"))
        reason = choice.get("finish_reason")
        if reason:  # some proxies say an empty one in every chunk
            self.finish = str(reason)
        return bool(calls) or bool(reason)

    def _add(self, key: str, value: object) -> None:
        if isinstance(value, list):
            self._lists.setdefault(key, []).extend(cast("list[object]", value))
        elif isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
            self.odd = self.odd or key not in {*_TEXTS, *_THOUGHTS}
        else:
            self.odd = True

    def whole(self, index: int) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        message |= self._lists
        if calls := self._calls.calls():
            message["tool_calls"] = calls
        return {"index": index, "message": message, "finish_reason": self.finish, **self.about}


class CompletionReader:
    """See `outlast.gateway.dialect.AnswerReader`; `counted`: the harness has not asked what the answer has used."""

    def __init__(self, model: str, prices: Mapping[str, Price], *, counted: bool = False) -> None:
        self._model = model
        self._prices = prices
        self._counted = counted
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._chunks: list[dict[str, Any]] = []
        self._holding = False

    def read(self, frame: Frame) -> Heard:
        if frame.data is None:
            return _CALM
        if frame.data.strip() == _DONE:
            if not self.over():
                _malformed("the stream says that it is done before the answer is")
            return _END
        chunk = _decoded(frame.data, "a chunk")
        if chunk.get("error") or frame.event == "error":
            return Heard("error", text=error_text(chunk.get("error") or chunk))
        choices: object = chunk.get("choices")
        if not isinstance(choices, list):
            _malformed("a chunk has no choices")
        if not (ours := self._counted and not choices):
            self._chunks.append(chunk)
        self._head.update(
            {key: chunk[key] for key in chunk if key not in _OUTSIDE and chunk[key] is not None}
        )
        return _OURS if ours else self._choose(cast("list[object]", choices))

    def _choose(self, choices: Sequence[object]) -> Heard:
        kind, text = "", ""
        for given in choices:
            choice = _choice_of(given)
            index = choice.get("index") or 0
            self._holding = self._choices.setdefault(index, _Choice()).read(choice) or self._holding
            if choice.get("finish_reason") == "error":
                return Heard("error", text="the provider broke off")
            if index == 0:
                kind, text = _shown(choice)
        flow = "hold" if self._holding else "pass"
        if kind == "text":
            return Heard(flow, "text", text)
        return Heard(flow, "thinking", text) if kind else Heard(flow)

    @property
    def usage(self) -> Usage | None:
        return usage_of(self._head, self._model, self._prices)

    def over(self) -> bool:
        return bool(self._choices) and all(choice.finish is not None for choice in self._choices.values())

    def answer(self) -> Mapping[str, Any]:
        choices = [choice.whole(index) for index, choice in sorted(self._choices.items())]
        for choice in choices:
            check_calls(choice["message"].get("tool_calls") or [])
        head = {key: value for key, value in self._head.items() if not (self._counted and key == "usage")}
        answer = {**head, "object": "chat.completion", "choices": choices}
        odd = any(choice.odd for choice in self._choices.values())
        return {**answer, EVENTS: self._chunks} if odd else answer


def read_completion(body: bytes) -> Mapping[str, Any]:
    """The answer in a response that is no stream.

    Raises:
        Malformed: it is none, or not a whole one.
    """
    completion = _decoded(body, "the answer")
    if completion.get("error"):
        _malformed(f"the provider failed: {error_text(completion['error'])}")
    choices: object = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        _malformed("the answer has no choices")
    for given in cast("list[object]", choices):
        choice = _choice_of(given)
        message: object = choice.get("message")
        if not isinstance(message, dict) or not isinstance(choice.get("finish_reason"), str):
            _malformed("the answer is not whole")
        said = cast("dict[str, Any]", message)
        if said.get("function_call"):
            _malformed("a call of a function has no id")
        check_calls(said.get("tool_calls") or [])
    return completion


def asks_of(answer: Mapping[str, Any]) -> list[ToolAsk]:
    """The tool calls that an answer asks the harness for."""
    messages: list[dict[str, Any]] = [choice["message"] for choice in answer["choices"]]
    return [_ask(call) for message in messages for call in _calls(message)]


def _calls(message: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    return cast("Sequence[dict[str, Any]]", message.get("tool_calls") or ())


def _ask(call: Mapping[str, Any]) -> ToolAsk:
    if call.get("type") == "custom":
        return custom_ask(call["id"], call["custom"]["name"], call["custom"].get("input", ""))
    return function_ask(call["id"], call["function"]["name"], call["function"].get("arguments"))


def usage_of(answer: Mapping[str, Any], model: str, prices: Mapping[str, Price]) -> Usage | None:
    """What the provider reported, and what that costs at list price."""
    reported: object = answer.get("usage")
    if not isinstance(reported, dict):
        return None
    price = find_dated_price(str(answer.get("model") or model), prices) or find_dated_price(model, prices)
    return openai_usage(cast("dict[str, Any]", reported), price)


def answer_frames(answer: Mapping[str, Any]) -> list[bytes]:
    """A recorded answer as the frames of a stream."""
    chunks = cast("Sequence[dict[str, Any]] | None", answer.get(EVENTS))
    return [*(_frame(msgspec.json.encode(chunk)) for chunk in chunks or _chunks(answer)), _frame(_DONE)]


def answer_body(answer: Mapping[str, Any]) -> bytes:
    """A recorded answer as one JSON object."""
    return msgspec.json.encode({key: value for key, value in answer.items() if key != EVENTS})


def _chunks(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = {key: answer[key] for key in answer if key not in {*_OUTSIDE, "usage"}}
    chunks: list[dict[str, Any]] = []
    for choice in answer["choices"]:
        about = {key: choice[key] for key in choice if key not in {"message", *_INSIDE}}
        deltas = [(delta, None) for delta in _deltas(choice["message"])]
        for delta, finish in (*deltas, ({}, choice["finish_reason"])):
            more = about if finish else {}
            chunks.append({"index": choice["index"], "delta": delta, "finish_reason": finish, **more})
    told = [{**head, "object": _CHUNK, "choices": [chunk]} for chunk in chunks]
    if answer.get("usage") is not None:
        told.append({**head, "object": _CHUNK, "choices": [], "usage": answer["usage"]})
    return told


def _deltas(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pieces of a message, each text and each call whole: thinking, words, calls."""
    last = {"role", "tool_calls", *_TEXTS}
    first = [{key: message[key]} for key in message if key not in last and message[key] is not None]
    words = [{key: message[key]} for key in _TEXTS if message.get(key) is not None]
    asked = [{"tool_calls": [{**call, "index": index}]} for index, call in enumerate(_calls(message))]
    return [{"role": "assistant"}, *first, *words, *asked]


def _frame(data: bytes) -> bytes:
    return b"data: %b\n\n" % data


def _shown(choice: Mapping[str, Any]) -> tuple[str, str]:
    delta: Mapping[str, Any] = choice.get("delta") or {}
    for kind, keys in (("text", _TEXTS), ("thinking", _THOUGHTS)):
        for key in keys:
            if isinstance(delta.get(key), str) and delta[key]:
                return kind, delta[key]
    return "", ""


def _choice_of(given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        _malformed("a choice is no object")
    choice = cast("dict[str, Any]", given)
    delta, index = choice.get("delta"), choice.get("index", 0)
    if not (delta is None or isinstance(delta, dict)) or not (index is None or isinstance(index, int)):
        _malformed("a choice has no place or no delta")
    return choice


def _decoded(data: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"{what} is no JSON object: {error}"
        raise Malformed(reason) from None


def _malformed(reason: str) -> NoReturn:
    raise Malformed(reason)
