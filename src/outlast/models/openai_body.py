"""A request as the body of OpenAI's Chat Completions API ("Create chat completion" in its reference)."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from outlast.model import (
    AssistantMessage,
    ImagePart,
    Message,
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

PROVIDER: Final = "openai-chat"


def body_of(request: Request, *, max_tokens: int, most: str) -> dict[str, Any]:
    """The body, the same bytes for the same request.

    Args:
        request: what to ask.
        max_tokens: the most, where the request names none; 0 leaves it to the provider.
        most: how the provider calls the most tokens that an answer may have.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(_messages(request)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.max_tokens or max_tokens:
        body[most] = request.max_tokens or max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop_sequences:
        body["stop"] = list(request.stop_sequences)
    if request.tools:
        body |= _tools(request)
    if request.output is not None:
        body["response_format"] = _format(request.output.name, request.output.schema)
    return merged(body, request.extras)


def _tools(request: Request) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in request.tools
    ]
    choice: object = {"any": "required"}.get(request.tool_choice, request.tool_choice)
    if request.only_tool:
        choice = {"type": "function", "function": {"name": request.only_tool}}
    # Said only where it matters: some compatible servers do not know the word.
    parallel = {} if request.parallel_tools else {"parallel_tool_calls": False}
    return {"tools": tools, "tool_choice": choice, **parallel}


def _format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    enforced = strict(schema, recursive=True)
    described = {"name": name, "schema": schema if enforced is None else enforced}
    return {"type": "json_schema", "json_schema": {**described, "strict": enforced is not None}}


def _messages(request: Request) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    for message in request.messages:
        yield from _spoken(message)


def _spoken(message: Message) -> Iterable[dict[str, Any]]:
    match message:
        case UserMessage(parts=parts):
            return [{"role": "user", "content": _content(parts)}]
        case AssistantMessage():
            return [_answer(message)]
        case ToolMessage(results=results):
            return _results(results)


def _answer(message: AssistantMessage) -> dict[str, Any]:
    calls = [_call(call) for call in message.tool_calls]
    said: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
    if not calls:
        return said
    # Servers that show their thoughts want them back with the results of tools, and only then.
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.provider == PROVIDER:
            said |= part.data
    return {**said, "tool_calls": calls}


def _call(call: ToolCallPart) -> dict[str, Any]:
    arguments = call.unreadable or msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _results(results: Sequence[ToolResultPart]) -> Iterator[dict[str, Any]]:
    """One message each. Images cannot stand in them: they follow as what the user shows."""
    shown: list[TextPart | ImagePart] = []
    for result in results:
        texts = [part.text for part in result.parts if isinstance(part, TextPart)]
        images = [part for part in result.parts if isinstance(part, ImagePart)]
        if images:
            note = f"Images of the result of {result.call_id}:"
            shown += [TextPart(note), *images]
            texts = texts or [f"({note[:-1]} follow.)"]
        yield {"role": "tool", "tool_call_id": result.call_id, "content": "\n".join(texts)}
    if shown:
        yield {"role": "user", "content": _content(shown)}


def _content(parts: Sequence[TextPart | ImagePart]) -> str | list[dict[str, Any]]:
    match parts:
        case [TextPart(text=text)]:
            return text
        case _:
            return [_part(part) for part in parts]


def _part(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    data = f"data:{part.media_type};base64,{b64encode(part.data).decode()}"
    return {"type": "image_url", "image_url": {"url": part.url or data}}
