"""What comes from outside into the inbox.

A worker that is given an input of a kind, or with a field, that it does not know leaves it for a newer one: it may not
act on half of what was said. So a kind or a field that is added raises `FORMAT`, as with records.
"""

from typing import Any, TypeAlias

import msgspec

from outlast.records.agenda import Missed, Overlap
from outlast.records.edits import AnyEdit
from outlast.records.kinds import Ruling, TurnStatus
from outlast.records.payload import Attached, Usage


class Input(
    msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Common base of all inputs: frozen, tagged, defaults left out of the text, unknown fields refused."""


class Prompt(Input, frozen=True, tag="prompt"):
    """Begin a turn with this text; queued behind a turn that runs, if it is not `alone`."""

    text: str
    sent_at_s: float = 0.0
    alone: bool = False
    """It is refused where another turn is open or waits."""
    traceparent: str = ""
    """Of whoever asked, as W3C Trace Context has it: the turn is a part of that trace. Empty: it is one of its own."""
    attachments: tuple[Attached, ...] = ()
    """Of format 2. The input names their blobs."""


class Steer(Input, frozen=True, tag="steer"):
    """Tell the running turn something; it becomes the next prompt if its turn never takes it."""

    text: str
    turn: int | None = None
    sent_at_s: float = 0.0


class Cancel(Input, frozen=True, tag="cancel"):
    """End this turn. A cancel that names another turn than the open one changes nothing."""

    turn: int
    reason: str = ""
    sent_at_s: float = 0.0


class Signal(Input, frozen=True, tag="signal"):
    """What a wait for `name` waits for. One that nobody waits for yet is kept until somebody does."""

    name: str
    value: Any = None
    sent_at_s: float = 0.0
    failed: bool = False
    """What is waited for came to nothing, and `value` says why: the wait ends as an error."""


class Decision(Input, frozen=True, tag="decision"):
    """A person's word about a call that is in doubt or asks; about any other call it changes nothing."""

    call: int
    ruling: Ruling
    value: Any = None
    """With `done` the result of the call, with `failed` the text of its error."""
    by: str = ""
    sent_at_s: float = 0.0
    for_turn: bool = False
    """With `allow`: the same call may also run again in the turn."""
    ask: str = ""
    """Which asking about the call is meant (`outlast.engine.rulings.ask_of`); empty: whichever stands."""


class Retry(Input, frozen=True, tag="retry"):
    """Let a turn that is parked go on, its recovery budget whole again."""

    turn: int
    by: str = ""
    sent_at_s: float = 0.0


class Schedule(Input, frozen=True, tag="schedule"):
    """Queue this text as a prompt at a time, or again and again; replaces the schedule of that name."""

    name: str
    text: str
    at_s: float = 0.0
    """Unix time at which it comes first, or the only time; 0: as `every_s` or `cron` says, from when it was sent."""
    every_s: float = 0.0
    cron: str = ""
    zone: str = ""
    overlap: Overlap = "queue"
    missed: Missed = "once"
    sent_at_s: float = 0.0


class Unschedule(Input, frozen=True, tag="unschedule"):
    """The schedule of this name comes no more."""

    name: str
    sent_at_s: float = 0.0


class Edit(Input, frozen=True, tag="edit"):
    """Edit a document, all or nothing: it is applied or rejected, and either stands in the log under the input's id."""

    name: str
    edits: tuple[AnyEdit, ...]
    if_version: int | None = None
    """Only if this is the version of the document; 0 when it must not be there yet."""
    by: str = ""
    sent_at_s: float = 0.0


class Report(Input, frozen=True, tag="report"):
    """How the turn of a spawned session ended: the end of the call that spawned it, and of nothing else."""

    call: int
    child: str
    status: TurnStatus
    value: Any = None
    error: str = ""
    usage: Usage | None = None
    sent_at_s: float = 0.0


class Recall(Input, frozen=True, tag="recall"):
    """The prompt that came as the input `prompt` is not wanted any more: end its turn, or never begin it."""

    prompt: str
    sent_at_s: float = 0.0


AnyInput: TypeAlias = (
    Prompt | Steer | Cancel | Signal | Decision | Retry | Schedule | Unschedule | Edit | Report | Recall
)
