"""Which prompts come by themselves, and when."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from outlast.planning import Planned
from outlast.records import Payload
from outlast.records.agenda import Missed, Overlap
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.server.routes.inputs import Text
from outlast.server.routes.sessions import Word, session_of

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt that comes at a time, or again and again: one of `at_s`, `every_s` and `cron`."""

    text: Text
    at_s: Seconds | None = None
    """Unix time."""
    every_s: Seconds | None = None
    cron: Word | None = None
    """Minute, hour, day of the month, month, day of the week."""
    zone: Word = ""
    """Of `cron`, as `Europe/Berlin`; empty: UTC."""
    overlap: Overlap = "queue"
    missed: Missed = "once"


class Scheduled(msgspec.Struct, frozen=True):
    """A schedule as it stands."""

    name: str
    prompt: Payload
    due_s: float
    """Unix time at which it comes next."""
    every_s: float
    cron: str
    zone: str
    overlap: Overlap
    missed: Missed
    seen: bool
    """A worker has it in the log."""


class Schedules(msgspec.Struct, frozen=True):
    """The schedules of a session, the next to come first."""

    schedules: list[Scheduled]


async def list_schedules(call: Call[Nothing, Nothing]) -> Schedules:
    """List the schedules of a session."""
    found = await (await session_of(call)).schedules()
    return Schedules([_view(one) for one in found])


async def set_schedule(call: Call[Schedule, Nothing]) -> Schedules:
    """Set a schedule, in place of the one of that name."""
    session, body = await session_of(call), call.body
    await session.schedule(
        body.text,
        at=body.at_s,
        every=body.every_s,
        cron=body.cron,
        zone=body.zone,
        overlap=body.overlap,
        missed=body.missed,
        id=call.path["name"],
    )
    await call.services.woken(call.identity.tenant, session.id)
    return Schedules([_view(one) for one in await session.schedules()])


async def remove_schedule(call: Call[Nothing, Nothing]) -> None:
    """Let a schedule come no more; one that is not there changes nothing."""
    session = await session_of(call)
    await session.unschedule(call.path["name"])
    await call.services.woken(call.identity.tenant, session.id)


def _view(one: Planned) -> Scheduled:
    return Scheduled(
        one.id,
        one.prompt,
        one.due_s,
        one.every_s,
        one.cron,
        one.zone,
        one.overlap,
        one.missed,
        one.seen,
    )


_SCHEDULES: Final = "/v1/sessions/{session}/schedules"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", _SCHEDULES, list_schedules, Scope.READ, Schedules),
    Operation("PUT", f"{_SCHEDULES}/{{name}}", set_schedule, Scope.WRITE, Schedules, body=Schedule),
    Operation("DELETE", f"{_SCHEDULES}/{{name}}", remove_schedule, Scope.WRITE),
)
