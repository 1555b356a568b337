"""What the end of a turn in Codex means: it is done, it has failed, or another attempt may do better."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapter import TurnResult, is_passing
from outlast.adapters.program import REFUSED
from outlast.adapters.shapes import Json, as_object, as_objects
from outlast.errors import HarnessError, ModelCallFailed

_PASSES: Final[Mapping[str, int]] = {
    "flexUnavailable": 503,
    "internalServerError": 500,
    "rateLimitExceeded": 429,
    "serverOverloaded": 529,
}
"""What Codex calls failures that may pass, where it names no status."""
_BROKEN: Final = frozenset(
    {
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    }
)
_DISCONNECTED: Final = "stream disconnected before completion"
"""How Codex says that an answer broke off; it has no name for that."""
_CUT: Final = "with half an answer"


def result_of(turn: Json, said: str) -> TurnResult:
    """What the end of a turn says of it.

    Args:
        turn: as `turn/completed` gives it.
        said: the last message of the model.

    Raises:
        HarnessError: the gateway let nothing through, or Codex stopped by itself: another attempt goes on where this
            one stopped.
        ModelCallFailed: the provider failed in a way that may pass: the same.
    """
    status = turn.get("status")
    if status == "completed":
        texts = [
            str(item.get("text", ""))
            for item in as_objects(turn.get("items"))
            if item.get("type") == "agentMessage"
        ]
        return TurnResult("done", texts[-1] if texts else said)
    error = as_object(turn.get("error"))
    text = " ".join(
        part for part in (str(error.get("message") or ""), str(error.get("additionalDetails") or "")) if part
    )
    if status != "failed":
        raise HarnessError(harness="Codex", reason=f"the turn was {status} within it. {text}".strip())
    if REFUSED in text:
        raise HarnessError(harness="Codex", reason=text[:500])
    passing = _CUT if text.startswith(_DISCONNECTED) else _passing(error.get("codexErrorInfo"))
    if passing is not None:
        raise ModelCallFailed(status=passing, reason=text[:500])
    return TurnResult("failed", said, text or "it failed")


def _passing(info: Any) -> int | str | None:
    """The status of a failure that may pass, or words where there is none; None of one that will not pass."""
    if isinstance(info, str):
        return _PASSES.get(info)
    name, about = next(iter(as_object(info).items()), ("", None))
    if name not in _BROKEN:
        return None
    status = as_object(about).get("httpStatusCode")
    if not isinstance(status, int):
        return _CUT
    return status if is_passing(status) else None
