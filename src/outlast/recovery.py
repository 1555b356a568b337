"""Pure: open intents, policies and what the adapter can do, to a plan.

Finished calls are not here: they are read back, never run. For each open call of the turn the plan says one thing:

* a model call is asked again; what it showed is void;
* what a loop waits for is waited for again, when the loop comes there;
* a tool call that a person decided to have run again runs again;
* a tool call that was granted and not let go has not begun: it may run, whatever its policy; nor has one whose tool
  said that its last try had no effect;
* else the stricter of its recorded policy and today's decides: `safe` runs again, `keyed` runs again under its key
  while that is honoured, `verify` is asked about first, everything else is in doubt;
* a call in doubt whose tool names a compensation is compensated, at once or when a person says so. From the intent of
  that on the call itself is never run nor asked about again, unless a person says so: the compensation is a call with
  a policy of its own, and its end decides. Ended well, the call is settled with it; else it is in doubt as it was, and
  is not compensated again but on a person's word.

A call of the harness's that was asked about and had no effect is like one that had not begun.

Calls that the harness itself runs can be run again only as far as the adapter is able to. The rest of a batch is
answered with "not completed, call again" where a new call does no harm: it had not begun, or it is `safe`. A `keyed`
one is in doubt, since a new call has a new key. So is the rest of a batch answered of which the harness runs a call
unasked: it would, were it given the answer once more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.fold import CallState, TurnState
from outlast.records import CallIntent
from outlast.records.kinds import OnDoubt, Policy

STRICTNESS: Final[dict[Policy, int]] = {"safe": 0, "keyed": 1, "verify": 2, "never": 3}

IN_DOUBT: Final = (
    "It is not known whether this call took effect: the process that ran it was lost after it had begun and before its "
    "result was recorded. It may already have happened, in full or in part. Check what is there before you rely on it, "
    "and do not simply call it again."
)
NOT_COMPLETED: Final = (
    "interrupted - not completed, call again. This call had no effect that matters; it may be repeated."
)
NEVER_BEGAN: Final = (
    "interrupted - not completed, call again. This call had not begun when the process was lost."
)
DECIDED_AGAIN: Final = (
    "interrupted - not completed, call again. A person has looked: it had no effect, or may be repeated."
)
COMPENSATED: Final = (
    "It is not known whether this call took effect: the process that ran it was lost after it had begun and before its "
    "result was recorded. Therefore it was compensated: {name} ran as a call of its own and ended well{said}. Take "
    "this call as not done; make it again only if it is still wanted."
)
NOT_COMPENSATED: Final = " It was to be compensated, but {name} ended as {status}{said}."
NOT_DONE: Final = (
    "interrupted - not completed, call again. The process that ran it was lost, and it was found since that this call "
    "had no effect."
)
CANCELLED: Final = "This call was cancelled before it began."
CANCELLED_IN_DOUBT: Final = (
    "The turn was cancelled while this call ran. It may have taken effect, in full or in part. "
    "Check before you rely on it."
)


@dataclass(frozen=True, slots=True)
class Declared:
    """What today's code says of a tool."""

    policy: Policy
    on_doubt: OnDoubt = "tell"
    key_ttl_s: float = 0.0
    """How long the outside honours a key, from the intent on; 0 for ever."""
    compensate: str = ""
    """The name of its compensation, if it has one."""
    unasked: bool = False
    """The harness runs it as soon as it is given the answer that asks for it."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an adapter can do about the calls of an interrupted batch."""

    can_rerun: Literal["none", "one", "all"] = "all"
    """How many calls that the harness runs itself it can be made to run again without asking the model."""
    waits: bool = False
    """It can be stopped while one of its tool calls waits, and told the result when it is started again: it is offered
    `outlast.offers`."""
    program: bool = False
    """It starts a program of the machine in the workspace, which must hold some, unless it can do without tools of its
    own (`outlast.offering`)."""
    attachments: frozenset[str] = frozenset()
    """Media types of the files that may come with a prompt; `text/*` stands for all texts. A turn with another fails
    before it begins."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Send the same model request again; tell watchers to drop what it showed."""

    call: int


