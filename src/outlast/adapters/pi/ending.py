"""What the end of a turn in Pi means: it is done, it has failed, or another attempt may do better.

Pi ends well, whatever has happened: only its last answer tells.
"""

from outlast.adapter import TurnResult
from outlast.adapters.pi.stream import Answered
from outlast.adapters.program import REFUSED
from outlast.errors import HarnessError


def result_of(end: Answered, *, refused: bool) -> TurnResult:
    """What the last answer says of the turn.

    Args:
        refused: the provider has refused the last request. Of a refusal that may pass the gateway has ended the
            attempt already, so this one stands.

    Raises:
        HarnessError: the gateway let nothing through, or Pi stopped or failed by itself: another attempt goes on where
            it did.
    """
    if end.stop == "aborted":
        raise HarnessError(harness="Pi", reason="its turn was stopped")
    if end.stop != "error":
        if end.stop == "length":
            return TurnResult("failed", end.text, "the model's answer reached the limit of its length")
        return TurnResult("done", end.text)
    if refused and REFUSED not in end.error:
        return TurnResult("failed", end.text, end.error)
    raise HarnessError(harness="Pi", reason=end.error[:500])
