"""What the model reads of a finished call.

Where a request or the rollout holds the output it is taken from there. Of a call whose output has not come to stand in
either only its end is known; `of_command` words that as Codex does, as far as `docs/internals/codex.md` knows how.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from outlast.adapter import ToolResult
from outlast.adapters.codex.rollout import is_output
from outlast.adapters.shapes import Json, as_object
from outlast.model import ImagePart
from outlast.parts import find_parts
from outlast.tool import result_text


def in_items(items: Iterable[object]) -> dict[str, object]:
    """Every output among items of a request or of a rollout, by call id."""
    found = [as_object(item) for item in items]
    return {str(item.get("call_id", "")): item.get("output", "") for item in found if is_output(item)}


def of_command(item: Mapping[str, Any]) -> str:
    """The output of a shell command, from what Codex tells of its end."""
    seconds = float(item.get("durationMs") or 0) / 1000
    said = str(item.get("aggregatedOutput") or "")
    return (
        f"Wall time: {seconds:.4f} seconds\nProcess exited with code {item.get('exitCode')}\nOutput:\n{said}"
    )


def of_ours(result: ToolResult) -> Json:
    """The answer to `item/tool/call`: the result of one of the application's tools."""
    parts = find_parts(result.value)
    if parts is None:
        items: list[Json] = [{"type": "inputText", "text": result_text(result.value)}]
    else:
        items = [
            {"type": "inputImage", "imageUrl": _url(part)}
            if isinstance(part, ImagePart)
            else {"type": "inputText", "text": part.text}
            for part in parts
        ]
    return {"contentItems": items, "success": result.status == "ok"}


def output_of_ours(result: ToolResult) -> object:
    """The same as Codex then tells its model."""
    items = of_ours(result)["contentItems"]
    if len(items) == 1 and items[0]["type"] == "inputText":
        return items[0]["text"]
    return [
        {"type": "input_image", "image_url": item["imageUrl"]}
        if item["type"] == "inputImage"
        else {"type": "input_text", "text": item["text"]}
        for item in items
    ]


def _url(part: ImagePart) -> str:
    return f"data:{part.media_type};base64,{b64encode(part.data).decode()}"