@dataclass(frozen=True, slots=True)
class Run:
    """Let the call run: it never began, or may run again."""

    call: int
    again: bool


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask the tool whether it took effect. Where it cannot tell, `doubt_of` says what follows."""

    call: int
    on_doubt: OnDoubt
    compensate: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Nobody can know: tell the model or ask a person."""

    call: int
    on_doubt: OnDoubt
    compensate: str = ""
    """The compensation that a person may choose."""


@dataclass(frozen=True, slots=True)
class Compensate:
    """Make the call good by another, and settle it if that ends well. Else it is in doubt."""

    call: int
    on_doubt: OnDoubt
    compensate: str
    by: int = 0
    """The compensation, if it was begun; 0 where its intent is still to be written."""
    own: "Step | None" = None
    """What to do about that first, if it is open."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Answer the call with a text that lets the model call it again."""

    call: int
    text: str


Step: TypeAlias = AskAgain | Run | Verify | Doubt | Interrupt | Compensate
Found: TypeAlias = Mapping[int, Literal["not_done", "unsure"]]
"""By call, what was found of open calls that the harness runs, in this attempt."""
Declare: TypeAlias = Callable[[CallIntent], Declared | None]


_NOTHING: Final[Found] = {}


def stricter(recorded: Policy, declared: Policy) -> Policy:
    """The policy that allows less: never > verify > keyed > safe."""
    return recorded if STRICTNESS[recorded] >= STRICTNESS[declared] else declared


def plan(
    turn: TurnState, declare: Declare, abilities: Abilities, now_s: float, found: Found = _NOTHING
) -> Sequence[Step]:
    """What to do about each open call of `turn`, in order of the calls.

    Args:
        declare: what today's code says of the tool of an intent; None for a tool that is gone, which counts as `never`.
        now_s: Unix time, for keys that are honoured for a while only.
        found: of calls with a `Verify` in the plan before, which have been asked about since and are open still.
    """
    steps: list[Step] = []
    runs: list[tuple[bool, int, Step]] = []
    closed = _not_given_again(turn, declare)
    for call in turn.open_calls():
        if call.intent.kind in {"wait", "value"}:
            continue  # the loop comes to it again
        if call.intent.compensates in turn.calls and turn.calls[call.intent.compensates].open:
            continue  # it goes with the call that it compensates
        made_good = _made_good(turn, call, declare, now_s)
        step, otherwise = (
            (made_good, made_good) if made_good is not None else _step(call, declare, now_s, found)
        )
        if isinstance(step, Run) and call.intent.call in closed:
            step = otherwise
        elif isinstance(step, Run) and _is_limited(call.intent):
            if call.intent.spawns and _acted(turn, call):
                otherwise = Doubt(call.intent.call, "tell")
            runs.append((not call.intent.spawns, len(steps), otherwise))
        steps.append(step)
    runs.sort(key=lambda run: run[:2])
    for _, at, otherwise in runs[{"none": 0, "one": 1, "all": len(runs)}[abilities.can_rerun] :]:
        steps[at] = otherwise
    return steps


def _is_limited(intent: CallIntent) -> bool:
    """Whether running the call again takes the harness's ability to do so.

    Calls of a sub-agent do not: they come again with the call that began it. Such a call goes before others (see
    `plan`), since finished work hangs on it.
    """
    return _runs_in_it(intent) and not intent.lane.startswith("sub")


def _runs_in_it(intent: CallIntent) -> bool:
    return intent.kind == "tool" and intent.runs_in == "harness"


def _not_given_again(turn: TurnState, declare: Declare) -> set[int]:
    """Open calls of the harness's beside one, open or not, that it runs unasked."""
    calls = [call.intent for call in turn.calls.values() if call.intent.asked_by and _runs_in_it(call.intent)]
    left = {intent.asked_by for intent in calls if turn.calls[intent.call].open}
    batches = [intent for intent in calls if intent.asked_by in left]
    declared = {intent.call: declare(intent) for intent in batches}
    unasked = {intent.call for intent in batches if (said := declared[intent.call]) and said.unasked}
    closed = {turn.calls[call].intent.asked_by for call in unasked}
    return {intent.call for intent in batches if intent.asked_by in closed} - unasked


def _acted(turn: TurnState, call: CallState) -> bool:
    """Whether the sub-agent of `call` has let something begin that may not simply be done again."""
    calls = turn.calls.values()
    lanes = {one.intent.lane for one in calls if one.intent.asked_by == call.intent.call}
    return any(one.intent.lane in lanes and one.intent.policy != "safe" and one.started for one in calls)


