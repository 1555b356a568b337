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
from outlast.records import CallIntent, CallOutcome, Payload, ResultTold, Touched
from outlast.tool import result_text


def outcome_of(
    intent: CallIntent, result: ToolResult, packer: Packer, now_s: float, touched: Touched | None = None
) -> CallOutcome:
    """The record of how a tool call ended.

    Raises:
        BadPayload: the result is not JSON.
    """
    payload, shows = _packed(result, packer, f"the result of {intent.name}")
    return CallOutcome(
        call=intent.call,
        turn=intent.turn,
        status=result.status,
        result=payload,
        lane=intent.lane,
        duration_s=round(max(0.0, now_s - intent.at_s), 4),
        at_s=now_s,
        shows=shows,
        touched=touched,
    )


def told_of(turn: int, harness_id: str, result: ToolResult, packer: Packer) -> ResultTold:
    """The record of what a request told of a call.

    Raises:
        BadPayload: the result is not JSON.
    """
    payload, shows = _packed(result, packer, f"the result of {harness_id}")
    return ResultTold(turn, harness_id, result.status, payload, shows)


def _packed(result: ToolResult, packer: Packer, what: str) -> tuple[Payload, bool]:
    shows = find_parts(result.value) is not None
    return packer.text(to_json(result.value, what=what), apart=shows), shows


def read_result(outcome: CallOutcome | ResultTold, value: Any) -> ToolResult:
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
