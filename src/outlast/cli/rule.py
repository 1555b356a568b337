"""Commands by which a person or a program lets a turn go on: signal, decide, retry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
import msgspec

from outlast.cli.awaited import Awaited, awaited_by, brief
from outlast.cli.linking import print_link
from outlast.cli.options import SESSION, Setup, examples, given, perform, shared
from outlast.cli.text import plain
from outlast.cli.watching import inputs_of
from outlast.engine.rulings import ask_of, asked_about, in_doubt, is_question, undecided, wanted_of
from outlast.errors import BadInput, InputConflict, NotFound, Refused, TurnUnknown
from outlast.fold import CallState, SessionState, TurnState
from outlast.records import Retry
from outlast.records.kinds import Ruling
from outlast.session import Session

_SAID = {
    "done": "done",
    "run_again": "run again",
    "failed": "failed",
    "allow": "allowed",
    "deny": "denied",
    "compensate": "to be compensated",
}


@click.command(
    epilog=examples(
        "outlast signal deploy-81 ci --value '{\"green\": true}'",
        "outlast signal deploy-81 ci --value - --id run-4711 < result.json",
    )
)
@click.argument("session", type=SESSION)
@click.argument("name")
@click.option(
    "--value", metavar="JSON", help="What the wait returns; `-` reads standard input. Default: null."
)
@click.option(
    "--failed", is_flag=True, help="It failed: the wait ends as an error, with the value as the reason."
)
@click.option("--id", "input_id", help="Your own id: the same id and content again is the same signal.")
@shared
def signal(
    session: str,
    name: str,
    value: str | None,
    input_id: str | None,
    world: str | None,
    *,
    failed: bool,
    json: bool,
) -> None:
    """Tell SESSION that NAME has happened: it ends one wait for that signal, now or later.

    It is durable when this returns, and kept until something waits for it. A worker takes it up: some `outlast work`
    that runs already, or the next one.
    """

    async def body(setup: Setup) -> None:
        content = None if value is None else _strictly(given(value))
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            taken = await found.signal(name, content, failed=failed, id=input_id)
            await setup.wake(opened.tenant, session)
            waited = any(one.signal == name for one in await awaited_by(found, await found.state()))
            text = f"signalled {name} to {session} as {taken}"
            setup.say(
                {"session": session, "signal": name, "input": taken, "awaited": waited},
                text if waited else f"{text}; nothing waits for it now, it is kept",
            )

    perform(body, world=world, json=json)


@dataclass(frozen=True, slots=True)
class Word:
    """What the command line says about a call."""

    done: str | None
    answer: str | None
    run_again: bool
    failed: str | None
    allow: bool
    deny: str | None
    compensate: bool
    for_turn: bool
    by: str

    @property
    def ruling(self) -> Ruling:
        if self.compensate:
            return "compensate"
        if self.allow or self.deny is not None:
            return "allow" if self.allow else "deny"
        return "run_again" if self.run_again else "done" if self.failed is None else "failed"

    @property
    def _ways(self) -> int:
        texts = (self.done, self.answer, self.failed, self.deny)
        flags = (self.run_again, self.allow, self.compensate)
        return sum([*flags, *(text is not None for text in texts)])

    def check_empty(self) -> None:
        """Raises BadInput: it says something, which whoever has the link is to say."""
        if self._ways or self.for_turn:
            raise BadInput(detail="--link leaves the decision to whoever has it: give nothing but --by.")

    def check(self) -> None:
        """Raises BadInput: it says nothing, or more than one thing."""
        if self._ways != 1:
            ways = (
                "--done VALUE, --answer VALUE, --run-again, --failed TEXT, --compensate, --allow, --deny TEXT"
            )
            raise BadInput(detail=f"Say one of {ways}.")
        if self.for_turn and not self.allow:
            raise BadInput(detail="--for-turn goes with --allow.")


@click.command(
    epilog=examples(
        'outlast decide ticket-81 7 --done \'{"refund": "re_1"}\'',
        "outlast decide ticket-81 7 --run-again --by ann",
        "outlast decide ticket-81 9 --answer yes",
        "outlast decide ticket-81 11 --allow --for-turn",
    )
)
@click.argument("session", type=SESSION)
@click.argument("call", type=click.IntRange(1))
@click.option("--done", metavar="VALUE", help="It has happened: VALUE is its result, JSON or text.")
@click.option("--answer", metavar="VALUE", help="VALUE is the answer to its question, JSON or text.")
@click.option("--run-again", is_flag=True, help="It has not happened: run it.")
@click.option("--failed", metavar="TEXT", help="It counts as failed, or is not answered, for this reason.")
@click.option("--compensate", is_flag=True, help="Make it good: run the compensation that its tool names.")
@click.option("--allow", is_flag=True, help="It may run: this call, and no other like it.")
@click.option("--for-turn", is_flag=True, help="With --allow: the same call may also run again in this turn.")
@click.option("--deny", metavar="TEXT", help="It must not run, for this reason, which the model reads.")
@click.option("--link", is_flag=True, help="Print a signed link instead, by which somebody else decides.")
@click.option("--by", default="", help="Who decided, for the log.")
@click.option("--id", "input_id", help="Your own id: the same id and content again is the same decision.")
@shared
def decide(
    session: str,
    call: int,
    done: str | None,
    answer: str | None,
    run_again: bool,
    failed: str | None,
    compensate: bool,
    allow: bool,
    for_turn: bool,
    deny: str | None,
    link: bool,
    by: str,
    input_id: str | None,
    world: str | None,
    json: bool,
) -> None:
    """Decide about CALL of SESSION, which is in doubt or wants to be allowed, or answer what it asks.

    `outlast show` lists what waits. A decision counts once: of two the first stands. Where VALUE may be JSON, anything
    else is taken as text; `-` reads standard input. A worker carries the decision out: some `outlast work` that runs
    already, or the next one. A link (--link) holds for a day and decides once, at the server that `public_url` names.
    """
    word = Word(done, answer, run_again, failed, allow, deny, compensate, for_turn, by)

    async def body(setup: Setup) -> None:
        if link:
            word.check_empty()
            await print_link(setup, session, call, by)
            return
        word.check()
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            taken = await _decide(found, call, word, input_id)
            await setup.wake(opened.tenant, session)
            value = {"session": session, "call": call, "ruling": word.ruling, "input": taken}
            said = "answered" if word.answer is not None else _SAID[word.ruling]
            setup.say(value, f"call {call} of {session}: {said}, as {taken}; a worker carries that out")

    perform(body, world=world, json=json)


async def _decide(session: Session, call: int, word: Word, input_id: str | None) -> str:
    """Put the decision where the worker finds it. Returns its id."""
    state = await session.state()
    found = None if state.turn is None else state.turn.calls.get(call)
    awaited = await awaited_by(session, state)
    value = _value(word, [choice for one in awaited if one.call == call for choice in one.choices])
    if input_id is not None and await session.world.find_input(session.id, input_id) is not None:
        # What was accepted once is what it was, whatever has become of the call since.
        return await _put(session, call, word, value, input_id)
    if found is None or state.turn is None or found not in undecided(state.turn):
        raise _not_asked(session.id, state, call, awaited)
    _check_fits(state.turn, found, word)
    # One id for each time that it is in doubt: of decisions that are given at once, the World takes one.
    asked = ask_of(state.turn, found)
    try:
        return await _put(session, call, word, value, input_id or f"decide-{asked}", asked)
    except InputConflict:
        if input_id is not None:
            raise
        text = f"Another decision about call {call} of {session.id} was given first. It counts, this one does not."
        raise Refused(detail=text) from None


async def _put(session: Session, call: int, word: Word, value: object, input_id: str, asked: str = "") -> str:
    return await session.decide(
        call, word.ruling, value, by=word.by, for_turn=word.for_turn, ask=asked, id=input_id
    )


def _not_asked(
    session: str, state: SessionState, call: int, awaited: Sequence[Awaited]
) -> NotFound | Refused:
    """Why a decision about `call` would change nothing, and what waits instead."""
    others = [one for one in awaited if one.call != call]
    instead = brief(session, [one for one in others if one.what in {"decision", "answer", "person"}])
    hint = f"What waits: {instead}." if instead else "Nothing waits for a decision."
    if others and not instead:
        hint = f"Its turn {brief(session, others)}."
    if call >= state.next_call:
        return NotFound(detail=f"Session {session} has no call {call}. {hint}")
    found = None if state.turn is None else state.turn.calls.get(call)
    own = next((one for one in awaited if one.call == call), None)
    if own is not None:  # a wait for something else than a decision
        return Refused(detail=f"Call {call} waits for no decision: it {brief(session, [own])}. {hint}")
    return Refused(detail=f"Call {call} waits for no decision: {_stands(found)}. {hint}")


def _stands(call: CallState | None) -> str:
    if call is None:
        return "its turn is over"
    if call.outcome is not None:
        return f"it ended as {call.outcome.status.replace('_', ' ')}"
    if call.decided is not None:
        return f"it is decided already ({_SAID[call.decided.ruling]}{f' by {call.decided.by}' * bool(call.decided.by)})"
    return "it is open, and whoever advances the session settles it"


_WAYS: Final[Mapping[Ruling, str]] = {
    "done": "--done RESULT",
    "run_again": "--run-again",
    "failed": "--failed TEXT",
    "compensate": "--compensate",
    "allow": "--allow",
    "deny": "--deny TEXT",
}


def _check_fits(turn: TurnState, call: CallState, word: Word) -> None:
    """Raises BadInput: it is no word that the call waits for."""
    number, wanted = call.intent.call, wanted_of(turn, call)
    if is_question(call):
        if word.answer is None and word.failed is None:
            raise BadInput(detail=f"Call {number} is a question. Say --answer VALUE or --failed TEXT.")
    elif word.answer is not None or word.ruling not in wanted:
        kind = "wants to be allowed" if "allow" in wanted else "is no question"
        ways = [way for ruling, way in _WAYS.items() if ruling in wanted]
        raise BadInput(detail=f"Call {number} {kind}. Say {', '.join(ways[:-1])} or {ways[-1]}.")


def _value(word: Word, choices: Sequence[str]) -> Any:
    said = next((one for one in (word.failed, word.deny, word.done, word.answer) if one is not None), None)
    if said is None:
        return None
    text = given(said) if said == "-" else said
    if word.failed is not None or word.deny is not None or text in choices:
        return text
    if choices and word.answer is not None:
        raise BadInput(detail=f"{text!r} is none of the answers: {', '.join(choices)}.")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        click.echo(f"outlast: taken as text, since it is no JSON: {plain(text)}", err=True)
        return text


def _strictly(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        said = f"--value is no JSON ({error}). Text stands in quotes of its own: --value '\"green\"'"
        raise BadInput(detail=said) from None


@click.command(epilog=examples("outlast retry pricing-3f2a", "outlast retry pricing-3f2a --turn 3 --by ann"))
@click.argument("session", type=SESSION)
@click.option("--turn", type=click.IntRange(1), help="Only if this turn is the open one.")
@click.option("--by", default="", help="Who let it go on, for the log.")
@click.option("--id", "input_id", help="Your own id: repeating it changes nothing.")
@shared
def retry(
    session: str, turn: int | None, by: str, input_id: str | None, world: str | None, json: bool
) -> None:
    """Let the open turn of SESSION go on, which is stuck, diverged or over budget, its budgets whole again.

    Do so once its reason is gone: the provider is back, the code is mended. A worker carries that out.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            number = await _retry(found, turn, by, input_id)
            await setup.wake(opened.tenant, session)
            setup.say({"session": session, "turn": number}, f"turn {number} of {session} will go on")

    perform(body, world=world, json=json)


