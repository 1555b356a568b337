"""What a model reads behind the result of a tool call, in every request that brings it (`Behind.notes`)."""

from collections.abc import Mapping
from typing import Any, cast


def noted(request: Mapping[str, Any], notes: Mapping[str, str]) -> Mapping[str, Any]:
    """The request, of any dialect, with each note behind the result of its call; itself if there is none."""
    if not notes:
        return request
    said = {name: _walked(request[name], notes) for name in ("messages", "input") if name in request}
    same = all(said[name] is request[name] for name in said)
    return request if same else {**request, **said}


def _walked(value: Any, notes: Mapping[str, str]) -> Any:
    if not isinstance(value, list):
        return value
    old = cast("list[Any]", value)
    new = [_item(item, notes) for item in old]
    return old if all(one is other for one, other in zip(new, old, strict=True)) else new


def _item(value: Any, notes: Mapping[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    item = cast("dict[str, Any]", value)
    if item.get("type") == "tool_result" or item.get("role") == "tool":
        note = notes.get(str(item.get("tool_use_id") or item.get("tool_call_id")))
        return item if note is None else {**item, "content": _with(item.get("content"), note, "text")}
    if str(item.get("type", "")).endswith("_call_output") and "output" in item:
        note = notes.get(str(item.get("call_id")))
        return item if note is None else {**item, "output": _with(item["output"], note, "input_text")}
    content = _walked(item.get("content"), notes)
    return item if content is item.get("content") else {**item, "content": content}


def _with(content: Any, note: str, kind: str) -> Any:
    if isinstance(content, list):
        return [*cast("list[Any]", content), {"type": kind, "text": note}]
    return f"{content}\n\n{note}" if content else note
