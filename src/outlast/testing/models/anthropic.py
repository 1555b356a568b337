"""The Anthropic Messages dialect: "Messages" and "Streaming Messages" in Anthropic's API reference."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from outlast.ids import digest
from outlast.testing.models.dialect import Answer, Billed, Message, ModelRequest
from outlast.testing.models.errors import UnreadableRequest
from outlast.testing.models.pieces import dicts, pieces, words
from outlast.testing.models.script import Stop, ToolUse

_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# What Claude Code puts in the model's mouth when it resumes with a prompt: no answer of ours, so no step.
_NOT_OURS: Final = frozenset({"No response requested."})
# Below these keys a member called `cache_control` is the caller's own data.
_OPAQUE: Final = frozenset({"input", "input_schema"})
_STOPS: Final[Mapping[Stop, str]] = {"length": "max_tokens", "refusal": "refusal"}
_COUNT_PATH: Final = "/v1/messages/count_tokens"


class _Body(msgspec.Struct, frozen=True):
    messages: list[dict[str, Any]]
    model: str = "scripted"
    stream: bool = False


class Anthropic:
    """`POST /v1/messages`, streaming and not, with thinking, text and tool calls."""

    name: str = "anthropic"
    path: str = "/v1/messages"

    def parse(self, body: bytes) -> ModelRequest:
        """Read a request; messages of unknown roles and blocks of unknown kinds are passed over."""
        try:
            tree: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
            known = msgspec.convert(tree, _Body)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UnreadableRequest(dialect=self.name, reason=error) from error
        messages = tuple(message for raw in known.messages if (message := _message(raw)) is not None)
        canonical = {
            key: _unmarked(value) for key, value in tree.items() if key not in {"metadata", "cache_control"}
        }
        return ModelRequest(model=known.model, stream=known.stream, messages=messages, canonical=canonical)

    def frames(self, answer: Answer) -> list[bytes]:
        """Render `message_start`, a `ping`, the blocks in small deltas, `message_delta`, `message_stop`."""
        opened = _opened(answer) | {"usage": _usage(answer.billed) | {"output_tokens": 1}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": opened}, {"type": "ping"}]
        for index, block in enumerate(_blocks(answer)):
            events.extend(event | {"index": index} for event in _block_events(block))
        delta = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": _usage(answer.billed)})
        events.append({"type": "message_stop"})
        return [
            b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
            for event in events
        ]

    def unended(self, answer: Answer) -> list[bytes]:
        """Leave out `message_delta` and `message_stop`."""
        return self.frames(answer)[:-2]

    def body(self, answer: Answer) -> bytes:
        """Render the message as one object."""
        message = _opened(answer) | {
            "content": list(_blocks(answer)),
            "stop_reason": _stop_reason(answer),
            "usage": _usage(answer.billed),
        }
        return msgspec.json.encode(message)

    def error(self, status: int, error_type: str | None, message: str) -> bytes:
        """Render `{"type": "error", "error": {"type", "message"}}`."""
        usual = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return msgspec.json.encode(
            {"type": "error", "error": {"type": error_type or usual, "message": message}}
        )

    def side_paths(self) -> Mapping[str, str]:
        """Name the token count."""
        return {_COUNT_PATH: "count_tokens"}

    def side_body(self, path: str, request: ModelRequest, input_tokens: int) -> bytes:
        """Answer a token count."""
        return msgspec.json.encode({"input_tokens": input_tokens})


def _message(raw: dict[str, Any]) -> Message | None:
    role, content = raw.get("role"), raw.get("content")
    texts = [content] if isinstance(content, str) else list(_texts(content))
    text = "\n".join(texts)
    match role:
        case "user":
            return Message("user", text)
        case "assistant" if text.strip() not in _NOT_OURS or _calls_tools(content):
            return Message("assistant", text)
        case _:
            return None


def _texts(content: object) -> Iterator[str]:
    for block in dicts(content):
        # Only what a person or a harness wrote: a tool's result may quote a marker without meaning it.
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _calls_tools(content: object) -> bool:
    return any(block.get("type") == "tool_use" for block in dicts(content))


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                key: member if key in _OPAQUE else _unmarked(member)
                for key, member in members.items()
                if key != "cache_control"
            }
        case list():
            return [_unmarked(member) for member in cast("list[Any]", value)]
        case _:
            return value


def _opened(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(answer: Answer) -> str:
    if answer.step.stop is not None:
        return _STOPS[answer.step.stop]
    return "tool_use" if answer.step.tools else "end_turn"


def _usage(billed: Billed) -> dict[str, int]:
    return {
        "input_tokens": billed.input_tokens,
        "cache_creation_input_tokens": billed.cache_write_tokens,
        "cache_read_input_tokens": billed.cache_read_tokens,
        "output_tokens": billed.output_tokens,
    }


def _blocks(answer: Answer) -> Iterator[dict[str, Any]]:
    step = answer.step
    if step.thinking is not None:
        # Clients send it back unread; a provider would check it.
        yield {"type": "thinking", "thinking": step.thinking, "signature": digest(step.thinking.encode())}
    if step.text is not None:
        yield {"type": "text", "text": step.text}
    for index, tool in enumerate(step.tools):
        yield _tool_block(answer, index, tool)


def _tool_block(answer: Answer, index: int, tool: ToolUse) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{answer.id}_{index}", "name": tool.name, "input": tool.input}


def _block_events(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any]
    match block["type"]:
        case "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": word} for word in words(block["text"])]
        case "thinking":
            empty = block | {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": word} for word in words(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            empty = block | {"input": {}}
            text = msgspec.json.encode(block["input"]).decode()
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]]
    yield {"type": "content_block_start", "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}