async def _retry(session: Session, turn: int | None, by: str, input_id: str | None) -> int:
    """Put the wish where the worker finds it. Returns the number of the turn."""
    if input_id is not None and turn is not None:
        known = await session.world.find_input(session.id, input_id)
        if known is not None:
            return await session.retry(turn, by=by, id=input_id)
    waiting = await inputs_of(session)  # read first: what is taken out after it stands in the log
    state = await session.state()
    if state.turn is None or turn not in {None, state.turn.turn}:
        raise TurnUnknown(session=session.id, turn="open" if turn is None else f"{turn} that is open")
    if not any(isinstance(other, Retry) and other.turn == state.turn.turn for _, other in waiting):
        await _check_parked(session, state, state.turn)
        await session.retry(state.turn.turn, by=by, id=input_id)
    return state.turn.turn


async def _check_parked(session: Session, state: SessionState, turn: TurnState) -> None:
    """Raises Refused: the turn is not stuck, diverged or over budget."""
    if turn.parked is not None and not in_doubt(turn) and not asked_about(turn):
        return
    instead = brief(session.id, await awaited_by(session, state))
    hint = f" {instead[:1].upper()}{instead[1:]}." if instead else " A worker carries it on: outlast work."
    raise Refused(detail=f"Turn {turn.turn} of {session.id} is not stuck, diverged or over budget.{hint}")
