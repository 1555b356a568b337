"""What the model reads of a finished call of OpenCode's own tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.adapter import Attempt, ToolResult
from outlast.adapters.opencode.events import is_ended
from outlast.adapters.shapes import Json, as_object, as_objects
from outlast.tool import result_text


def result_of(done: Mapping[str, Any]) -> str | Sequence[Json]:
    """The result, from what the hook after a tool or a finished part of a message holds: text, or text and images."""
    text = str(done.get("output") or "")
    images = [image for file in as_objects(done.get("attachments")) if (image := _image(file)) is not None]
    if not images:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *images]


def _image(file: Json) -> Json | None:
    url, mime = str(file.get("url", "")), str(file.get("mime", ""))
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:") and mime.startswith("image/")):
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def failure_of(part: Mapping[str, Any]) -> ToolResult | None:
    """What the model will read of a call that failed, or that a rule or a person refused; None of every other part.

    No hook tells of these, and of a call that was given up as the process ended nothing is known.
    """
    state = as_object(part.get("state"))
    if part.get("type") != "tool" or state.get("status") != "error" or not is_ended(part):
        return None
    return ToolResult("error", str(state.get("error") or ""))


async def settle_failure(attempt: Attempt, part: Mapping[str, Any]) -> None:
    """Write down that a call has failed or was refused, before the next request tells: that may never come."""
    calls, name = attempt.calls, str(part.get("callID", ""))
    failure, intent = failure_of(part), calls.intent_of(name)
    if failure is None or intent is None:
        return
    state = attempt.turn.calls[intent.call]
    if state.open and state.started == attempt.fence:
        await calls.settle_tool(name, failure)


def ended_part(part: Mapping[str, Any], status: str, value: object, at_ms: int) -> Json:
    """A tool call of a message with the end that the log has for it."""
    state = as_object(part.get("state"))
    start = as_object(state.get("time")).get("start", at_ms)
    common: Json = {"input": as_object(state.get("input")), "time": {"start": start, "end": at_ms}}
    if status == "ok":
        text = value if isinstance(value, str) else _texts(value)
        ended: Json = {**common, "status": "completed", "output": text, "title": "", "metadata": {}}
    else:
        ended = {**common, "status": "error", "error": result_text(value)}
    return {**part, "state": ended}


def _texts(value: object) -> str:
    blocks = as_objects(value)
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    return "\n".join(texts) if blocks else result_text(value)
