"""What an application says about schedules: when a prompt is to come, and which stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from outlast.codec import canonical, read_input
from outlast.errors import BadInput
from outlast.ids import digest
from outlast.records import Payload, Schedule, Unschedule
from outlast.records.agenda import Missed, Overlap
from outlast.schedules import fault_of, first_due
from outlast.state import SessionState
from outlast.world import World


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule as it stands."""

    id: str
    prompt: Payload
    due_s: float
    """Unix time at which it comes next."""
    every_s: float = 0.0
    cron: str = ""
    zone: str = ""
    overlap: Overlap = "queue"
    missed: Missed = "once"
    seen: bool = True
    """A worker has it in the log; until then it waits in the inbox, and wakes the session when one looks."""


def wanted_of(  # noqa: PLR0913 - one for each way to say when
    name: str,
    text: str,
    now_s: float,
    *,
    at: datetime | float | None,
    every: timedelta | float | None,
    cron: str | None,
    zone: str,
    overlap: Overlap,
    missed: Missed,
) -> Schedule:
    """The schedule that is asked for.

    Raises:
        BadInput: it can never be kept.
    """
    if isinstance(at, datetime) and at.tzinfo is None:
        raise BadInput(detail="A schedule's time needs its time zone: at=datetime(…, tzinfo=…).")
    wanted = Schedule(
        name,
        text,
        at_s=at.timestamp() if isinstance(at, datetime) else float(at or 0.0),
        every_s=every.total_seconds() if isinstance(every, timedelta) else float(every or 0.0),
        cron=cron or "",
        zone=zone,
        overlap=overlap,
        missed=missed,
        sent_at_s=now_s,
    )
    fault = fault_of(wanted)
    if fault:
        raise BadInput(detail=f"The schedule {name!r} cannot be kept: {fault}.")
    return wanted


def content_of(wanted: Schedule) -> str:
    """What makes two schedules the same, whenever they were sent."""
    return canonical(msgspec.to_builtins(msgspec.structs.replace(wanted, sent_at_s=0.0))).decode()


def once_id(wanted: Schedule) -> str:
    """The id of the input for a prompt that comes once: the same for the same, also when it has come long since."""
    return f"schedule-{wanted.name}-{digest(content_of(wanted).encode())}"


async def plans(world: World, session: str, state: SessionState) -> Sequence[Planned]:
    """The schedules of a session, the next to come first: those in its log and those that wait in its inbox."""
    found = {
        name: Planned(
            name,
            one.set.prompt,
            one.due_s,
            one.set.every_s,
            one.set.cron,
            one.set.zone,
            one.set.overlap,
            one.set.missed,
        )
        for name, one in state.schedules.items()
    }
    for new in await world.inputs(session):
        value = read_input(new.body)
        if isinstance(value, Unschedule):
            found.pop(value.name, None)
        elif isinstance(value, Schedule) and not fault_of(value):
            found[value.name] = _waiting(value)
    return sorted(found.values(), key=lambda one: (one.due_s, one.id))


def _waiting(value: Schedule) -> Planned:
    prompt = Payload(msgspec.Raw(msgspec.json.encode(value.text)))
    return Planned(
        value.name,
        prompt,
        first_due(value, value.sent_at_s),
        value.every_s,
        value.cron,
        value.zone,
        value.overlap,
        value.missed,
        seen=False,
    )
