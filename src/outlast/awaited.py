"""What an open turn waits for, and what is known about each of it: whoever decides reads this first."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from outlast.engine.rulings import (
    ask_of,
    asked_about,
    compensation_offered,
    in_doubt,
    is_question,
    wanted_of,
)
from outlast.fold import CallState, SessionState, TurnState
from outlast.records import Payload
from outlast.records.kinds import Policy, Ruling
from outlast.records.payload import EMPTY
from outlast.recovery import compensation_of
from outlast.session import Session
from outlast.wording import arguments_text, moment, short

What: TypeAlias = Literal["decision", "answer", "signal", "time", "child", "person"]
"""A word about a call in doubt, or that wants to be allowed · an answer · a signal · a moment · a session that it
spawned · somebody who looks at a turn that is parked."""
ORDER: tuple[Ruling, ...] = ("done", "run_again", "failed", "compensate", "allow", "deny")


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the log knows of a call that a person is asked about."""

    name: str
    arguments: Payload = EMPTY
    """What would happen, or may have."""
    policy: Policy = "never"
    lane: str = ""
    asked_at_s: float = 0.0
    """When its intent was written."""
    begun: bool = False
    """Its effect may have happened: it was let go in the attempt `started`."""
    started: int = 0
    why: str = ""
    """Of a rule that wants it asked about: its reason."""
    verdict: str = ""
    """What its tool's own check said, and the note it left."""
    note: str = ""
    witness: Payload = EMPTY
    """What was noted when it was let go, to tell later whether it took effect."""
    compensation: str = ""
    """The tool that would make it good."""
    compensates: int = 0
    """The call that it makes good itself."""
    compensated_by: int = 0
    """The call that was to make it good, and how that ended."""
    compensated: str = ""


class Awaited(msgspec.Struct, frozen=True):
    """One thing that would let the turn go on."""

    what: What
    text: str
    """A line about it."""
    call: int = 0
    """The call that waits; 0 where the turn does."""
    ask: str = ""
    """Which asking this is: a call that is asked about again is another. A decision names it, and is refused as stale
    where it stands no more."""
    rulings: tuple[Ruling, ...] = ()
    """What may be decided."""
    choices: tuple[str, ...] = ()
    """Of a question: its answers, if not any will do."""
    signal: str = ""
    child: str = ""
    """The session that it spawned."""
    until_s: float = 0.0
    """Unix time at which the wait ends by itself; 0 never."""
    known: Known | None = None
    """Of a call that is in doubt or wants to be allowed."""
    why: str = ""
    """Of a turn that is parked: stuck, diverged, budget, signal; and the evidence."""
    evidence: dict[str, Any] = {}


async def awaited_by(session: Session, state: SessionState) -> list[Awaited]:
    """Everything that the open turn waits for: what only a person can do first."""
    turn = state.turn
    if turn is None:
        return []
    waits = [call for call in turn.open_calls() if call.intent.kind == "wait"]
    found = [_parked(turn)] if turn.parked is not None and turn.parked.why != "decision" else []
    found += [_doubt(turn, call) for call in in_doubt(turn)]
    found += [_asked(turn, call) for call in asked_about(turn)]
    for call in sorted(waits, key=is_question, reverse=True):
        intent = call.intent
        about = await session.value(intent.arguments)
        one = wait_of(intent.call, about, intent.until_s, intent.child)
        if is_question(call):
            one = msgspec.structs.replace(one, ask=ask_of(turn, call), rulings=_rulings(turn, call))
        found.append(one)
    return found


def _rulings(turn: TurnState, call: CallState) -> tuple[Ruling, ...]:
    wanted = wanted_of(turn, call)
    return tuple(ruling for ruling in ORDER if ruling in wanted)


def _parked(turn: TurnState) -> Awaited:
    parked = turn.parked
    why = "" if parked is None else parked.why
    stands = "has used up a budget" if why == "budget" else f"is {why}"
    text = f"turn {turn.turn} {stands} and waits for you"
    return Awaited("person", text, why=why, evidence={} if parked is None else parked.evidence)


def _doubt(turn: TurnState, call: CallState) -> Awaited:
    intent, known = call.intent, _known(turn, call)
    text = f"call {intent.call} is in doubt, it may have run: {_named(call)}"
    if known.compensates:
        text += f" (it compensates call {known.compensates})"
    if known.compensated:
        status = known.compensated.replace("_", " ")
        text += f" (its compensation, call {known.compensated_by}, ended as {status})"
    elif known.compensation:
        text += f" (it can be compensated by {short(known.compensation, 40)})"
    return Awaited(
        "decision", text, intent.call, ask_of(turn, call), rulings=_rulings(turn, call), known=known
    )


def _asked(turn: TurnState, call: CallState) -> Awaited:
    intent, known = call.intent, _known(turn, call)
    why = f" ({short(known.why, 200)})" if known.why else ""
    text = f"call {intent.call} wants to be allowed: {_named(call)}{why}"
    return Awaited(
        "decision", text, intent.call, ask_of(turn, call), rulings=_rulings(turn, call), known=known
    )


def _named(call: CallState) -> str:
    return f"{short(call.intent.name, 40)} {arguments_text(call.intent.arguments)}".strip()


def _known(turn: TurnState, call: CallState) -> Known:
    intent, verdict = call.intent, call.verdict
    tried = compensation_of(turn, intent.call)
    whys: dict[str, str] = {} if turn.parked is None else turn.parked.evidence.get("why", {})
    return Known(
        intent.name,
        intent.arguments,
        intent.policy,
        intent.lane,
        intent.at_s,
        call.begun,
        call.started,
        whys.get(str(intent.call), ""),
        "" if verdict is None else verdict.verdict,
        "" if verdict is None else verdict.note,
        call.witness,
        compensation_offered(turn, call),
        intent.compensates,
        0 if tried is None else tried.intent.call,
        "" if tried is None or tried.outcome is None else tried.outcome.status,
    )


def wait_of(call: int, about: object, until_s: float = 0.0, child: str = "") -> Awaited:
    """What an open wait waits for; `about` is the value of its arguments, `child` the session that it spawned."""
    given = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    end = f", until {moment(until_s)}" if until_s else ""
    if child:
        text = f"waits for {short(str(given.get('agent', '')), 40)} in the session {child}{end}"
        return Awaited("child", text, call, child=child, until_s=until_s)
    if "question" in given:
        return _question(call, given, until_s, end)
    if given.get("signal"):
        name = str(given["signal"])
        return Awaited(
            "signal", f"waits for the signal {short(name)}{end}", call, signal=name, until_s=until_s
        )
    return Awaited("time", f"sleeps{end}", call, until_s=until_s)


def _question(call: int, about: Mapping[str, Any], until_s: float, end: str) -> Awaited:
    choices = tuple(str(choice) for choice in about.get("choices") or ())
    asked = short(str(about.get("question", "")), 500)
    among = f" ({short(' · '.join(choices), 200)})" if choices else ""
    return Awaited("answer", f"call {call} asks: {asked}{among}{end}", call, choices=choices, until_s=until_s)
