"""The third gate: what the worker says when the extension asks whether a call may run."""

from typing import Final

from outlast.adapter import Attempt

NOT_STARTED: Final = "This call may not run: the log does not say that it has begun in this attempt."


def lets_run(attempt: Attempt, call: str) -> bool:
    """Whether the log says that this attempt let a call begin, by its id; the application's run in the worker."""
    intent = attempt.calls.intent_of(call)
    if intent is None:
        return False
    state = attempt.turn.calls[intent.call]
    return intent.runs_in == "worker" or (state.open and state.started == attempt.fence)
