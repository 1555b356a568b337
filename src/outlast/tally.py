"""Pure: what each record of a turn adds to what its tenant has spent.

Invariants:

* It follows from the log alone: which worker writes a record, and how often that is tried, changes nothing.
* What a spawned session cost counts once, in that session's own log, though its parent's turn counts it, too.
* Money and tokens count with the record that reports them. Calls, and the time that workers take, count up to the next
  such record, or to the end of the attempt or of the turn: what a lost worker did since the last is counted by its
  successor, but for its time.
"""

from datetime import UTC, datetime
from typing import Literal

from outlast.records import (
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallOutcome,
    CallRetracted,
    TurnOpened,
    TurnParked,
    TurnSettled,
    Usage,
)
from outlast.state import TurnState
from outlast.world.commit import DAY_S, Spent


def spent_by(turn: TurnState | None, record: AnyRecord) -> Spent | None:
    """What a record adds that is about to be applied; None if it reports nothing."""
    if turn is None or not isinstance(
        record, CallOutcome | CallRetracted | AttemptEnded | TurnParked | TurnSettled
    ):
        return None
    usage = record.usage if isinstance(record, CallOutcome | CallRetracted) else Usage()
    if usage is None:
        return None
    if isinstance(record, CallOutcome) and _spawned(turn, record.call):
        usage = Usage()
    at_s = turn.counted_s if isinstance(record, CallRetracted) else record.at_s
    calls = turn.count() - turn.counted
    # A snapshot of an older release does not know since when.
    seconds = max(0.0, at_s - turn.counted_s) if turn.counted_s else 0.0
    return Spent(day_of(at_s), usage.cost_usd, tokens(usage), calls, round(seconds, 4))


def _spawned(turn: TurnState, call: int) -> bool:
    found = turn.calls.get(call)
    return found is not None and bool(found.intent.child)


def counted(turn: TurnState | None, record: AnyRecord) -> None:
    """A record was applied: note how far what it reports reaches."""
    if turn is None:
        return
    match record:
        case TurnOpened() | AttemptOpened():
            turn.counted_s = record.at_s
        case CallOutcome(usage=Usage()) | AttemptEnded() | TurnParked():
            turn.counted, turn.counted_s = turn.count(), record.at_s
        case CallRetracted(usage=Usage()):
            turn.counted = turn.count()
        case _:
            pass


def tokens(usage: Usage) -> int:
    """All of them, in and out."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def day_of(at_s: float) -> int:
    """Days from 1970-01-01 to the day of a moment, UTC."""
    return int(at_s // DAY_S)


def period_of(period: Literal["day", "month"], at_s: float) -> tuple[int, int]:
    """The first day of the period that a moment lies in, and of the next."""
    if period == "day":
        return day_of(at_s), day_of(at_s) + 1
    first = datetime.fromtimestamp(at_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return day_of(first.timestamp()), day_of(after.timestamp())
