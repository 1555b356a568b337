"""When a schedule comes, and what happens when it does: decided here, of nothing but what is given.

The rules, for every time that a schedule says:

* While no turn is open its prompt is queued at that time, once.
* While a turn is open, `overlap` decides: the prompt waits behind it, one at most, or is left out.
* Of times that passed while nobody looked, `missed` decides: the newest comes, late, or none does. Then it goes on with
  the next time to come.
* A local time that a clock leaves out comes right after the gap. One that it shows twice comes once, unless the
  schedule comes every hour or more often.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import structs

from outlast.codec import Packer
from outlast.records import Schedule, ScheduleCame, Scheduled, Unschedule, Unscheduled
from outlast.state import ScheduleState, SessionState

LATE_S: Final = 60.0
"""A time that is noticed this much later, with no turn open, was missed."""
LEAST_S: Final = 1.0
NAME_LIMIT: Final = 100
_FIELDS: Final = 5


def fault_of(wanted: Schedule) -> str:
    """What is wrong with a schedule; nothing if it can be kept."""
    if not 0 < len(wanted.name) <= NAME_LIMIT:
        return f"its name must have 1 to {NAME_LIMIT} characters"
    if (wanted.at_s > 0) + (wanted.every_s > 0) + bool(wanted.cron) != 1:
        return "say one of: at a time (at), every so often (every), by cron (cron)"
    if wanted.every_s and not LEAST_S <= wanted.every_s < math.inf:
        return f"it must come every {LEAST_S:g} s or less often"
    if not 0 <= wanted.at_s < 1e11:
        return "its time is out of range"
    return _fault_of_cron(wanted)


def _fault_of_cron(wanted: Schedule) -> str:
    if wanted.zone and not wanted.cron:
        return "a time zone goes with cron only"
    if not wanted.cron:
        return ""
    if len(wanted.cron.split()) != _FIELDS:
        return f"{wanted.cron!r} has not the five fields: minute hour day month weekday"
    try:
        comes = _next_cron(wanted.cron, wanted.zone, wanted.sent_at_s or 1_800_000_000.0)
    except CronSimError as error:
        return f"{wanted.cron!r} is no cron expression ({error})"
    except (OSError, ValueError, LookupError):
        return f"{wanted.zone!r} is no time zone; write one as Europe/Berlin"
    return "" if comes else f"{wanted.cron!r} never comes"


def first_due(wanted: Schedule, now_s: float) -> float:
    """Unix time at which it comes first; `fault_of` found nothing wrong with it."""
    if wanted.at_s:
        return wanted.at_s
    since_s = wanted.sent_at_s or now_s
    if wanted.every_s:
        return since_s + wanted.every_s
    return _next_cron(wanted.cron, wanted.zone, since_s)


def _after(schedule: ScheduleState, now_s: float) -> tuple[float, float]:
    """The newest of its times up to now, and the first behind that; 0 where there is none."""
    kept, due_s = schedule.set, schedule.due_s
    if kept.every_s:
        due_s += kept.every_s * math.floor((now_s - due_s) / kept.every_s)
        return due_s, due_s + kept.every_s
    if not kept.cron:
        return due_s, 0.0
    newest_s = _newest_cron(kept.cron, kept.zone, now_s)
    return max(due_s, newest_s), _next_cron(kept.cron, kept.zone, now_s)


def came(state: SessionState, schedule: ScheduleState, now_s: float) -> ScheduleCame | None:
    """What a schedule that is due does now; None of one that is not due."""
    if schedule.due_s > now_s:
        return None
    due_s, next_s = _after(schedule, now_s)
    return ScheduleCame(schedule.set.name, due_s, next_s, _why_not(state, schedule, due_s, now_s), now_s)


def known_prompts(state: SessionState) -> set[str]:
    """The ids of the prompts that wait, and of the open turn's: none of them may be queued again."""
    waiting = {prompt.input for prompt in state.queue}
    return waiting if state.turn is None else {*waiting, state.turn.input}


def _why_not(state: SessionState, schedule: ScheduleState, due_s: float, now_s: float) -> str:
    kept, last = schedule.set, state.last
    if any(prompt.input.rpartition("@")[0] == kept.name for prompt in state.queue):
        return "one waits already"
    if prompt_id(kept.name, due_s) in known_prompts(state):
        return "its turn is open"
    beside = state.turn is not None or (last is not None and 0.0 < last.began_s <= due_s <= last.at_s)
    if beside:
        return "a turn was open" if kept.overlap == "skip" else ""
    return "it was missed" if kept.missed == "skip" and now_s - due_s > LATE_S else ""


def prompt_id(name: str, due_s: float) -> str:
    """The id of the prompt that a schedule queues at a time."""
    return f"{name}@{datetime.fromtimestamp(due_s, UTC).isoformat(timespec='microseconds')}"


def _next_cron(expression: str, zone: str, after_s: float) -> float:
    """The first time behind `after_s`; 0 if there is none within the years that the library looks at."""
    times = CronSim(expression, _local(after_s, zone))
    # Where a clock shows an hour twice, a time of its first showing may be found in the second.
    return next((time.timestamp() for time in times if time.timestamp() > after_s), 0.0)


def _newest_cron(expression: str, zone: str, upto_s: float) -> float:
    times = CronSim(expression, _local(upto_s + 1.0, zone), reverse=True)
    return next((time.timestamp() for time in times if time.timestamp() <= upto_s), 0.0)


def _local(at_s: float, zone: str) -> datetime:
    return datetime.fromtimestamp(at_s, ZoneInfo(zone) if zone else UTC)


def planned(
    state: SessionState, input_id: str, wanted: Schedule | Unschedule, packer: Packer, now_s: float
) -> Sequence[Scheduled | Unscheduled] | str:
    """The record that sets or removes a schedule, or why there is none. One that stands as it is wanted goes on."""
    stands = state.schedules.get(wanted.name)
    if isinstance(wanted, Unschedule):
        return [Unscheduled(wanted.name, input_id)] if stands else f"there is no schedule {wanted.name}"
    fault = fault_of(wanted)
    if fault:
        return fault
    new = Scheduled(
        wanted.name,
        input_id,
        packer.payload(wanted.text, what="the prompt"),
        first_due(wanted, now_s),
        wanted.every_s,
        wanted.cron,
        wanted.zone,
        wanted.overlap,
        wanted.missed,
        now_s,
    )
    return [new] if stands is None or _differs(stands.set, new) else f"schedule {wanted.name} stands already"


def _differs(kept: Scheduled, new: Scheduled) -> bool:
    """Whether `new` says something else; when it was said is nothing to one that comes again and again."""
    same = structs.replace(new, input=kept.input, at_s=kept.at_s)
    if new.every_s or new.cron:
        same = structs.replace(same, due_s=kept.due_s)
    return same != kept
