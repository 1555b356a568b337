"""What an open turn waits for, and the command that brings each of it about."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from outlast.cli.text import arguments_text, moment, plain, short
from outlast.engine.rulings import asked_about, compensation_offered, in_doubt, is_question
from outlast.fold import CallState, SessionState, TurnState
from outlast.recovery import compensation_of
from outlast.session import Session

What: TypeAlias = Literal["decision", "answer", "signal", "time", "child", "person"]
"""A word about a call in doubt · an answer · a signal · a moment · a session that it spawned · somebody who looks at a
turn that is parked."""
RESULT, WHY = "RESULT", "WHY"


@dataclass(frozen=True, slots=True)
class Awaited:
    """One thing that would let the turn go on."""

    what: What
    text: str
    """A line about it."""
    commands: Sequence[str] = ()
    """What to type, one for each way out; words in capitals are to be filled in."""
    call: int = 0
    """The call that waits; 0 where the turn does."""
    choices: Sequence[str] = ()
    """Of a question."""
    signal: str = ""
    child: str = ""
    """The session that it spawned."""
    until_s: float = 0.0
    """Unix time at which the wait ends by itself; 0 never."""


async def awaited_by(session: Session, state: SessionState) -> list[Awaited]:
    """Everything that the open turn waits for: what only a person can do first."""
    turn = state.turn
    if turn is None:
        return []
    waits = [call for call in turn.open_calls() if call.intent.kind == "wait"]
    found = [_parked(session.id, turn)] if turn.parked is not None and turn.parked.why != "decision" else []
    found += [_doubt(session.id, turn, call) for call in in_doubt(turn)]
    found += [_asked(session.id, turn, call) for call in asked_about(turn)]
    for call in sorted(waits, key=is_question, reverse=True):
        intent = call.intent
        about = await session.value(intent.arguments)
        found.append(wait_of(session.id, intent.call, about, intent.until_s, intent.child))
    return found


def _parked(session: str, turn: TurnState) -> Awaited:
    why = "" if turn.parked is None else turn.parked.why
    stands = "has used up a budget" if why == "budget" else f"is {why}"
    text = f"turn {turn.turn} {stands} and waits for you"
    return Awaited("person", text, (f"outlast retry {session}", f"outlast cancel {session}"))


def _doubt(session: str, turn: TurnState, call: CallState) -> Awaited:
    intent = call.intent
    name = f"{short(intent.name, 40)} {arguments_text(intent.arguments)}".strip()
    text = f"call {intent.call} is in doubt, it may have run: {name}"
    if intent.compensates:
        text += f" (it compensates call {intent.compensates})"
    offered, tried = compensation_offered(turn, call), compensation_of(turn, intent.call)
    if tried is not None and tried.outcome is not None:
        status = tried.outcome.status.replace("_", " ")
        text += f" (its compensation, call {tried.intent.call}, ended as {status})"
    elif offered:
        text += f" (it can be compensated by {short(offered, 40)})"
    commands = decisions(session, intent.call, compensation=bool(offered))
    return Awaited("decision", text, commands, intent.call)


def _asked(session: str, turn: TurnState, call: CallState) -> Awaited:
    intent = call.intent
    name = f"{short(intent.name, 40)} {arguments_text(intent.arguments)}".strip()
    whys: dict[str, str] = {} if turn.parked is None else turn.parked.evidence.get("why", {})
    why = whys.get(str(intent.call), "")
    text = f"call {intent.call} wants to be allowed: {name}{f' ({short(why, 200)})' if why else ''}"
    return Awaited("decision", text, permissions(session, intent.call), intent.call)


def permissions(session: str, call: int) -> list[str]:
    """The ways to decide about a call that a rule wants asked about."""
    begun = f"outlast decide {session} {call}"
    return [f"{begun} --allow", f"{begun} --deny {WHY}", f"{begun} --allow --for-turn"]


def decisions(session: str, call: int, *, compensation: bool) -> list[str]:
    """The ways to decide about a call in doubt."""
    begun = f"outlast decide {session} {call}"
    ways = [f"{begun} --done {RESULT}", f"{begun} --run-again", f"{begun} --failed {WHY}"]
    return [*ways, f"{begun} --compensate"] if compensation else ways


def wait_of(session: str, call: int, about: object, until_s: float = 0.0, child: str = "") -> Awaited:
    """What an open wait waits for; `about` is the value of its arguments, `child` the session that it spawned."""
    given = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    until = f", until {moment(until_s)}" if until_s else ""
    if child:
        text = f"waits for {short(str(given.get('agent', '')), 40)} in the session {child}{until}"
        return Awaited("child", text, [f"outlast show {child}"], call, child=child, until_s=until_s)
    if "question" in given:
        return _question(session, call, given, until_s, until)
    if given.get("signal"):
        return _signal(session, call, str(given["signal"]), until_s, until)
    return Awaited("time", f"sleeps{until}", (), call, until_s=until_s)


def _signal(session: str, call: int, name: str, until_s: float, until: str) -> Awaited:
    text = f"waits for the signal {short(name)}{until}"
    command = f"outlast signal {session} {quoted(name)} --value JSON"
    return Awaited("signal", text, [command], call, signal=name, until_s=until_s)


def _question(session: str, call: int, about: Mapping[str, Any], until_s: float, until: str) -> Awaited:
    choices = [str(choice) for choice in about.get("choices") or ()]
    asked = short(str(about.get("question", "")), 500)
    among = f" ({short(' · '.join(choices), 200)})" if choices else ""
    begun = f"outlast decide {session} {call}"
    commands = [f"{begun} --answer {quoted(choice)}" for choice in choices] or [f"{begun} --answer ANSWER"]
    text = f"call {call} asks: {asked}{among}{until}"
    return Awaited("answer", text, commands, call, choices, until_s=until_s)


def quoted(word: str) -> str:
    """`word` as a shell takes it, on one line."""
    return shlex.quote(plain(word))


def brief(session: str, found: Sequence[Awaited]) -> str:
    """For a list of sessions: the first of them, and what to type."""
    if not found:
        return ""
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    ways = first.commands if len(first.commands) < 2 and not more else (f"outlast show {session}",)
    return ": ".join([first.text + more, *ways])


def lines_of(found: Sequence[Awaited]) -> list[str]:
    """All of them for people, each command on a line of its own."""
    lines: list[str] = []
    for one in found:
        lines += [one.text[:1].upper() + one.text[1:], *(f"  {command}" for command in one.commands)]
    return lines
