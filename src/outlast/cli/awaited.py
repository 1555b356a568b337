"""What an open turn waits for, and the command that brings each of it about."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from outlast import awaited
from outlast.cli.text import plain
from outlast.fold import SessionState
from outlast.records.kinds import Ruling
from outlast.session import Session

RESULT, WHY = "RESULT", "WHY"
_WAYS: Final[Mapping[Ruling, str]] = {
    "done": f"--done {RESULT}",
    "run_again": "--run-again",
    "failed": f"--failed {WHY}",
    "compensate": "--compensate",
    "allow": "--allow",
    "deny": f"--deny {WHY}",
}


class Awaited(awaited.Awaited, frozen=True):
    """One thing that would let the turn go on."""

    commands: Sequence[str] = ()
    """What to type, one for each way out; words in capitals are to be filled in."""


async def awaited_by(session: Session, state: SessionState) -> list[Awaited]:
    """Everything that the open turn waits for: what only a person can do first."""
    return [_told(session.id, one) for one in await awaited.awaited_by(session, state)]


def wait_of(session: str, call: int, about: object, until_s: float = 0.0, child: str = "") -> Awaited:
    """What an open wait waits for; `about` is the value of its arguments, `child` the session that it spawned."""
    return _told(session, awaited.wait_of(call, about, until_s, child))


def _told(session: str, one: awaited.Awaited) -> Awaited:
    facts = {name: getattr(one, name) for name in one.__struct_fields__}
    return Awaited(**facts, commands=_commands(session, one))


def _commands(session: str, one: awaited.Awaited) -> Sequence[str]:
    match one.what:
        case "person":
            return (f"outlast retry {session}", f"outlast cancel {session}")
        case "decision":
            return decisions(session, one.call, one.rulings)
        case "answer":
            begun = f"outlast decide {session} {one.call}"
            return [f"{begun} --answer {quoted(choice)}" for choice in one.choices] or [
                f"{begun} --answer ANSWER"
            ]
        case "signal":
            return [f"outlast signal {session} {quoted(one.signal)} --value JSON"]
        case "child":
            return [f"outlast show {one.child}"]
        case "time":
            return ()


def decisions(session: str, call: int, rulings: Sequence[Ruling]) -> list[str]:
    """The ways to decide about a call."""
    ways = [_WAYS[ruling] for ruling in rulings] + (["--allow --for-turn"] if "allow" in rulings else [])
    return [f"outlast decide {session} {call} {way}" for way in ways]


def doubts(session: str, call: int, *, compensation: bool) -> list[str]:
    """The ways to decide about a call in doubt."""
    return decisions(
        session, call, ("done", "run_again", "failed", *(("compensate",) if compensation else ()))
    )


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
