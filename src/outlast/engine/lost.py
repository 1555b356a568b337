"""Tells the model what calls have changed that the workspace does not hold any more.

Files that are written down when a turn ends, or never, can be older than the log: the machine that they were on is
gone, and what it is made of anew is from before. Then calls are in the log, with results that the model has read, whose
changes are nowhere. Invariants:

* Each such call is named to the model once, with what is known of what it changed, before it is asked anything new.
* Whether there are such is found out from the log and the place alone (`outlast.behind.Holds`): whoever dies before
  that is written down leaves it to the next attempt, and after that it is not said again.
* Behind which result it stands is in the record: every later request has it there, byte for byte.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlast.calls import MAIN
from outlast.fold import TurnState
from outlast.records import FilesLost, LostCall, Touched

if TYPE_CHECKING:  # it calls what is here when a workspace is open
    from outlast.engine.context import Context

ABOUT: Final = 120
"""Characters of an argument."""
PATHS: Final = 20
TOLD: Final = 100
"""Calls that are told one by one."""
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path")
_ABOUT: Final = ("command", "cmd", *_PATHS, "patchText", "input", "patch")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
LOST: Final = (
    "[outlast] The workspace was lost and made anew: its files are as they were {since}. What these calls have changed "
    "in it is not there any more:\n{calls}\nWhatever else they did stands. Look what is there, and do again what is "
    "still wanted."
)


def touched(arguments: Mapping[str, Any], paths: Sequence[str], *, more: bool) -> Touched:
    """What a call of the worker's may have changed.

    Args:
        paths: what it has written or removed.
        more: it ran a command.
    """
    return Touched(_about(arguments), tuple(paths[:PATHS]), more or len(paths) > PATHS)


def touched_by(arguments: Mapping[str, Any]) -> Touched:
    """What a call that the harness ran may have changed, by its arguments: a tool that is given a path changes that."""
    command = any(isinstance(arguments.get(name), (str, list)) for name in ("command", "cmd"))
    paths = [] if command else [arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)]
    texts = (value for value in arguments.values() if isinstance(value, str) and "*** Begin Patch" in value)
    paths += [found.strip() for text in texts for found in _PATCHED.findall(text)]
    return Touched(_about(arguments), tuple(paths[:PATHS]), not paths or len(paths) > PATHS)


def _about(arguments: Mapping[str, Any]) -> str:
    value = next((arguments[name] for name in _ABOUT if arguments.get(name)), arguments)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= ABOUT else f"{line[:ABOUT]}…"


async def tell_lost(context: "Context") -> None:
    """Write down which calls' changes are gone, and where the model is told. Durable."""
    state, turn = context.writer.state, context.turn
    gone = context.files.gone(state.behind.unkept)
    if not gone:
        return
    calls = tuple(one.call for one in gone)
    past = state.behind.past
    record = FilesLost(
        turn.turn, calls, past, lost_text(calls, past, _since(context)), _bearer(turn), context.clock.now()
    )
    await context.write(record)


def _since(context: "Context") -> str:
    tree = context.writer.state.tree
    return f"when they were last written down, in turn {tree.turn}" if tree.turn else "at first"


def _bearer(turn: TurnState) -> int:
    """The call behind whose result the model of a program is told: the last one of an answer that none has come after.

    So no request changes that was answered. 0 where there is none, as in a loop, which has its own conversation.
    """
    calls = turn.calls.values()
    answered = [
        call.intent.call
        for call in calls
        if (call.intent.kind, call.intent.lane, call.intent.runs_in) == ("model", MAIN, "provider")
        and call.outcome is not None
        and call.outcome.status == "ok"
    ]
    asked = [
        call.intent.call
        for call in calls
        if call.intent.harness_id and answered[-1:] == [call.intent.asked_by]
    ]
    return asked[-1] if asked else 0


def lost_text(calls: Sequence[LostCall], past: int, since: str) -> str:
    """What the model reads.

    Args:
        past: calls before these, which nobody has noted one by one.
        since: when the files were as they are now.
    """
    return LOST.format(since=since, calls="\n".join(_lines(calls, past)))


def _lines(calls: Sequence[LostCall], past: int) -> Iterator[str]:
    before = past + max(0, len(calls) - TOLD)
    if before:
        yield f"- {before:,} calls before these"
    for one in calls[-TOLD:]:
        known = ", ".join(one.touched.paths)
        what = f"{known}, and whatever else it changed" if one.touched.more else known
        yield f"- {one.name} {one.touched.about}: {what if known else 'whatever it changed'}"
