"""Finds the calls of the open turn: by the harness's id, by place in a lane, by canonical hash."""

from collections import defaultdict, deque
from collections.abc import Iterable

from outlast.adapter import MAIN, SIDE
from outlast.fold import CallState, TurnState


class CallIndex:
    """The calls of one turn, as one attempt comes upon them.

    `unserved` holds, per lane, the finished model calls whose answers are not known to have reached the harness: the
    part of the log that lies beyond what the harness has seen.
    """

    def __init__(self, turn: TurnState) -> None:
        self.turn = turn
        self._by_harness: dict[str, int] = {}
        self._first: dict[str, int] = {}
        """By lane, its first model call."""
        self._asked: dict[int, list[int]] = defaultdict(list)
        """By model call, what its answer asked for."""
        self._named: set[str] = set()
        """Lanes of the log."""
        self._unreached: dict[str, dict[int, None]] = defaultdict(dict)
        """By lane, the model calls whose answers are not known to have reached the harness, in order."""
        self._by_match: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        self._reached: set[int] = set()
        self._lanes: dict[str, str] = {MAIN: MAIN}
        self._made: dict[str, list[int]] = defaultdict(list)
        """By lane, the calls that a loop makes by itself, in the order in which it does."""
        self._walked: dict[str, int] = defaultdict(int)
        self._passed: set[str] = set()
        for state in turn.calls.values():
            self.add(state)

    def add(self, state: CallState) -> None:
        """Take in a new intent."""
        intent = state.intent
        if intent.harness_id:
            self._by_harness[intent.harness_id] = intent.call
        self._named.add(intent.lane)
        if intent.kind == "model":
            self._first.setdefault(intent.lane, intent.call)
            self._unreached[intent.lane][intent.call] = None
        elif intent.asked_by:
            self._asked[intent.asked_by].append(intent.call)
        if intent.runs_in == "worker" and not (intent.harness_id or intent.compensates):
            self._made[intent.lane].append(intent.call)
        if intent.match:
            self._by_match[intent.lane, intent.match].append(intent.call)

    def clear(self) -> None:
        """The loop begins again: nothing that was made so far is ahead of it."""
        for found in (self._by_harness, self._first, self._asked, self._unreached, self._by_match):
            found.clear()
        for lanes in (self._made, self._walked, self._named, self._reached, self._passed):
            lanes.clear()

    def of_harness(self, harness_id: str) -> CallState | None:
        """The call that harness and model know by `harness_id`."""
        number = self._by_harness.get(harness_id)
        return None if number is None else self.turn.calls[number]

    def ahead(self, lane: str) -> CallState | None:
        """The next call of a lane that a loop walks again from its beginning; None beyond what the log has."""
        place, made = self._walked[lane], self._made[lane]
        return self.turn.calls[made[place]] if place < len(made) else None

    def go_on(self, lane: str) -> None:
        """The loop has come to what was ahead."""
        self._walked[lane] += 1

    def rewind(self, lane: str) -> None:
        """The loop comes to what is in this lane and those within it once more."""
        for walked in self._walked:
            if walked == lane or walked.startswith(f"{lane}."):
                self._walked[walked] = 0

    def make(self, state: CallState) -> None:
        """Take in a new intent of the loop's own, which it has come to by making it."""
        self.add(state)
        self.go_on(state.intent.lane)

    def left(self) -> list[CallState]:
        """Calls of loops that were not come to again, of each lane the first."""
        lanes = (lane for lane in self._made if not self._is_passed(lane))
        return [state for lane in lanes if (state := self.ahead(lane)) is not None]

    def pass_by(self, lane: str) -> None:
        """What is left in this lane and those within it need not be come to again."""
        self._passed.add(lane)

    def _is_passed(self, lane: str) -> bool:
        return any(lane == passed or lane.startswith(f"{passed}.") for passed in self._passed)

    def reached(self, calls: Iterable[int]) -> None:
        """The answers of these calls have reached the harness."""
        for number in calls:
            if number in self.turn.calls:
                self._reached.add(number)
                self._unreached[self.turn.calls[number].intent.lane].pop(number, None)

    def matching(self, lane: str, match: str) -> CallState | None:
        """The first call of the lane with this hash whose answer has not reached the harness, open ones included."""
        same = self._by_match.get((lane, match))
        while same and same[0] in self._reached:
            same.popleft()
        return next((self.turn.calls[number] for number in same or () if number not in self._reached), None)

    def beyond(self, lane: str) -> list[CallState]:
        """Finished model calls of `lane` that the harness is not known to have seen."""
        states = [self.turn.calls[number] for number in self._unreached.get(lane, ())]
        return [state for state in states if state.outcome is not None and state.outcome.status == "ok"]

    def first_of(self, lane: str) -> CallState | None:
        """The first model call of `lane`."""
        number = self._first.get(lane)
        return None if number is None else self.turn.calls[number]

    def asked_by(self, call: int) -> list[CallState]:
        """The tool calls that the answer of a model call asked for."""
        return [self.turn.calls[number] for number in self._asked.get(call, ())]

    def lane(self, said: str, match: str) -> str:
        """Our lane for what the harness calls `said`.

        A sub-agent that begins anew has a new name in the harness; it is known by its first request. Lanes of
        sub-agents are named in order: `sub1`, `sub2` …
        """
        known = said if said.startswith(SIDE) else self._lanes.get(said)
        if known is None:
            known = self._lanes[said] = self._old_lane(match) or f"sub{len(self.sub_lanes()) + 1}"
        return known

    def sub_lanes(self) -> list[str]:
        """Every sub-agent lane of the turn, in order."""
        named = self._named | set(self._lanes.values())
        return sorted((lane for lane in named if lane.startswith("sub")), key=lambda lane: int(lane[3:]))

    def unbound(self) -> list[str]:
        """Sub-agent lanes of earlier attempts that no sub-agent of this one has taken up, and whose caller is open."""
        bound = set(self._lanes.values())
        return [lane for lane in self.sub_lanes() if lane not in bound and self._caller_is_open(lane)]

    def _caller_is_open(self, lane: str) -> bool:
        first = self.first_of(lane)
        caller = None if first is None else self.turn.calls.get(first.intent.asked_by)
        return caller is None or caller.open

    def _old_lane(self, match: str) -> str | None:
        for lane in self.unbound():
            first = self.first_of(lane)
            if first is not None and first.intent.match == match:
                return lane
        return None
