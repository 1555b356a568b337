"""Results of tools on their way into the log and back.

Invariants:

* What holds an image stands behind a blob, however small it is: an image is in no commit's own text.
* What is read back is what its first reader was given, byte for byte.
"""

from typing import Any

from outlast.calls import ToolResult
from outlast.codec import Packer, to_json
from outlast.model import ImagePart
from outlast.parts import find_parts, read_parts
from outlast.records import CallIntent, CallOutcome, Touched
from outlast.tool import result_text


def outcome_of(
    intent: CallIntent, result: ToolResult, packer: Packer, now_s: float, touched: Touched | None = None
) -> CallOutcome:
    """The record of how a tool call ended.

    Raises:
        BadPayload: the result is not JSON.
    """
    text = to_json(result.value, what=f"the result of {intent.name}")
    shows = find_parts(result.value) is not None
    return CallOutcome(
        call=intent.call,
        turn=intent.turn,
        status=result.status,
        result=packer.text(text, apart=shows),
        lane=intent.lane,
        duration_s=round(max(0.0, now_s - intent.at_s), 4),
        at_s=now_s,
        shows=shows,
        touched=touched,
    )


def read_result(outcome: CallOutcome, value: Any) -> ToolResult:
    """How a call ended, from its record and the value behind `outcome.result`."""
    return ToolResult(outcome.status, read_parts(value) if outcome.shows else value)


def said_of(value: object) -> str:
    """A result in words, where an image cannot stand."""
    parts = find_parts(value)
    if parts is None:
        return result_text(value)
    return "\n".join(
        f"({part.media_type}, {len(part.data):,} bytes)" if isinstance(part, ImagePart) else part.text
        for part in parts
    )
