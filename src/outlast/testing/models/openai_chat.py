"""The OpenAI Chat Completions dialect: "Chat Completions" and "Streaming" in OpenAI's API reference.

Thinking goes out as `reasoning_content`, in which OpenAI's own models show none, but most that are compatible do.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from outlast.testing.models.dialect import Answer, Billed, Message, ModelRequest
from outlast.testing.models.errors import UnreadableRequest
from outlast.testing.models.pieces import dicts, pieces, words
from outlast.testing.models.script import Stop

_DONE: Final = b"data: [DONE]\n\n"
_CODES: Final = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_STOPS: Final[Mapping[Stop, str]] = {"length": "length", "refusal": "content_filter"}
# What says who asks, not what is asked.
_ASIDE: Final = frozenset({"metadata", "user", "safety_identifier", "prompt_cache_key"})


class _Options(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _Body(msgspec.Struct, frozen=True):
    messages: list[dict[str, Any]]
    model: str = "scripted"
    stream: bool | None = None
    stream_options: _Options | None = None


class OpenAIChat:
    """`POST /v1/chat/completions`, streaming and not, with thinking, text and tool calls."""

    name: str = "openai-chat"
    path: str = "/v1/chat/completions"

    def parse(self, body: bytes) -> ModelRequest:
        """Read a request; messages of other roles than user and assistant are passed over."""
        try:
            tree: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
            known = msgspec.convert(tree, _Body)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UnreadableRequest(dialect=self.name, reason=error) from error
        stream = known.stream is True
        return ModelRequest(
            model=known.model,
            stream=stream,
            messages=tuple(message for raw in known.messages for message in _message(raw)),
            canonical={key: value for key, value in tree.items() if key not in _ASIDE},
            tells_usage=not stream
            or (known.stream_options is not None and known.stream_options.include_usage),
        )

    def frames(self, answer: Answer) -> list[bytes]:
        """Render the deltas, the finish, the usage if it was asked for, and `[DONE]`."""
        frames = [*self.unended(answer), _frame(answer, _choice({}, _finish(answer)))]
        if answer.tells_usage:
            frames.append(_frame(answer, None))
        return [*frames, _DONE]

    def unended(self, answer: Answer) -> list[bytes]:
        """Leave out the finish and all that follows."""
        return [_frame(answer, _choice(delta)) for delta in _deltas(answer)]

    def body(self, answer: Answer) -> bytes:
        """Render the completion as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.step.text, "refusal": None}
        if answer.step.thinking is not None:
            message["reasoning_content"] = answer.step.thinking
        if answer.step.tools:
            message["tool_calls"] = [_tool_call(answer, index) for index in range(len(answer.step.tools))]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
        head = _head(answer, "chat.completion")
        return msgspec.json.encode(head | {"choices": [choice], "usage": _usage(answer.billed)})

    def error(self, status: int, error_type: str | None, message: str) -> bytes:
        """Render `{"error": {"message", "type", "param", "code"}}`; `error_type` is the code."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        code = error_type or _CODES.get(status)
        return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def side_paths(self) -> Mapping[str, str]:
        """Name none."""
        return {}

    def side_body(self, path: str, request: ModelRequest, input_tokens: int) -> bytes:
        """Answer nothing: there are no side paths."""
        return b"{}"


def _message(raw: dict[str, Any]) -> Iterator[Message]:
    content = raw.get("content")
    blocks = [block.get("text") for block in dicts(content) if block.get("type") == "text"]
    texts = [content] if isinstance(content, str) else [text for text in blocks if isinstance(text, str)]
    match raw.get("role"):
        case "user":
            yield Message("user", "\n".join(texts))
        case "assistant":
            yield Message("assistant", "\n".join(texts))
        case "tool":
            yield Message("user", "")  # it ends a turn of the assistant's, and selects nothing
        case _:
            pass


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    step = answer.step
    yield {"role": "assistant", "content": "", "refusal": None}
    for word in words(step.thinking or ""):
        yield {"reasoning_content": word}
    for word in words(step.text or ""):
        yield {"content": word}
    for index in range(len(step.tools)):
        call = _tool_call(answer, index)
        function: dict[str, str] = call["function"]
        begun = call | {"function": function | {"arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _tool_call(answer: Answer, index: int) -> dict[str, Any]:
    tool = answer.step.tools[index]
    arguments = msgspec.json.encode(tool.input).decode()
    function = {"name": tool.name, "arguments": arguments}
    return {"id": f"call_{answer.id}_{index}", "type": "function", "function": function}


def _finish(answer: Answer) -> str:
    if answer.step.stop is not None:
        return _STOPS[answer.step.stop]
    return "tool_calls" if answer.step.tools else "stop"


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _frame(answer: Answer, choice: dict[str, Any] | None) -> bytes:
    """A chunk; without a choice, the one with the usage."""
    chunk = _head(answer, "chat.completion.chunk")
    chunk["choices"] = [] if choice is None else [choice]
    if answer.tells_usage:
        chunk["usage"] = _usage(answer.billed) if choice is None else None
    return b"data: %b\n\n" % msgspec.json.encode(chunk)


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 0, "model": answer.model}


def _usage(billed: Billed) -> dict[str, Any]:
    prompt = billed.input_tokens + billed.cache_read_tokens + billed.cache_write_tokens
    details = {"cached_tokens": billed.cache_read_tokens, "cache_write_tokens": billed.cache_write_tokens}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": billed.output_tokens,
        "total_tokens": prompt + billed.output_tokens,
        "prompt_tokens_details": details,
    }
