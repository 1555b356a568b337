"""What the end of a turn in OpenCode means: it is done, it has failed, or another attempt may do better."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapter import TurnResult, is_passing
from outlast.adapters.at_terminal import INTERRUPTED
from outlast.adapters.program import REFUSED
from outlast.adapters.shapes import as_object, as_objects
from outlast.errors import HarnessError, ModelCallFailed

ABORTED: Final = "MessageAbortedError"
"""The name of the error of what its user, or we, have stopped."""


def result_of(message: Mapping[str, Any]) -> TurnResult:
    """What the last message says of the turn.

    Raises:
        HarnessError: the gateway let nothing through, or OpenCode stopped by itself: another attempt goes on.
        ModelCallFailed: the provider failed in a way that may pass: the same.
    """
    info = as_object(message.get("info"))
    texts = [
        str(part.get("text", "")) for part in as_objects(message.get("parts")) if part.get("type") == "text"
    ]
    error = as_object(info.get("error"))
    if info.get("role") != "assistant":
        raise HarnessError(harness="OpenCode", reason="it ended the turn without an answer")
    if not error:
        return TurnResult("done", "".join(texts))
    data = as_object(error.get("data"))
    said = str(data.get("message") or error.get("name") or "it says no reason")
    if REFUSED in said or REFUSED in str(data.get("responseBody", "")):
        raise HarnessError(harness="OpenCode", reason=said[:500])
    if error.get("name") == ABORTED:
        raise HarnessError(harness="OpenCode", reason=f"the turn was aborted: {said[:300]}")
    status = data.get("statusCode")
    if error.get("name") == "APIError" and (not isinstance(status, int) or is_passing(status)):
        raise ModelCallFailed(status=status or "with half an answer", reason=said[:500])
    return TurnResult("failed", "".join(texts), said)


def failed_by(status: Mapping[str, Any]) -> ModelCallFailed:
    """The failure after which OpenCode would ask its provider again by itself: outlast does, in another attempt."""
    return ModelCallFailed(status="with a failure that may pass", reason=str(status.get("message", ""))[:500])


def typed_end(message: Mapping[str, Any], error: str) -> TurnResult:
    """How a turn has ended that was typed at a terminal, where another attempt cannot go on with it.

    Args:
        message: the conversation's last.
        error: why OpenCode came to an end, if not by itself nor by its user.
    """
    info = as_object(message.get("info"))
    texts = [
        str(part.get("text", "")) for part in as_objects(message.get("parts")) if part.get("type") == "text"
    ]
    found = as_object(info.get("error"))
    if info.get("role") == "assistant" and not found and info.get("finish") not in {None, "", "tool-calls"}:
        return TurnResult("done", "".join(texts))
    said = as_object(found.get("data")).get("message") or found.get("name")
    if not found or found.get("name") == ABORTED:
        said = error or INTERRUPTED
    return TurnResult("failed", "".join(texts), str(said))
