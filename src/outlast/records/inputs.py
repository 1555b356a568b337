"""What comes from outside into the inbox.

A worker that is given an input of a kind, or with a field, that it does not know leaves it for a newer one: it may not
act on half of what was said. So a kind or a field that is added raises `FORMAT`, as with records.
"""

from typing import Any, TypeAlias

import msgspec

from outlast.records.agenda import Missed, Overlap
from outlast.records.edits import AnyEdit
from outlast.records.kinds import Ruling, TurnStatus
from outlast.records.payload import Usage


class Prompt(
    msgspec.Struct,
    frozen=True,
    tag="prompt",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Begin a turn with this text; queued behind a turn that runs, if it is not `alone`."""

    text: str
    sent_at_s: float = 0.0
    alone: bool = False
    """It is refused where another turn is open or waits."""


class Steer(
    msgspec.Struct, frozen=True, tag="steer", tag_field="kind", omit_defaults=True, forbid_unknown_fields=True
):
    """Tell the running turn something; it becomes the next prompt if its turn never takes it."""

    text: str
    turn: int | None = None
    sent_at_s: float = 0.0


class Cancel(
    msgspec.Struct,
    frozen=True,
    tag="cancel",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """End this turn. A cancel that names another turn than the open one changes nothing."""

    turn: int
    reason: str = ""
    sent_at_s: float = 0.0


class Signal(
    msgspec.Struct,
    frozen=True,
    tag="signal",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What a wait for `name` waits for. One that nobody waits for yet is kept until somebody does."""

    name: str
    value: Any = None
    sent_at_s: float = 0.0
    failed: bool = False
    """What is waited for came to nothing, and `value` says why: the wait ends as an error."""


class Decision(
    msgspec.Struct,
    frozen=True,
    tag="decision",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A person's word about a call that is in doubt or asks; about any other call it changes nothing."""

    call: int
    ruling: Ruling
    value: Any = None
    """With `done` the result of the call, with `failed` the text of its error."""
    by: str = ""
    sent_at_s: float = 0.0
    for_turn: bool = False
    """With `allow`: the same call may also run again in the turn."""


class Retry(
    msgspec.Struct, frozen=True, tag="retry", tag_field="kind", omit_defaults=True, forbid_unknown_fields=True
):
    """Let a turn that is parked go on, its recovery budget whole again."""

    turn: int
    by: str = ""
    sent_at_s: float = 0.0


class Schedule(
    msgspec.Struct,
    frozen=True,
    tag="schedule",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
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


class Unschedule(
    msgspec.Struct,
    frozen=True,
    tag="unschedule",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The schedule of this name comes no more."""

    name: str
    sent_at_s: float = 0.0


class Edit(
    msgspec.Struct, frozen=True, tag="edit", tag_field="kind", omit_defaults=True, forbid_unknown_fields=True
):
    """Edit a document, all or nothing: it is applied or rejected, and either stands in the log under the input's id."""

    name: str
    edits: tuple[AnyEdit, ...]
    if_version: int | None = None
    """Only if this is the version of the document; 0 when it must not be there yet."""
    by: str = ""
    sent_at_s: float = 0.0


class Report(
    msgspec.Struct,
    frozen=True,
    tag="report",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """How the turn of a spawned session ended: the end of the call that spawned it, and of nothing else."""

    call: int
    child: str
    status: TurnStatus
    value: Any = None
    error: str = ""
    usage: Usage | None = None
    sent_at_s: float = 0.0


class Recall(
    msgspec.Struct,
    frozen=True,
    tag="recall",
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The prompt that came as the input `prompt` is not wanted any more: end its turn, or never begin it."""

    prompt: str
    sent_at_s: float = 0.0


AnyInput: TypeAlias = (
    Prompt | Steer | Cancel | Signal | Decision | Retry | Schedule | Unschedule | Edit | Report | Recall
)
