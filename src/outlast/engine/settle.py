"""The end of a turn: no call is left open, and the reason stands in the log."""

from collections.abc import Sequence

from outlast.adapter import TurnResult
from outlast.clock import Clock
from outlast.codec import Packer, to_json
from outlast.engine.effects import as_unicode
from outlast.errors import BadPayload
from outlast.fold import CallState, TurnState
from outlast.records import AnyRecord, CallOutcome, Payload, TurnSettled
from outlast.records.kinds import OutcomeStatus
from outlast.recovery import (
    CANCELLED,
    CANCELLED_IN_DOUBT,
    IN_DOUBT,
    NEVER_BEGAN,
    NOT_COMPLETED,
    compensation_of,
    doubt_text,
)

NOT_AWAITED = "The turn ended before what this call waited for came."


def closing_records(
    turn: TurnState, end: TurnResult | None, packer: Packer, clock: Clock
) -> Sequence[AnyRecord]:
    """What settles `turn`: an outcome for each call still open, then `turn_settled`.

    Args:
        end: how the harness ended it; None when it was cancelled.
    """
    outcomes = [
        _close(state, compensation_of(turn, state.intent.call), end, packer, clock)
        for state in turn.open_calls()
    ]
    if end is None:
        return [
            *outcomes,
            TurnSettled(turn.turn, "cancelled", usage=turn.usage, at_s=clock.now(), began_s=turn.at_s),
        ]
    result, error = _result(end, packer)
    text = as_unicode(error)
    return [*outcomes, TurnSettled(turn.turn, end.status, result, text, turn.usage, clock.now(), turn.at_s)]


def _result(end: TurnResult, packer: Packer) -> tuple[Payload, str]:
    try:
        return packer.text(to_json(end.result, what="the turn's result")), end.error
    except BadPayload as error:
        return Payload(), f"{end.error} {error}".strip()


def _close(
    state: CallState, compensation: CallState | None, end: TurnResult | None, packer: Packer, clock: Clock
) -> CallOutcome:
    intent = state.intent
    status: OutcomeStatus
    if intent.kind == "wait" and intent.harness_id:
        status, text = "cancelled" if end is None else "interrupted", NOT_AWAITED
    elif intent.kind != "tool":
        status, text = "cancelled", ""
    elif not state.begun:
        status, text = ("cancelled", CANCELLED) if end is None else ("interrupted", NEVER_BEGAN)
    elif intent.policy == "safe":
        status, text = "cancelled" if end is None else "interrupted", NOT_COMPLETED
    else:
        text = doubt_text(compensation, otherwise=CANCELLED_IN_DOUBT if end is None else IN_DOUBT)
        status = "in_doubt"
    result = packer.payload(text, what="the outcome") if text else Payload()
    return CallOutcome(intent.call, intent.turn, status, result, intent.lane, at_s=clock.now())
