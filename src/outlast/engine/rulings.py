"""What a person decided about a call in doubt, a question, a turn that is parked.

Each word counts once, and a stale one never.
"""

from collections.abc import Sequence

from outlast.codec import Packer
from outlast.engine.waits import asks_person
from outlast.fold import CallState, SessionState, TurnState
from outlast.records import AnyRecord, CallOutcome, Decided, Decision, Retry, TurnReleased
from outlast.records.kinds import Ruling
from outlast.recovery import compensation_of

FAILED = "A person decided that this call failed."
NOT_ALLOWED = "A person did not allow this call. It did not run."


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
        return _retry(turn, word, now_s)
    call = turn.calls.get(word.call)
    wanted: set[Ruling] = set() if call is None else wanted_of(turn, call)
    if call is None or not wanted:
        return f"call {word.call} does not wait for a decision"
    if word.ask and word.ask != ask_of(turn, call):
        return f"call {word.call} is asked about anew since"
    if word.ruling not in wanted:
        return f"call {word.call} waits for one of {', '.join(sorted(wanted))}, not for {word.ruling}"
    for_turn = word.for_turn and word.ruling == "allow"
    records: list[AnyRecord] = [
        Decided(turn.turn, word.call, word.ruling, input_id, word.by, now_s, for_turn)
    ]
    if word.ruling not in {"run_again", "allow", "compensate"}:
        records.append(_outcome(call, word, packer, now_s))
    left = [other for other in (*in_doubt(turn), *asked_about(turn)) if other is not call]
    if turn.parked is not None and turn.parked.why == "decision" and not left:
        records.append(TurnReleased(turn.turn, word.by, now_s, renews=False))
    return records


def _retry(turn: TurnState, word: Retry, now_s: float) -> Sequence[AnyRecord] | str:
    if turn.turn != word.turn or turn.parked is None:
        return f"turn {word.turn} is not parked"
    if in_doubt(turn) or asked_about(turn):
        return f"turn {word.turn} waits for a decision about its calls"
    return [TurnReleased(turn.turn, word.by, now_s)]


def ask_of(turn: TurnState, call: CallState) -> str:
    """Which asking about a call stands: another for each time that it is in doubt."""
    tried = compensation_of(turn, call.intent.call)
    return f"{call.intent.call}-{call.started}{'' if tried is None else f'-{tried.intent.call}'}"


def wanted_of(turn: TurnState, call: CallState) -> set[Ruling]:
    """What a person may say about a call; nothing if it waits for no word."""
    if call.open and is_question(call):
        return {"done", "failed"}
    if call in asked_about(turn):
        return {"allow", "deny"}
    if call not in in_doubt(turn):
        return set()
    return {"done", "run_again", "failed", *(["compensate"] if compensation_offered(turn, call) else [])}


def compensation_offered(turn: TurnState, call: CallState) -> str:
    """The name of the compensation that a person may choose for a call in doubt; empty where it has none."""
    offered: dict[str, str] = {} if turn.parked is None else turn.parked.evidence.get("compensate", {})
    return offered.get(str(call.intent.call), "")


def undecided(turn: TurnState) -> list[CallState]:
    """The calls that a person's word can settle now: questions, and what the turn is parked for."""
    questions = [call for call in turn.open_calls() if is_question(call)]
    return [*questions, *in_doubt(turn), *asked_about(turn)]


def is_question(call: CallState) -> bool:
    """Whether the call asks a person, answered or not."""
    return asks_person(call.intent)


def in_doubt(turn: TurnState) -> list[CallState]:
    """The calls of which nobody knows whether they took effect, and about which nobody has decided."""
    return _parked_for(turn, "in_doubt")


def asked_about(turn: TurnState) -> list[CallState]:
    """The calls that a rule wants a person to allow, and about which nobody has decided."""
    return _parked_for(turn, "asks")


def _parked_for(turn: TurnState, why: str) -> list[CallState]:
    if turn.parked is None or turn.parked.why != "decision":
        return []
    named = {int(call) for call in turn.parked.evidence.get(why, ())}
    return [call for call in turn.open_calls() if call.intent.call in named and call.decided is None]


def _outcome(call: CallState, word: Decision, packer: Packer, now_s: float) -> CallOutcome:
    intent = call.intent
    done = word.ruling == "done"
    value = word.value if done else word.value or (NOT_ALLOWED if word.ruling == "deny" else FAILED)
    result = packer.payload(value, what="the decision")
    return CallOutcome(intent.call, intent.turn, "ok" if done else "error", result, intent.lane, at_s=now_s)
