"""What a turn waits for that only a person can say, as an editor asks its user for it.

Whatever is answered becomes a decision, which counts once: an answer that comes after another's, from the command line
or a second editor, changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, cast

from acp import schema

from outlast.adapters.shapes import as_object
from outlast.cli.acp.shown import call_id
from outlast.cli.acp.tools import changes_of, kind_of, locations_of, text_content, title_of
from outlast.cli.text import short
from outlast.engine.rulings import ask_of, asked_about, compensation_offered, in_doubt, is_question
from outlast.fold import CallState, SessionState, TurnState
from outlast.ids import new_id
from outlast.session import Session

Act: TypeAlias = Callable[[Session, str], Any]
"""Tells the session what the user chose; the text is who that is."""
CANCELLED: Final = "cancelled in the editor"


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that the user is asked."""

    id: str
    """Of the call, or of the turn that is parked, as the editor knows it."""
    call: int
    """0: it is about the turn."""
    turn: int
    title: str
    kind: schema.ToolKind = "other"
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More for `schema.ToolCallUpdate`."""
    options: Sequence[tuple[str, schema.PermissionOptionKind, Act]] = ()
    """What can be chosen. Empty: the answer is a text, and the user's next prompt is it."""

    def choices(self) -> list[schema.PermissionOption]:
        """As the editor offers them."""
        return [
            schema.PermissionOption(option_id=str(at), name=name, kind=kind)
            for at, (name, kind, _) in enumerate(self.options)
        ]

    def tool_call(self) -> schema.ToolCallUpdate:
        """What it is about, as the editor shows it."""
        return schema.ToolCallUpdate(
            tool_call_id=self.id, title=self.title, kind=self.kind, status="pending", **self.about
        )

    def act(self, option_id: str) -> Act | None:
        """What an answer of the editor means; None: it is none of ours."""
        known = {str(at): act for at, (_, _, act) in enumerate(self.options)}
        return known.get(option_id)


async def questions_of(session: Session, state: SessionState) -> list[Question]:
    """Everything that the open turn waits for from a person."""
    turn = state.turn
    if turn is None:
        return []
    cwd = "" if state.opened is None else state.opened.cwd
    found: list[Question] = []
    if turn.parked is not None and turn.parked.why not in {"decision", "signal"}:
        found.append(_parked(turn))
    for call in turn.open_calls():
        about = await session.value(call.intent.arguments)
        if is_question(call):
            found.append(_asked(turn, call, about))
        elif call in asked_about(turn):
            found.append(_permission(turn, call, about, cwd))
        elif call in in_doubt(turn):
            found.append(_doubt(turn, call, about, cwd))
    return found


def _permission(turn: TurnState, call: CallState, about: object, cwd: str) -> Question:
    whys: Mapping[str, str] = {} if turn.parked is None else turn.parked.evidence.get("why", {})
    why, asked = whys.get(str(call.intent.call), ""), ask_of(turn, call)
    options: Sequence[tuple[str, schema.PermissionOptionKind, Act]] = (
        ("Allow", "allow_once", partial(_decide, call.intent.call, asked, "allow")),
        (
            "Allow the same call in this turn",
            "allow_always",
            partial(_decide, call.intent.call, asked, "allow", for_turn=True),
        ),
        ("Deny", "reject_once", partial(_decide, call.intent.call, asked, "deny")),
    )
    return _about_call(turn, call, about, cwd, why, options)


def _doubt(turn: TurnState, call: CallState, about: object, cwd: str) -> Question:
    number, asked = call.intent.call, ask_of(turn, call)
    offered = compensation_offered(turn, call)
    options: list[tuple[str, schema.PermissionOptionKind, Act]] = [
        ("It took effect", "allow_once", partial(_decide, number, asked, "done")),
        ("It did not: run it again", "allow_once", partial(_decide, number, asked, "run_again")),
        ("It failed", "reject_once", partial(_decide, number, asked, "failed")),
    ]
    if offered:
        options.append(
            (
                f"Make it good by {short(offered, 40)}",
                "reject_once",
                partial(_decide, number, asked, "compensate"),
            )
        )
    said = "The worker was lost while this call ran: it may have taken effect. Look, then say what happened."
    return _about_call(turn, call, about, cwd, said, options)


def _about_call(
    turn: TurnState,
    call: CallState,
    about: object,
    cwd: str,
    said: str,
    options: Sequence[tuple[str, schema.PermissionOptionKind, Act]],
) -> Question:
    name = call.intent.name
    more = {
        "content": [*changes_of(name, about, cwd), *text_content(said)],
        "locations": locations_of(about, cwd),
        "raw_input": about,
    }
    return Question(
        call_id(call.intent.call),
        call.intent.call,
        turn.turn,
        title_of(name, about),
        kind_of(name),
        more,
        options,
    )


def _asked(turn: TurnState, call: CallState, about: object) -> Question:
    given, asked = as_object(about), ask_of(turn, call)
    choices = [str(choice) for choice in given.get("choices") or ()]
    options = [
        (short(choice, 100), "allow_once", partial(_decide, call.intent.call, asked, "done", value=choice))
        for choice in choices
    ]
    title = str(given.get("question", ""))
    return Question(
        call_id(call.intent.call),
        call.intent.call,
        turn.turn,
        title,
        about={"raw_input": about},
        options=cast("Sequence[tuple[str, schema.PermissionOptionKind, Act]]", options),
    )


def _parked(turn: TurnState) -> Question:
    parked = turn.parked
    assert parked is not None
    stands = "has used up a budget" if parked.why == "budget" else f"is {parked.why}"
    options: Sequence[tuple[str, schema.PermissionOptionKind, Act]] = (
        ("Let it go on", "allow_once", partial(_retry, turn.turn)),
        ("Cancel it", "reject_once", partial(_cancel, turn.turn)),
    )
    evidence = "\n".join(f"{name}: {short(str(value), 300)}" for name, value in parked.evidence.items())
    more = {"content": text_content(evidence)}
    return Question(f"turn-{turn.turn}", 0, turn.turn, f"The turn {stands}", "other", more, options)


async def _decide(
    call: int,
    asked: str,
    ruling: str,
    session: Session,
    by: str,
    *,
    value: object = None,
    for_turn: bool = False,
) -> None:
    own_id = new_id("decide")
    await session.decide(call, cast("Any", ruling), value, by=by, for_turn=for_turn, ask=asked, id=own_id)


async def _retry(turn: int, session: Session, by: str) -> None:
    await session.retry(turn, by=by, id=new_id("retry"))


async def _cancel(turn: int, session: Session, by: str) -> None:
    await session.cancel(turn, reason=f"{CANCELLED} by {by}")
