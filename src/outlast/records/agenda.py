"""Records of what a session does by itself: whom it tells, which prompts come when. Their order stands in `kinds`."""

from typing import Literal, TypeAlias

from outlast.records.kinds import Record
from outlast.records.payload import Payload

NoticeEvent: TypeAlias = Literal["settled", "parked", "waiting"]
NoticeTo: TypeAlias = Literal["notifier", "collector"]
"""Who is told how a turn stands, or who is sent the trace of one that is settled."""
Overlap: TypeAlias = Literal["queue", "skip"]
"""A scheduled prompt that comes while a turn is open waits behind it, one at most, or is left out."""
Missed: TypeAlias = Literal["once", "skip"]
"""Of times that passed while nobody looked, the newest counts, late, or none does."""


class NoticeDue(Record, frozen=True, tag="notice_due"):
    """Somebody outside is to be told of a record of this commit: how a turn ended, or what it waits for."""

    number: int
    """Dense from 1 within the session."""
    turn: int
    event: NoticeEvent
    status: str = ""
    """Of a settled turn how it ended, of a parked one why, of a waiting one for what."""
    at_s: float = 0.0
    calls: tuple[int, ...] = ()
    """The waits that are told of."""
    to: NoticeTo = "notifier"
    since: int = 0
    """For the collector: number of a commit behind which the whole turn stands."""


class NoticeTried(Record, frozen=True, tag="notice_tried"):
    """Somebody was told, or could not be: tried again at `again_at_s`, given up where that is 0."""

    number: int
    ok: bool = False
    error: str = ""
    again_at_s: float = 0.0
    at_s: float = 0.0


class Scheduled(Record, frozen=True, tag="scheduled"):
    """A prompt is to be queued at a time, or again and again; this commit consumes its input.

    It replaces the schedule of that name. One of `every_s` and `cron`, or neither: then it comes once.
    """

    name: str
    input: str
    prompt: Payload
    due_s: float
    """Unix time at which it comes next."""
    every_s: float = 0.0
    cron: str = ""
    zone: str = ""
    """In which `cron` is meant, a name of the IANA database; empty for UTC."""
    overlap: Overlap = "queue"
    missed: Missed = "once"
    at_s: float = 0.0


class ScheduleCame(Record, frozen=True, tag="schedule_came"):
    """A schedule's time came: its prompt follows as `prompt_queued`, unless it was skipped."""

    name: str
    due_s: float
    """The time that came; of several that passed unseen the newest."""
    next_s: float = 0.0
    """When it comes next; 0 never."""
    skipped: str = ""
    """Why no prompt follows."""
    at_s: float = 0.0


class Unscheduled(Record, frozen=True, tag="unscheduled"):
    """A schedule comes no more; this commit consumes the input that said so."""

    name: str
    input: str
    """Empty: a fork leaves it to its source."""
