"""Pure: what a session has cost, what its log has saved, and against what.

* **Spent** is what stands in the log with each answer: tokens and money of model calls, void answers included, under
  the day (UTC) on which they were billed. A session that another spawned counts its own; a fork counts what came after
  it began.
* **Time** is that of calls, each of the try that settled it; calls that run at once add up.
* **Saved against starting over** is what `outlast.timeline` says: at each moment when another attempt at an open turn
  began, all that its finished calls had cost. A process without a log would have begun again with the prompt.
* **Saved against the harness's own `--continue`** is less, since a harness writes down much itself: at each such
  moment, of these only the finished calls behind which nothing of the harness's own files was mirrored any more. Their
  answers the harness had not written, or may not have: it would have made them again. It is an estimate, and a low one:
  that the harness could have been continued at all, on that machine, with its files whole, is taken for granted, and
  what a prompt costs that the provider's cache no longer holds is not in it. A loop of one's own has no files of its
  own, and nothing to continue from: both figures are the same.
* **Effects** are tool calls that are not `safe`, and had happened or may have: they would have been made a second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from outlast.records import (
    AnyRecord,
    CallIntent,
    CallOutcome,
    CallRetracted,
    Forked,
    Mirrored,
    TurnOpened,
    Usage,
)
from outlast.records.events import face
from outlast.tally import day_of
from outlast.timeline import CallBar, Saved, TurnBar, parked
from outlast.unfolding import Unfolding
from outlast.world import Commit, Cursor


class Avoided(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was not done again."""

    work: Saved = Saved()
    effects: int = 0

    def __add__(self, other: "Avoided") -> "Avoided":
        return Avoided(self.work + other.work, self.effects + other.effects)


class Cost(msgspec.Struct, frozen=True):
    """What something has cost, and has not."""

    usage: Usage = Usage()
    void: Usage = Usage()
    """Of that, what was paid for answers that nobody could use."""
    model_calls: int = 0
    tool_calls: int = 0
    model_s: float = 0.0
    tool_s: float = 0.0
    takeovers: int = 0
    """Attempts that went on with an open turn."""
    start_over: Avoided = Avoided()
    own_continue: Avoided = Avoided()

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.usage + other.usage,
            self.void + other.void,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            self.model_s + other.model_s,
            self.tool_s + other.tool_s,
            self.takeovers + other.takeovers,
            self.start_over + other.start_over,
            self.own_continue + other.own_continue,
        )


class TurnCost(msgspec.Struct, frozen=True):
    """What a turn has cost."""

    turn: int
    status: str
    opened_s: float
    cost: Cost


@dataclass
class SessionCost:
    """What a session has cost."""

    turns: list[TurnCost] = field(default_factory=list[TurnCost])
    days: dict[int, Usage] = field(default_factory=dict[int, Usage])
    """By days since 1970-01-01."""

    @property
    def whole(self) -> Cost:
        return sum((turn.cost for turn in self.turns), start=Cost())


@dataclass
class _Open:
    """The newest turn."""

    usage: Usage = field(default_factory=Usage)
    void: Usage = field(default_factory=Usage)
    fresh: set[int] = field(default_factory=set[int])
    """Calls that ended behind the newest line of the harness's own files."""
    takeovers: int = 0
    start_over: Avoided = field(default_factory=Avoided)
    own_continue: Avoided = field(default_factory=Avoided)
    looking: tuple[int, Avoided, Avoided] | None = None
    """While it is parked: whose claim of it was the last, and what that one found."""


