"""A person's word about a call, taken where it is still asked for: it counts once, and a stale one never."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast.awaited import Awaited, awaited_by
from outlast.errors import BadInput, InputConflict, NotFound, Refused
from outlast.records.kinds import Ruling
from outlast.session import Session

FIRST = "Another decision about call {call} of {session} was given first. It counts, this one does not."
STALE = (
    "Call {call} of {session} waits for no such decision any more: {stands}. Look at what it waits for now."
)


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says about a call."""

    ruling: Ruling
    value: Any = None
    """With `done` the result or the answer; with `failed` and `deny` the reason, a text."""
    by: str = ""
    for_turn: bool = False
    ask: str = ""
    """Which asking is meant (`Awaited.ask`): refused where another stands. Empty: whichever stands."""
    id: str | None = None
    """The caller's own; the same id and content again is the same decision, also when it has counted since."""


async def decide(session: Session, call: int, word: Word) -> str:
    """Decide about a call that is in doubt, that wants to be allowed, or that asks. Durable. Returns the id.

    Raises:
        NotFound: the session has no such call.
        BadInput: it is no word that the call waits for.
        Refused: the call waits for no word, or for one about another asking, or another word came first.
        InputConflict: the id was used with another content.
    """
    # What was accepted once is what it was, whichever asking stands now.
    if word.id is not None and await session.world.find_input(session.id, word.id) is not None:
        return await _put(session, call, word, word.id)
    state = await session.state()
    if not 0 < call < state.next_call:
        raise NotFound(detail=f"Session {session.id} has no call {call}.")
    found = _asked(await awaited_by(session, state), call)
    if found is None or (word.ask and word.ask != found.ask):
        stands = "it is settled, decided, or not asked about" if found is None else "it is asked about anew"
        raise Refused(detail=STALE.format(call=call, session=session.id, stands=stands))
    _check_fits(found, word)
    # One id for each time that it is asked about: of decisions that are given at once, the World takes one.
    try:
        return await _put(session, call, word, word.id or f"decide-{found.ask}", found.ask)
    except InputConflict:
        if word.id is not None:
            raise
        raise Refused(detail=FIRST.format(call=call, session=session.id)) from None


async def _put(session: Session, call: int, word: Word, input_id: str, ask: str = "") -> str:
    return await session.decide(
        call, word.ruling, word.value, by=word.by, for_turn=word.for_turn, ask=ask, id=input_id
    )


def _asked(awaits: Sequence[Awaited], call: int) -> Awaited | None:
    return next((one for one in awaits if one.call == call and one.rulings), None)


def _check_fits(found: Awaited, word: Word) -> None:
    """Raises BadInput: it is no word that the call waits for."""
    if word.ruling not in found.rulings:
        raise BadInput(
            detail=f"Call {found.call} waits for one of {', '.join(found.rulings)}, not for {word.ruling}."
        )
    if word.ruling in {"failed", "deny"} and not isinstance(word.value, str | None):
        raise BadInput(detail=f"With {word.ruling!r} the value is the reason: a text.")
    if found.choices and word.ruling == "done" and word.value not in found.choices:
        raise BadInput(detail=f"The value is none of the answers: {', '.join(found.choices)}.")
    if word.for_turn and word.ruling != "allow":
        raise BadInput(detail="`for_turn` goes with 'allow'.")
