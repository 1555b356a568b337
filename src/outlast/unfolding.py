"""Pure: events to the picture of a session (`outlast.timeline`, which says what its words mean)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from outlast.calls import MAIN
from outlast.records.events import Event
from outlast.records.payload import Usage
from outlast.timeline import (
    WAITING,
    AttemptBar,
    CallBar,
    Ended,
    Lane,
    Saved,
    Timeline,
    Try,
    TurnBar,
    Wait,
    about,
    parked,
    prompt_of,
)


@dataclass
class _Turn:
    """The newest turn, while it grows."""

    bar: TurnBar
    attempts: list[AttemptBar]
    waits: list[Wait]
    lanes: dict[str, dict[int, CallBar]] = field(default_factory=dict[str, dict[int, CallBar]])
    begun_by: dict[str, int] = field(default_factory=dict[str, int])
    places: dict[int, str] = field(default_factory=dict[int, str])
    """The lane of each call."""
    busy: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """When finished calls ran: apart from one another, in order."""

    @classmethod
    def of(cls, bar: TurnBar) -> "_Turn":
        turn = cls(bar, list(bar.attempts), list(bar.waits))
        for lane in bar.lanes:
            turn.lanes[lane.name] = {call.call: call for call in lane.calls}
            turn.begun_by[lane.name] = lane.begun_by
            turn.places.update(dict.fromkeys((call.call for call in lane.calls), lane.name))
        found = [call for lane in bar.lanes for call in lane.calls if call.finished]
        for call in sorted(found, key=lambda call: call.settled_s):
            turn.occupy(call.settled_s - call.ran_s, call.settled_s)
        return turn

    def shown(self, *, whole: bool) -> TurnBar:
        """As it stands, with its calls or without."""
        lanes = (
            tuple(
                Lane(name, self.begun_by[name], tuple(calls.values())) for name, calls in self.lanes.items()
            )
            if whole
            else ()
        )
        return replace(
            self.bar,
            attempts=tuple(self.attempts),
            waits=tuple(self.waits),
            lanes=lanes,
            calls=max(self.bar.calls, len(self.places)),
        )

    def occupy(self, began_s: float, ended_s: float) -> float:
        """Something ran from `began_s` until `ended_s`, not before any end so far. Returns what is new of it."""
        covered_s = 0.0
        while self.busy and self.busy[-1][1] >= began_s:
            earlier_s, until_s = self.busy.pop()
            covered_s += until_s - earlier_s
            began_s = min(began_s, earlier_s)
        self.busy.append((began_s, ended_s))
        return max(0.0, ended_s - began_s - covered_s)


class Unfolding:
    """Takes in the events of a session, in order and each once, and shows the picture of them.

    Args:
        after: the picture of what came before; its newest turn must have its calls.
        details: the turn whose calls are kept; 0 for the newest, None for all.
    """

    def __init__(self, after: Timeline | None = None, *, details: int | None = None) -> None:
        after = after or Timeline()
        self._details = details
        self._cursor, self._at_s, self._behind_s = after.cursor, after.at_s, after.behind_s
        self._attempt = after.attempt
        self._saved = after.saved
        self._over = list(after.turns[:-1])
        self._turn = _Turn.of(after.turns[-1]) if after.turns else None

    @property
    def open_turn(self) -> int:
        """The turn that is open; 0 if none is."""
        turn = self._turn
        return turn.bar.turn if turn is not None and turn.bar.status == "open" else 0

    @property
    def newest(self) -> TurnBar | None:
        """The newest turn, with its calls; None before the first."""
        return None if self._turn is None else self._turn.shown(whole=True)

    @property
    def at_s(self) -> float:
        """The newest moment that was told."""
        return self._at_s

    def timeline(self) -> Timeline:
        """The picture of what was taken in."""
        turns = self._over
        if self._turn is not None:
            whole = self._details in {None, 0, self._turn.bar.turn}
            turns = [*turns, self._turn.shown(whole=whole)]
        return Timeline(self._cursor, self._at_s, self._behind_s, self._attempt, tuple(turns), self._saved)

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        self._cursor = event.cursor
        if event.kind == "attempt.opened":
            self._behind_s = max(0.0, self._at_s - event.at_s)
        if event.at_s:
            self._at_s = max(self._at_s, event.at_s + self._behind_s)
        turn = self._turn
        if event.kind == "turn.opened":
            self._open(event)
        elif event.kind == "attempt.opened":
            self._claimed(event)
        elif event.kind == "session.forked":
            self._saved = Saved()
            self._attempt = None if self._attempt is None else replace(self._attempt, saved=Saved())
        elif turn is not None and event.turn == turn.bar.turn and turn.bar.status == "open":
            self._looked(turn, event)
            self._of_turn(turn, event)
            if turn.attempts and turn.attempts[-1].attempt == event.attempt:
                turn.attempts[-1] = replace(turn.attempts[-1], last_s=self._at_s)

    def _open(self, event: Event) -> None:
        if self._turn is not None:
            self._over.append(self._turn.shown(whole=self._details in {None, self._turn.bar.turn}))
        bar = TurnBar(event.turn, event.name, prompt_of(event), self._at_s)
        attempts: list[AttemptBar] = []
        if self._attempt is not None:
            self._attempt = replace(self._attempt, saved=Saved(), settled=0)
            attempts = [replace(self._attempt, began_s=self._at_s, last_s=self._at_s)]
        self._turn = _Turn(bar, attempts, [])

    def _claimed(self, event: Event) -> None:
        facts = event.facts
        opened = AttemptBar(
            event.attempt, str(facts.get("worker", "")), facts.get("versions", {}), self._at_s, self._at_s
        )
        self._attempt = opened
        turn = self._turn
        if turn is None or turn.bar.status != "open":
            return
        if not turn.attempts:
            turn.attempts.append(opened)
            return
        before = turn.attempts[-1]
        if not before.ended:
            self._end(turn, "lost")
            turn.attempts[-1] = replace(
                turn.attempts[-1], last_s=before.last_s, unnoticed_s=self._at_s - before.last_s
            )
        self._attempt = replace(opened, saved=replace(turn.bar.finished, takeovers=1))
        if not parked(turn.waits):
            self._goes_on(turn, self._attempt)

    def _goes_on(self, turn: _Turn, attempt: AttemptBar) -> None:
        """The newest attempt is one at this turn from when it began."""
        if turn.waits and not turn.waits[-1].ended_s:
            turn.waits[-1] = replace(turn.waits[-1], ended_s=attempt.began_s)
        turn.attempts.append(attempt)
        turn.bar = replace(turn.bar, saved=turn.bar.saved + attempt.saved)
        self._saved = self._saved + attempt.saved

    def _looked(self, turn: _Turn, event: Event) -> None:
        """Something that whoever looks at a parked turn does to it."""
        attempt = self._attempt
        there = {one.attempt for one in turn.attempts[-1:]}
        if attempt is None or attempt.attempt != event.attempt or attempt.attempt in there:
            return
        if event.kind == "turn.released":
            self._goes_on(turn, attempt)
        elif event.kind == "turn.settled":
            self._goes_on(turn, replace(attempt, saved=Saved()))
        elif event.kind == "call.settled":
            self._attempt = replace(attempt, settled=attempt.settled + 1)

    def _end(self, turn: _Turn, how: Ended, error: str = "") -> None:
        """The newest attempt is over, if it is not yet."""
        if turn.attempts and not turn.attempts[-1].ended:
            turn.attempts[-1] = replace(turn.attempts[-1], ended=how, error=error, last_s=self._at_s)

    def _rested(self, turn: _Turn) -> None:
        """Whatever the turn waited for, somebody goes on with it."""
        if turn.waits and not turn.waits[-1].ended_s:
            turn.waits[-1] = replace(turn.waits[-1], ended_s=self._at_s)

    def _of_turn(self, turn: _Turn, event: Event) -> None:  # noqa: C901 - one arm per kind, nothing else
        match event.kind:
            case "attempt.ended":
                self._end(turn, _ended(event.status), event.text)
                if event.status in WAITING:
                    turn.waits.append(Wait(event.status, self._at_s))
            case "turn.parked":
                self._end(turn, "parked")
                self._rested(turn)
                turn.waits.append(Wait(event.status, self._at_s))
            case "turn.released":
                self._rested(turn)
            case "turn.continued":
                turn.bar = replace(turn.bar, continued=(*turn.bar.continued, self._at_s))
            case "turn.settled":
                self._end(turn, "settled")
                self._rested(turn)
                turn.bar = replace(turn.bar, status=event.status, settled_s=self._at_s, error=event.text)
            case "call.opened":
                self._call_opened(turn, event)
            case _ if event.call in turn.places and event.kind.startswith("call."):
                self._of_call(turn, event)
            case _:
                pass

    def _call_opened(self, turn: _Turn, event: Event) -> None:
        facts = event.facts
        granted = bool(facts.get("granted", False))
        lane = event.lane or MAIN
        bar = CallBar(
            event.call,
            facts.get("kind", "tool"),
            event.name,
            facts.get("policy", "never"),
            about(event),
            self._at_s,
            event.attempt,
            int(facts.get("asked_by", 0)),
            granted,
            bool(facts.get("spawns", False)),
            () if granted else (Try(event.attempt, self._at_s),),
            child=str(facts.get("child", "")),
            until_s=float(facts.get("until_s", 0.0)),
            compensates=int(facts.get("compensates", 0)),
        )
        if lane not in turn.lanes:
            turn.lanes[lane] = {}
            turn.begun_by[lane] = 0 if lane == MAIN else bar.asked_by
        turn.places[bar.call] = lane
        turn.lanes[lane][bar.call] = bar
        turn.bar = replace(turn.bar, calls=len(turn.places))

    def _of_call(self, turn: _Turn, event: Event) -> None:
        calls = turn.lanes[turn.places[event.call]]
        bar = calls[event.call]
        match event.kind:
            case "call.started":
                bar = replace(bar, tries=_tried(bar, event.attempt, self._at_s))
            case "call.retracted":
                bar = self._retracted(turn, bar, event)
            case "call.verdict":
                bar = replace(bar, verdicts=(*bar.verdicts, event.status))
            case "call.decided":
                bar = replace(bar, decisions=(*bar.decisions, event.status))
            case "call.settled":
                bar = self._settled(turn, bar, event)
            case _:
                return
        calls[event.call] = bar

    def _retracted(self, turn: _Turn, bar: CallBar, event: Event) -> CallBar:
        tries = tuple(replace(one, void=True) for one in bar.tries)
        if bar.kind == "model":  # whoever says so asks again
            tries = (*tries, Try(event.attempt, self._at_s))
        void = bar.void
        if event.usage is not None:
            void = (void or Usage()) + event.usage
            turn.bar = replace(turn.bar, usage=turn.bar.usage + event.usage, void=turn.bar.void + event.usage)
        return replace(bar, tries=tries, void=void, retractions=bar.retractions + 1)

    def _settled(self, turn: _Turn, bar: CallBar, event: Event) -> CallBar:
        ran_s = 0.0
        if bar.tries:
            newest = bar.tries[-1]
            until_s = next(
                (one.last_s for one in turn.attempts if one.attempt == newest.attempt and one.ended),
                self._at_s,
            )
            told_s = float(event.facts.get("duration_s", 0.0))
            ran_s = max(0.0, min(told_s, until_s - newest.began_s))
        bar = replace(
            bar,
            status=event.status,
            settled_s=self._at_s,
            settled_in=event.attempt,
            ran_s=ran_s,
            usage=event.usage,
        )
        usage = event.usage or Usage()
        turn.bar = replace(turn.bar, usage=turn.bar.usage + usage)
        if bar.finished:
            busy_s = turn.occupy(self._at_s - ran_s, self._at_s)
            turn.bar = replace(turn.bar, finished=turn.bar.finished + _worth(bar, usage, busy_s))
        for at, one in enumerate(turn.attempts):
            if one.attempt == event.attempt:
                turn.attempts[at] = replace(one, settled=one.settled + 1)
        return bar


def unfold(events: Iterable[Event], after: Timeline | None = None, *, details: int | None = None) -> Timeline:
    """The picture of `events`, which come behind those of `after`."""
    unfolding = Unfolding(after, details=details)
    for event in events:
        unfolding.apply(event)
    return unfolding.timeline()


def _ended(status: str) -> Ended:
    match status:
        case "waiting" | "handed_over" | "provider":
            return status
        case _:
            return "failed"


def _tried(bar: CallBar, attempt: int, at_s: float) -> tuple[Try, ...]:
    """The tries of a call that was let go: what began with its intent begins with that, and is no try more."""
    newest = bar.tries[-1] if bar.tries else None
    again = newest is None or newest.void or newest.attempt != attempt
    return (*bar.tries, Try(attempt, at_s)) if again else (*bar.tries[:-1], Try(attempt, at_s))


def _worth(bar: CallBar, usage: Usage, busy_s: float) -> Saved:
    """What it saves that a call is finished."""
    if bar.kind == "model":
        return Saved(model_calls=1, models={bar.name: usage}, model_s=bar.ran_s, busy_s=busy_s)
    return Saved(tool_calls=1, tool_s=0.0 if bar.spawns else bar.ran_s, busy_s=busy_s)