class Counting:
    """Takes in the commits of one session, in order, and says what it has cost."""

    def __init__(self) -> None:
        self._unfolding = Unfolding()
        self._done = SessionCost()
        self._turn: _Open | None = None
        self._children: set[int] = set()
        self._mirrors = False
        self._at_s = self._from_s = 0.0

    def take(self, commit: Commit, records: Sequence[AnyRecord]) -> None:
        """The next commit."""
        header = commit.header
        for at, record in enumerate(records):
            event = face(record, str(Cursor(header.seq, at)), header.fence)
            self._at_s = max(self._at_s, event.at_s)
            if event.kind == "attempt.opened":
                self._taken_over(event.attempt)
            elif event.kind == "turn.released":
                self._let_go(event.attempt)
            if isinstance(record, TurnOpened):
                self._end_turn()
                self._turn = _Open()
            self._unfolding.apply(event)
            self._note(record)

    def result(self) -> SessionCost:
        """What it all came to; nothing is taken in after that."""
        self._end_turn()
        return self._done

    def _note(self, record: AnyRecord) -> None:
        turn = self._turn
        match record:
            case CallIntent() if record.child:
                self._children.add(record.call)
            case CallOutcome() if turn is not None:
                turn.fresh.add(record.call)
                if record.call not in self._children:
                    self._spend(turn, record.usage)
            case CallRetracted() if turn is not None:
                self._spend(turn, record.usage)
                turn.void = turn.void + (record.usage or Usage())
            case Mirrored():
                self._mirrors = True
                if turn is not None:
                    turn.fresh.clear()
            case Forked():
                self._done, self._from_s = SessionCost(), self._at_s
                goes_on = turn is not None and self._bar().status == "open"
                self._turn = _Open() if goes_on else None
            case _:
                pass

    def _spend(self, turn: _Open, usage: Usage | None) -> None:
        if usage is not None:
            turn.usage = turn.usage + usage
            day = day_of(self._at_s)
            self._done.days[day] = self._done.days.get(day, Usage()) + usage

    def _bar(self) -> TurnBar:
        return self._unfolding.timeline().turns[-1]

    def _taken_over(self, attempt: int) -> None:
        """Another attempt is about to begin. What counts is what it finds."""
        turn = self._turn
        bar = None if turn is None else self._bar()
        if turn is None or bar is None or bar.status != "open" or not bar.attempts:
            return
        calls = [call for lane in bar.lanes for call in lane.calls if call.opened_s >= self._from_s]
        again = [call for call in calls if call.call in turn.fresh or not call.status]
        turn.looking = attempt, _avoided(calls), _avoided(again)
        if not parked(bar.waits):
            self._let_go(attempt)

    def _let_go(self, attempt: int) -> None:
        """Who claimed the open turn last goes on with it."""
        turn = self._turn
        if turn is None or turn.looking is None or turn.looking[0] != attempt:
            return
        _, over, again = turn.looking
        turn.takeovers += 1
        turn.start_over = turn.start_over + over
        turn.own_continue = turn.own_continue + again
        turn.looking = None

    def _end_turn(self) -> None:
        turn = self._turn
        if turn is None:
            return
        bar = self._bar()
        calls = [call for lane in bar.lanes for call in lane.calls if call.settled_s > self._from_s]
        models = [call for call in calls if call.kind == "model"]
        tools = [call for call in calls if call.kind == "tool" and call.tries]
        whole = bar.opened_s >= self._from_s
        over = Avoided(bar.saved, turn.start_over.effects) if whole else turn.start_over
        cost = Cost(
            turn.usage,
            turn.void,
            len(models),
            len(tools),
            sum(call.ran_s for call in models),
            sum(call.ran_s for call in tools if not call.spawns),
            turn.takeovers,
            over,
            turn.own_continue if self._mirrors else over,
        )
        self._done.turns.append(TurnCost(bar.turn, bar.status, bar.opened_s, cost))
        self._turn = None


def _avoided(calls: Sequence[CallBar]) -> Avoided:
    """What it would take to make these calls again, as far as they are finished."""
    work = Saved(takeovers=1)
    for call in calls:
        if call.finished:
            work = work + _worth(call)
    made = [call for call in calls if call.kind == "tool" and call.policy != "safe" and call.tries]
    return Avoided(work, sum(call.finished or call.status in {"", "in_doubt"} for call in made))


def _worth(call: CallBar) -> Saved:
    if call.kind == "model":
        models = {call.name: call.usage or Usage()}
        return Saved(model_calls=1, models=models, model_s=call.ran_s, busy_s=call.ran_s)
    ran_s = 0.0 if call.spawns else call.ran_s
    return Saved(tool_calls=1, tool_s=ran_s, busy_s=ran_s)
