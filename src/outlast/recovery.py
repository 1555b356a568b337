"""Pure: open intents, policies and what the adapter can do, to a plan.

Finished calls are not here: they are read back, never run. For each open call of the turn the plan says one thing:

* a model call is asked again; what it showed is void;
* what a loop waits for is waited for again, when the loop comes there;
* a tool call that a person decided to have run again runs again;
* a tool call that was granted and not let go has not begun: it may run, whatever its policy; nor has one whose tool
  said that its last try had no effect;
* else the stricter of its recorded policy and today's decides: `safe` runs again, `keyed` runs again under its key
  while that is honoured, `verify` is asked about first, everything else is in doubt.

Calls that the harness itself runs can be run again only as far as the adapter is able to. The rest of a batch is
answered with "not completed, call again" where a new call does no harm: it had not begun, or it is `safe`. A `keyed`
one is in doubt, since a new call has a new key.
"""

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an adapter can do about the calls of an interrupted batch."""

    can_rerun: Literal["none", "one", "all"] = "all"
    """How many calls that the harness runs itself it can be made to run again without asking the model."""
    waits: bool = False
    """It can be stopped while one of its tool calls waits, and told the result when it is started again: it is offered
    `outlast.offers`."""


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
    """Ask the tool whether it took effect."""

    call: int
    on_doubt: OnDoubt


@dataclass(frozen=True, slots=True)
class Doubt:
    """Nobody can know: tell the model or ask a person."""

    call: int
    on_doubt: OnDoubt


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Answer the call with a text that lets the model call it again."""

    call: int
    text: str


Step: TypeAlias = AskAgain | Run | Verify | Doubt | Interrupt
Declare: TypeAlias = Callable[[CallIntent], Declared | None]


def stricter(recorded: Policy, declared: Policy) -> Policy:
    """The policy that allows less: never > verify > keyed > safe."""
    return recorded if STRICTNESS[recorded] >= STRICTNESS[declared] else declared


def plan(turn: TurnState, declare: Declare, abilities: Abilities, now_s: float) -> Sequence[Step]:
    """What to do about each open call of `turn`, in order of the calls.

    Args:
        declare: what today's code says of the tool of an intent; None for a tool that is gone, which counts as `never`.
        now_s: Unix time, for keys that are honoured for a while only.
    """
    steps: list[Step] = []
    runs: list[tuple[bool, int, Step]] = []
    for call in turn.open_calls():
        if call.intent.kind in {"wait", "value"}:
            continue  # the loop comes to it again
        step, otherwise = _step(call, declare, now_s)
        if isinstance(step, Run) and _is_limited(call.intent):
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
    return intent.runs_in == "harness" and not intent.lane.startswith("sub")


def _acted(turn: TurnState, call: CallState) -> bool:
    """Whether the sub-agent of `call` has let something begin that may not simply be done again."""
    calls = turn.calls.values()
    lanes = {one.intent.lane for one in calls if one.intent.asked_by == call.intent.call}
    return any(one.intent.lane in lanes and one.intent.policy != "safe" and one.started for one in calls)


def _step(call: CallState, declare: Declare, now_s: float) -> tuple[Step, Step]:
    """What to do about one call, and what to do instead where it would have to run and cannot."""
    intent = call.intent
    if intent.kind == "model":
        ask = AskAgain(intent.call)
        return ask, ask
    if call.decided is not None and call.decided.ruling == "run_again":
        return Run(intent.call, again=True), Interrupt(intent.call, DECIDED_AGAIN)
    if not call.begun:
        return Run(intent.call, again=False), Interrupt(intent.call, NEVER_BEGAN)
    declared = declare(intent) or Declared("never")
    doubt = Doubt(intent.call, "ask" if "ask" in {intent.on_doubt, declared.on_doubt} else "tell")
    match stricter(intent.policy, declared.policy):
        case "safe":
            return Run(intent.call, again=True), Interrupt(intent.call, NOT_COMPLETED)
        case "keyed" if _honoured(intent, declared, now_s):
            return Run(intent.call, again=True), doubt
        case "verify":
            return Verify(intent.call, doubt.on_doubt), doubt
        case _:
            return doubt, doubt


def _honoured(intent: CallIntent, declared: Declared, now_s: float) -> bool:
    """Whether the outside still knows the key: by what was said when the call began, and by what is said today."""
    until_s = [intent.key_until_s, intent.at_s + declared.key_ttl_s if declared.key_ttl_s else 0.0]
    return all(not limit_s or now_s < limit_s for limit_s in until_s)
