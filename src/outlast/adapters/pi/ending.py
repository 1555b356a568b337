"""What the end of a turn in Pi means: it is done, it has failed, or another attempt may do better.

Pi ends well, whatever has happened: only its last answer tells.
"""

import re
from typing import Final

from outlast.adapter import TurnResult, is_passing
from outlast.adapters.pi.stream import Answered
from outlast.adapters.program import REFUSED
from outlast.errors import HarnessError, ModelCallFailed

_STATUS: Final = re.compile(r"\b([45]\d\d)\b")


def result_of(end: Answered) -> TurnResult:
    """What the last answer says of the turn.

    Raises:
        HarnessError: the gateway let nothing through, or Pi was stopped: another attempt goes on where it stopped.
        ModelCallFailed: the provider failed in a way that may pass: the same.
    """
    if end.stop == "aborted":
        raise HarnessError(harness="Pi", reason="its turn was stopped")
    if end.stop != "error":
        if end.stop == "length":
            return TurnResult("failed", end.text, "the model's answer reached the limit of its length")
        return TurnResult("done", end.text)
    if REFUSED in end.error:
        raise HarnessError(harness="Pi", reason=end.error[:500])
    status = _status(end.error)
    if status is None or is_passing(status):
        raise ModelCallFailed(status=status or "with half an answer", reason=end.error[:500])
    return TurnResult("failed", end.text, end.error)


def _status(error: str) -> int | None:
    """The provider's HTTP status in what Pi says of a failure."""
    named = _STATUS.search(error[:200])
    return int(named[1]) if named else None
