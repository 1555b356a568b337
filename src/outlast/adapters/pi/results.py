"""How a tool call of Pi ended: as Pi says it, as the log keeps it, and as Pi is told it again."""

from typing import Any, Final, cast

from outlast.adapter import ToolResult
from outlast.adapters.program import LOST as TOLD_OF_LOST
from outlast.adapters.shapes import Json, as_list, as_object
from outlast.recovery import NOT_COMPLETED
from outlast.tool import result_text

LOST: Final = ToolResult("error", TOLD_OF_LOST)
AGAIN: Final = ToolResult("error", NOT_COMPLETED)


def result_of(content: object, *, is_error: bool) -> ToolResult:
    """What Pi says of a call that has ended: one text by itself, else its blocks as they are."""
    blocks = as_list(content)
    value: object = blocks
    if len(blocks) == 1 and as_object(blocks[0]).keys() == {"type", "text"}:
        value = str(blocks[0]["text"])
    return ToolResult("error" if is_error else "ok", value)


def content_of(result: ToolResult) -> list[Any]:
    """The blocks of Pi's own that a result is."""
    blocks = as_list(result.value)
    if isinstance(result.value, list) and all(as_object(block).get("type") for block in blocks):
        return blocks
    text = result_text(cast("object", result.value))
    return [{"type": "text", "text": text}]


def as_told(result: ToolResult) -> Json:
    """A result as the extension puts it in the place of a call that does not run."""
    return {"content": content_of(result), "isError": result.status != "ok"}
