"""A request as the body of Anthropic's Messages API ("Create a Message" in its reference)."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from outlast.model import (
    AssistantMessage,
    ImagePart,
    Message,
    OpaquePart,
    Request,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from outlast.models.reading import merged
from outlast.models.strict import strict

PROVIDER: Final = "anthropic"


def body_of(request: Request, *, max_tokens: int, cache: bool) -> dict[str, Any]:
    """The body, the same bytes for the same request.

    Args:
        request: what to ask.
        max_tokens: the most, where the request names none.
        cache: whether the provider shall keep the prompt, to read it again for less.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens or max_tokens,
        "messages": list(_messages(request.messages)),
    }
    if cache:
        body["cache_control"] = {"type": "ephemeral"}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop_sequences:
        body["stop_sequences"] = list(request.stop_sequences)
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in request.tools
        ]
        body["tool_choice"] = _tool_choice(request)
    return merged(body | _spoken(request), request.extras)


def _spoken(request: Request) -> dict[str, Any]:
    """The system prompt and the shape of the answer, which is asked for in words where the API cannot enforce it."""
    if request.output is None:
        return {"system": request.system} if request.system else {}
    schema = strict(request.output.schema, recursive=False)
    if schema is not None:
        config = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        return config | ({"system": request.system} if request.system else {})
    text = msgspec.json.encode(request.output.schema).decode()
    words = f"Answer with JSON only, without any other words, that fits this JSON schema:\n{text}"
    return {"system": f"{request.system}\n\n{words}".strip()}


def _tool_choice(request: Request) -> dict[str, Any]:
    choice: dict[str, Any] = {"type": request.tool_choice}
    if request.only_tool:
        choice = {"type": "tool", "name": request.only_tool}
    if not request.parallel_tools and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _messages(messages: Sequence[Message]) -> Iterable[dict[str, Any]]:
    """Messages of one role in a row are one to the API, and an empty one is none."""
    role, blocks = "", list[dict[str, Any]]()
    for message in messages:
        own = list(_blocks(message))
        said = "assistant" if isinstance(message, AssistantMessage) else "user"
        if own and said != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = said if own else role
        blocks += own
    if blocks:
        yield {"role": role, "content": blocks}


def _blocks(message: Message) -> Iterable[dict[str, Any]]:
    match message:
        case UserMessage(parts=parts):
            return _content(parts)
        case ToolMessage(results=results):
            return [_result(result) for result in results]
        case AssistantMessage(parts=parts):
            return [block for part in parts for block in _said(part)]


def _said(part: TextPart | ThinkingPart | ToolCallPart | OpaquePart) -> Iterable[dict[str, Any]]:
    match part:
        case TextPart():
            yield from _content([part])
        case ThinkingPart(provider=provider, data=data) | OpaquePart(provider=provider, data=data):
            if provider == PROVIDER:
                yield data
        case ToolCallPart():
            written = {"unreadable": part.unreadable} if part.unreadable else part.arguments
            yield {"type": "tool_use", "id": part.id, "name": part.name, "input": written}


def _result(result: ToolResultPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    content = _content(result.parts)
    if content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _content(parts: Iterable[TextPart | ImagePart]) -> list[dict[str, Any]]:
    return [_block(part) for part in parts if isinstance(part, ImagePart) or part.text.strip()]


def _block(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    data = b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}