def compensation_of(turn: TurnState, call: int) -> CallState | None:
    """The newest compensation of a call that was begun."""
    found = (one for one in reversed(turn.calls.values()) if one.intent.compensates == call)
    return next(found, None)


def doubt_of(call: int, on_doubt: OnDoubt, compensate: str) -> Doubt | Compensate:
    """What follows where nobody can know, and nothing has been done about it."""
    told = on_doubt == "tell" and compensate
    return Compensate(call, on_doubt, compensate) if told else Doubt(call, on_doubt, compensate)


def doubt_text(compensation: CallState | None, said: str = "", otherwise: str = IN_DOUBT) -> str:
    """What the model reads of a call in doubt.

    Args:
        compensation: of that call, if one was begun.
        said: how it ended, as the model reads it.
        otherwise: what is said of a call that nothing was done about.
    """
    if compensation is None:
        return otherwise
    name, outcome = compensation.intent.name, compensation.outcome
    so = f": {said}" if said else ""
    if outcome is not None and outcome.status == "ok":
        return COMPENSATED.format(name=name, said=so)
    unended = "in_doubt" if compensation.begun else "cancelled"
    status = unended if outcome is None else outcome.status
    return otherwise + NOT_COMPENSATED.format(name=name, status=status.replace("_", " "), said=so)


def _step(call: CallState, declare: Declare, now_s: float, found: Found = _NOTHING) -> tuple[Step, Step]:
    """What to do about one call, and what to do instead where it would have to run and cannot."""
    intent = call.intent
    if intent.kind == "model":
        ask = AskAgain(intent.call)
        return ask, ask
    if _decided(call) == "run_again":
        return Run(intent.call, again=True), Interrupt(intent.call, DECIDED_AGAIN)
    if not call.begun:
        return Run(intent.call, again=False), Interrupt(intent.call, NEVER_BEGAN)
    declared = declare(intent) or Declared("never")
    on_doubt = _on_doubt(intent, declared)
    doubt = doubt_of(intent.call, on_doubt, declared.compensate)
    match stricter(intent.policy, declared.policy):
        case "safe":
            return Run(intent.call, again=True), Interrupt(intent.call, NOT_COMPLETED)
        case "keyed" if _honoured(intent, declared, now_s):
            return Run(intent.call, again=True), doubt
        case "verify" if found.get(intent.call) == "not_done":
            return Run(intent.call, again=True), Interrupt(intent.call, NOT_DONE)
        case "verify" if intent.call not in found:
            return Verify(intent.call, on_doubt, declared.compensate), doubt
        case _:
            return doubt, doubt


def _made_good(turn: TurnState, call: CallState, declare: Declare, now_s: float) -> Step | None:
    """What to do about a call that is compensated, or is to be by a person's word; None of any other."""
    intent, compensation = call.intent, compensation_of(turn, call.intent.call)
    if intent.kind != "tool" or _decided(call) == "run_again":
        return None
    declared = declare(intent) or Declared("never")
    on_doubt = _on_doubt(intent, declared)
    if _decided(call) == "compensate" and declared.compensate:
        return Compensate(intent.call, on_doubt, declared.compensate)
    if compensation is None:
        return None
    by, outcome = compensation.intent, compensation.outcome
    if outcome is None:
        own, _ = _step(compensation, declare, now_s)
        return Compensate(intent.call, on_doubt, by.name, by.call, own)
    if outcome.status == "ok":
        return Compensate(intent.call, on_doubt, by.name, by.call)
    return Doubt(intent.call, on_doubt, declared.compensate)


def _decided(call: CallState) -> str:
    return "" if call.decided is None else call.decided.ruling


def _on_doubt(intent: CallIntent, declared: Declared) -> OnDoubt:
    return "ask" if "ask" in {intent.on_doubt, declared.on_doubt} else "tell"


def _honoured(intent: CallIntent, declared: Declared, now_s: float) -> bool:
    """Whether the outside still knows the key: by what was said when the call began, and by what is said today."""
    until_s = [intent.key_until_s, intent.at_s + declared.key_ttl_s if declared.key_ttl_s else 0.0]
    return all(not limit_s or now_s < limit_s for limit_s in until_s)
