"""What stands in a model request, whichever dialect it is in. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from outlast.adapter import ToolResult
from outlast.adapters.shapes import Json, as_list, as_object, as_objects

SENTINEL: Final = "[[outlast: resumed, nothing was said]]"
"""What an agent is told in order to go on, as the protocol knows no going on; it never reaches the provider."""

_TEXTS: Final = ("text", "input_text")


def without_sentinel(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request as it would be if nobody had been told to go on; itself if nobody was."""
    key = _key(request)
    messages = as_list(request.get(key))
    kept = [left for message in messages if (left := _without(message)) is not None]
    same = len(kept) == len(messages) and all(new is old for new, old in zip(kept, messages, strict=True))
    return request if same else {**request, key: kept}


def _without(message: Any) -> Any:
    found = as_object(message)
    content = found.get("content")
    if found.get("role") != "user":
        return message
    if isinstance(content, str):
        return None if content.strip() == SENTINEL else message
    blocks = as_list(content)
    kept = [block for block in blocks if _text(block).strip() != SENTINEL]
    if len(kept) == len(blocks):
        return message
    return {**found, "content": kept} if kept else None


def user_texts(request: Mapping[str, Any]) -> Iterator[str]:
    """What users said in it, in order."""
    for message in as_objects(request.get(_key(request))):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                yield content
            yield from filter(None, map(_text, as_list(content)))


def tool_names(request: Mapping[str, Any]) -> list[str]:
    """The tools that it offers the model."""
    tools = as_objects(request.get("tools"))
    return [str(one.get("name") or as_object(one.get("function")).get("name") or "") for one in tools]


def results_in(messages: Sequence[Any]) -> Mapping[str, ToolResult]:
    """The tool results in messages, by the model's call ids, as the agent words them."""
    return dict(_results(messages))


def results_of(request: Mapping[str, Any]) -> Mapping[str, ToolResult]:
    """The tool results in a request."""
    return results_in(as_list(request.get(_key(request))))


def _results(messages: Sequence[Any]) -> Iterator[tuple[str, ToolResult]]:
    for message in as_objects(list(messages)):
        if message.get("role") == "tool":
            yield str(message.get("tool_call_id")), ToolResult("ok", message.get("content"))
        elif message.get("type") == "function_call_output":
            yield str(message.get("call_id")), ToolResult("ok", message.get("output"))
        for block in as_objects(message.get("content")):
            if block.get("type") == "tool_result":
                status = "error" if block.get("is_error") else "ok"
                yield str(block.get("tool_use_id")), ToolResult(status, block.get("content"))


def last_text(answer: Mapping[str, Any]) -> str:
    """The text of a model's answer, in any dialect."""
    if choices := as_objects(answer.get("choices")):
        return str(as_object(choices[0].get("message")).get("content") or "")
    blocks: list[Json] = as_objects(answer.get("content"))
    for item in as_objects(answer.get("output")):
        blocks += as_objects(item.get("content"))
    return "".join(
        str(block.get("text", "")) for block in blocks if block.get("type") in {"text", "output_text"}
    )


def _text(block: Any) -> str:
    found = as_object(block)
    return str(found.get("text", "")) if found.get("type") in _TEXTS else ""


def _key(request: Mapping[str, Any]) -> str:
    return "input" if "input" in request else "messages"
