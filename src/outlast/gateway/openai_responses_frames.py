"""A response of the Responses dialect as the events of a stream, each text in one piece."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from outlast.gateway import sse

Event = dict[str, Any]


def response_frames(response: Mapping[str, Any]) -> list[bytes]:
    """The frames of a stream that tells `response`."""
    begun: Event = {**response, "status": "in_progress", "output": []}
    begun |= {"usage": None, "incomplete_details": None}
    events: list[Event] = [
        {"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")
    ]
    for index, item in enumerate(cast("Sequence[Event]", response["output"])):
        place = {"output_index": index}
        if "id" in item:
            place["item_id"] = item["id"]
        events.append({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
        events.extend({**event, **place} for event in _pieces(item))
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    ending = "incomplete" if response.get("status") == "incomplete" else "completed"
    events.append({"type": f"response.{ending}", "response": response})
    return [
        sse.frame(event["type"], msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]


def _begun(item: Event) -> Event:
    """An item as it begins."""
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    match item.get("type"):
        case "message":
            return {**begun, "content": []}
        case "reasoning":
            return {**begun, "summary": []}
        case "function_call":
            return {**begun, "arguments": ""}
        case "custom_tool_call":
            return {**begun, "input": ""}
        case _:
            return begun


def _pieces(item: Event) -> Iterator[Event]:
    match item.get("type"):
        case "message":
            for index, part in enumerate(_dicts(item.get("content"))):
                yield from _part({"content_index": index}, part)
        case "reasoning":
            for index, part in enumerate(_dicts(item.get("summary"))):
                yield from _summary({"summary_index": index}, part)
        case "function_call":
            text = str(item.get("arguments") or "")
            yield {"type": "response.function_call_arguments.delta", "delta": text}
            yield {
                "type": "response.function_call_arguments.done",
                "arguments": text,
                "name": item.get("name"),
            }
        case "custom_tool_call":
            text = str(item.get("input") or "")
            yield {"type": "response.custom_tool_call_input.delta", "delta": text}
            yield {"type": "response.custom_tool_call_input.done", "input": text}
        case _:
            return


def _part(place: Event, part: Event) -> Iterator[Event]:
    key = "refusal" if part.get("type") == "refusal" else "text"
    name = "refusal" if key == "refusal" else "output_text"
    text = str(part.get(key) or "")
    yield {"type": "response.content_part.added", **place, "part": {**part, key: ""}}
    if text:
        yield {"type": f"response.{name}.delta", **place, "delta": text, "logprobs": []}
    yield {"type": f"response.{name}.done", **place, key: text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary(place: Event, part: Event) -> Iterator[Event]:
    text = str(part.get("text") or "")
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
    if text:
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _dicts(value: object) -> Sequence[Event]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Event", item) for item in listed if isinstance(item, dict)]
