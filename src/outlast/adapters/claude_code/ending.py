"""What the end of a turn in Claude Code means: it is done, it has failed, or another attempt may do better."""

from typing import Final

from outlast.adapter import TurnResult, is_passing
from outlast.adapters.claude_code.stream import Finished
from outlast.adapters.program import REFUSED
from outlast.errors import HarnessError, ModelCallFailed

NO_CREDENTIAL: Final = (
    "Claude Code has no credential and asked nobody; it says: {said}. outlast lends it one in the settings on its "
    "command line: take `--settings`, or whatever else replaces them, out of the agent's flags. The key or login "
    "itself is the worker's: set ANTHROPIC_API_KEY, or log in with Claude Code once (`outlast doctor` tells which)."
)
_NOT_LOGGED_IN: Final = "authentication_failed"


def result_of(end: Finished, error: str) -> TurnResult:
    """What the last line says of the turn.

    Args:
        error: what the last message of the main conversation said of why it is no answer (`Spoken.error`).

    Raises:
        HarnessError: the gateway let nothing through: another attempt goes on where this one stopped.
        ModelCallFailed: the provider failed in a way that may pass: the same.
    """
    if end.ok:
        return TurnResult("done", end.text)
    if REFUSED in end.text:
        raise HarnessError(harness="Claude Code", reason=end.text[:500])
    if end.why == "api_error" and end.status is None and error == _NOT_LOGGED_IN:
        # A gateway that is away for a moment leaves no status either, but another error; it may be back the next time.
        return TurnResult("failed", end.text, NO_CREDENTIAL.format(said=end.text))
    if end.why == "api_error" and (end.status is None or is_passing(end.status)):
        raise ModelCallFailed(status=end.status or "with half an answer", reason=end.text[:500])
    return TurnResult("failed", end.text, end.text or end.why)
