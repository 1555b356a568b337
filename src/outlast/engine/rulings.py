"""What a person decided about a call in doubt, a question, a turn that is parked.

Each word counts once, and a stale one never.
"""

from collections.abc import Sequence

from outlast.codec import Packer
from outlast.fold import CallState, SessionState, TurnState
from outlast.records import AnyRecord, CallOutcome, Decided, Decision, Retry, TurnReleased

FAILED = "A person decided that this call failed."


def rule(
    state: SessionState, input_id: str, word: Decision | Retry, packer: Packer, now_s: float
) -> Sequence[AnyRecord] | str:
    """The records of a person's word, or why it changes nothing.

    A parked turn is let go once nothing that it is parked for waits for a decision any more.
    """
    turn = state.turn
    if turn is None:
        return "no turn is open"
    if isinstance(word, Retry):
        return _retry(turn, word)
    call = turn.calls.get(word.call)
    if call is None or not _waits(turn, call):
        return f"call {word.call} does not wait for a decision"
    decided = Decided(turn.turn, word.call, word.ruling, input_id, word.by, now_s)
    records: list[AnyRecord] = [decided]
    if word.ruling != "run_again":
        records.append(_outcome(call, word, packer, now_s))
    elif call.intent.kind == "wait":
        return f"call {word.call} is a question: it is answered, not run again"
    left = [other for other in _in_doubt(turn) if other is not call]
    if turn.parked is not None and turn.parked.why == "decision" and not left:
        records.append(TurnReleased(turn.turn, word.by))
    return records


def _retry(turn: TurnState, word: Retry) -> Sequence[AnyRecord] | str:
    if turn.turn != word.turn or turn.parked is None:
        return f"turn {word.turn} is not parked"
    if _in_doubt(turn):
        return f"turn {word.turn} waits for a decision about its calls"
    return [TurnReleased(turn.turn, word.by)]


def _waits(turn: TurnState, call: CallState) -> bool:
    asks = call.open and call.intent.kind == "wait" and call.intent.name == "person"
    return asks or call in _in_doubt(turn)


def _in_doubt(turn: TurnState) -> list[CallState]:
    """The calls that the turn is parked for and nobody has decided about."""
    if turn.parked is None or turn.parked.why != "decision":
        return []
    named = {int(call) for call in turn.parked.evidence.get("in_doubt", ())}
    return [call for call in turn.open_calls() if call.intent.call in named and call.decided is None]


def _outcome(call: CallState, word: Decision, packer: Packer, now_s: float) -> CallOutcome:
    intent = call.intent
    done = word.ruling == "done"
    value = word.value if done else word.value or FAILED
    result = packer.payload(value, what="the decision")
    return CallOutcome(intent.call, intent.turn, "ok" if done else "error", result, intent.lane, at_s=now_s)
