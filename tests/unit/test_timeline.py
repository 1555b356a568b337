"""The picture of a session: where each call stands, how each attempt ended, and what the log saved."""

from typing import Any

import msgspec
import pytest

from outlast.records import EMPTY, Payload, Usage
from outlast.records.events import Event, EventKind
from outlast.timeline import ABOUT, AttemptBar, CallBar, LogCost, Saved, Timeline, TurnBar
from outlast.unfolding import unfold
from outlast.world.commit import Header, make_commit


def payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))


class Story:
    """Writes events as a log would show them, one commit each; time is given in seconds from its beginning."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.fence = 0
        self.turn = 0
        self.calls = 0

    def add(self, kind: EventKind, at_s: float, **fields: Any) -> None:
        turn = self.turn if kind.startswith(("turn.", "call.", "attempt.ended")) else 0
        cursor = f"{len(self.events) + 1}.0"
        self.events.append(Event(cursor, kind, turn, self.fence, at_s=1000.0 + at_s, **fields))

    def attempt(self, at_s: float, worker: str = "w") -> None:
        self.fence += 1
        self.add("attempt.opened", at_s, facts={"worker": worker, "versions": {"outlast": "1"}})

    def begin(self, at_s: float = 0.0) -> None:
        self.turn += 1
        self.add("turn.opened", at_s, name="p", payload=payload("go"))

    def open(
        self, at_s: float, kind: str = "model", name: str = "m", lane: str = "main", **facts: Any
    ) -> int:
        self.calls += 1
        about = facts.pop("arguments", EMPTY)
        facts = {"kind": kind, "policy": "safe", "asked_by": 0, **facts}
        self.add("call.opened", at_s, call=self.calls, name=name, lane=lane, payload=about, facts=facts)
        return self.calls

    def start(self, call: int, at_s: float) -> None:
        self.add("call.started", at_s, call=call, lane="main")

    def settle(
        self, call: int, at_s: float, took_s: float, status: str = "ok", usage: Usage | None = None
    ) -> None:
        facts = {"duration_s": took_s}
        self.add("call.settled", at_s, call=call, lane="main", status=status, usage=usage, facts=facts)

    def timeline(self) -> Timeline:
        return unfold(self.events)

    def bar(self) -> TurnBar:
        return self.timeline().turns[-1]

    def call(self, number: int) -> CallBar:
        return next(call for lane in self.bar().lanes for call in lane.calls if call.call == number)


SPENT = Usage(100, 20, 3, 4, 0.5)


@pytest.fixture
def story() -> Story:
    """A turn with a model call that is finished, and a tool call that runs."""
    story = Story()
    story.attempt(0, "a")
    story.begin(1)
    story.settle(story.open(2), 5, 3.0, usage=SPENT)
    story.start(story.open(5, "tool", "Bash", granted=True, arguments=payload({"command": "make"})), 6)
    return story


def test_what_was_finished_when_another_attempt_began_is_saved_once_for_each_take_over(story: Story) -> None:
    assert story.timeline().saved == Saved()
    assert story.bar().finished == Saved(0, 1, 0, {"m": SPENT}, 3.0, 0.0, 3.0)
    story.attempt(100, "b")
    assert story.timeline().saved == Saved(1, 1, 0, {"m": SPENT}, 3.0, 0.0, 3.0)
    story.attempt(200, "c")
    twice = Saved(2, 2, 0, {"m": SPENT + SPENT}, 6.0, 0.0, 6.0)
    assert (story.timeline().saved, story.bar().saved) == (twice, twice)
    assert [one.saved.model_calls for one in story.bar().attempts] == [0, 1, 1]


def test_a_worker_that_ended_without_a_word_was_lost_at_its_last_sign_of_life(story: Story) -> None:
    assert story.bar().attempts[-1].ended == ""
    story.attempt(100, "b")
    lost, goes_on = story.bar().attempts
    assert (lost.worker, lost.ended, lost.last_s, lost.unnoticed_s) == ("a", "lost", 1006.0, 94.0)
    assert (goes_on.worker, goes_on.ended, goes_on.began_s) == ("b", "", 1100.0)


@pytest.mark.parametrize("how", ["waiting", "handed_over", "provider", "failed"])
def test_an_attempt_that_says_how_it_ends_was_not_lost(story: Story, how: str) -> None:
    story.add("attempt.ended", 20, status=how, text="why")
    story.attempt(100, "b")
    ended = story.bar().attempts[0]
    assert (ended.ended, ended.error, ended.last_s, ended.unnoticed_s) == (how, "why", 1020.0, 0.0)
    waits = [(one.why, one.began_s, one.ended_s) for one in story.bar().waits]
    assert waits == ([(how, 1020.0, 1100.0)] if how in {"waiting", "provider"} else [])


def test_a_parked_turn_waits_until_somebody_goes_on_with_it(story: Story) -> None:
    story.add("turn.parked", 20, status="decision", facts={"in_doubt": [2]})
    assert [(one.why, one.ended_s) for one in story.bar().waits] == [("decision", 0.0)]
    story.attempt(90, "b")
    story.add("call.decided", 90, call=2, status="run_again", text="ann")
    story.add("turn.released", 91)
    assert [(one.why, one.ended_s) for one in story.bar().waits] == [("decision", 1090.0)]
    assert story.bar().attempts[0].ended == "parked"
    assert story.call(2).decisions == ("run_again",)


def test_who_only_looks_at_a_parked_turn_is_no_attempt_at_it_loses_and_saves_nothing(story: Story) -> None:
    story.add("turn.parked", 20, status="decision", facts={"in_doubt": [2]})
    before = story.bar()
    for at_s in (40, 60):
        story.attempt(at_s, "looks")
    assert story.bar() == before
    assert story.timeline().saved == Saved()
    looking = story.timeline().attempt
    assert looking is not None
    assert (looking.worker, looking.attempt) == ("looks", 3)
    story.attempt(90, "b")
    story.settle(2, 90.5, 0.0, "error")
    story.add("turn.released", 91)
    story.add("turn.settled", 95, status="done")
    first, second = story.bar().attempts
    assert (first.ended, first.last_s, first.unnoticed_s) == ("parked", 1020.0, 0.0)
    assert (second.worker, second.began_s, second.settled, second.ended) == ("b", 1090.0, 1, "settled")
    assert second.saved == story.timeline().saved == Saved(1, 1, 0, {"m": SPENT}, 3.0, 0.0, 3.0), (
        "what it found"
    )
    assert [(one.why, one.began_s, one.ended_s) for one in story.bar().waits] == [
        ("decision", 1020.0, 1090.0)
    ]
    story.begin(96)
    assert [(one.saved, one.settled) for one in story.bar().attempts] == [(Saved(), 0)]


def test_who_takes_one_decision_of_two_leaves_the_turn_parked_and_is_not_lost(story: Story) -> None:
    story.settle(2, 19, 1.0, "in_doubt")
    story.add("turn.parked", 20, status="decision", facts={"in_doubt": [2, 3]})
    story.attempt(40, "half")
    story.add("call.decided", 41, call=2, status="run_again", text="ann")
    story.attempt(90, "b")
    story.add("turn.released", 91)
    story.attempt(120, "c")
    assert [(one.worker, one.ended) for one in story.bar().attempts] == [
        ("a", "parked"),
        ("b", "lost"),
        ("c", ""),
    ]
    assert story.timeline().saved.takeovers == 2


def test_who_ends_a_parked_turn_has_saved_nothing(story: Story) -> None:
    story.add("turn.parked", 20, status="stuck")
    story.attempt(40, "b")
    story.add("turn.settled", 41, status="cancelled")
    assert [(one.worker, one.ended) for one in story.bar().attempts] == [("a", "parked"), ("b", "settled")]
    assert story.timeline().saved == story.bar().saved == Saved()


def test_a_call_that_is_run_again_counts_the_seconds_of_its_last_try_only(story: Story) -> None:
    story.attempt(100, "b")
    story.start(2, 101)
    story.settle(2, 104, 99.0)
    call = story.call(2)
    assert [(one.attempt, one.began_s) for one in call.tries] == [(1, 1006.0), (2, 1101.0)]
    assert (call.status, call.settled_in, call.ran_s) == ("ok", 2, 3.0)
    assert story.bar().finished == Saved(0, 1, 1, {"m": SPENT}, 3.0, 3.0, 6.0)


def test_a_call_that_was_found_to_have_happened_ran_in_the_attempt_that_was_lost(story: Story) -> None:
    story.attempt(100, "b")
    story.add("call.verdict", 100, call=2, status="done")
    story.settle(2, 100, 95.0)
    call = story.call(2)
    assert ([one.attempt for one in call.tries], call.verdicts, call.ran_s) == ([1], ("done",), 0.0)
    assert story.bar().finished.tool_calls == 1


def test_an_answer_that_is_void_is_paid_for_and_saves_nothing() -> None:
    story = Story()
    story.attempt(0)
    story.begin()
    call = story.open(1)
    story.add("call.retracted", 0, call=call, lane="main", usage=SPENT)
    story.attempt(50)
    story.add("call.retracted", 0, call=call, lane="main")
    story.settle(call, 53, 2.0, usage=SPENT)
    bar = story.call(call)
    assert [(one.attempt, one.void) for one in bar.tries] == [(1, True), (1, True), (2, False)]
    assert (bar.retractions, bar.void, bar.usage, bar.ran_s) == (2, SPENT, SPENT, 2.0)
    turn = story.bar()
    assert (turn.usage, turn.void, turn.saved.model_calls) == (SPENT + SPENT, SPENT, 0)


@pytest.mark.parametrize("status", ["error", "interrupted", "cancelled", "in_doubt"])
def test_what_has_to_be_done_again_is_not_finished(status: str) -> None:
    story = Story()
    story.attempt(0)
    story.begin()
    story.settle(story.open(1), 2, 1.0, status, SPENT)
    story.settle(story.open(2, "wait", "sleep"), 3, 1.0)
    story.settle(story.open(2, "value", "random"), 3, 1.0)
    story.settle(story.open(3, "tool", "Bash", granted=True), 4, 1.0, "error")  # it was denied
    story.settle(story.open(4, "tool", "Bash"), 5, 1.0, status)
    assert story.bar().finished.model_calls == 0
    assert story.bar().finished.tool_calls == (status == "error")


def test_calls_that_ran_at_once_take_their_time_once() -> None:
    story = Story()
    story.attempt(0)
    story.begin()
    one, two, three = (story.open(0, "tool", "t") for _ in range(3))
    story.settle(one, 4, 4.0)
    story.settle(two, 6, 6.0)
    story.settle(three, 6, 6.0)
    story.settle(story.open(8, "tool", "t"), 9, 1.0)
    finished = story.bar().finished
    assert (finished.tool_s, finished.busy_s) == (17.0, 7.0)


def test_a_sub_agent_has_a_lane_that_knows_what_began_it_and_its_time_counts_once() -> None:
    story = Story()
    story.attempt(0)
    story.begin()
    task = story.open(0, "tool", "Task", spawns=True)
    story.settle(story.open(1, lane="sub1", asked_by=task), 3, 2.0, usage=SPENT)
    story.settle(task, 4, 4.0)
    assert [(lane.name, lane.begun_by, len(lane.calls)) for lane in story.bar().lanes] == [
        ("main", 0, 1),
        ("sub1", task, 1),
    ]
    finished = story.bar().finished
    assert (finished.model_s, finished.tool_s, finished.busy_s) == (2.0, 0.0, 4.0)


def test_a_turn_that_is_over_has_an_attempt_that_settled_it_and_the_next_goes_on_with_it(
    story: Story,
) -> None:
    story.settle(2, 9, 4.0)
    story.add("turn.settled", 10, status="done")
    story.begin(20)
    first, second = story.timeline().turns
    assert (first.status, first.attempts[0].ended, first.attempts[0].settled) == ("done", "settled", 2)
    assert [(one.attempt, one.began_s, one.ended) for one in second.attempts] == [(1, 1020.0, "")]
    story.attempt(30)
    assert story.timeline().saved.model_calls == 0  # of the open turn nothing was finished


def test_a_fork_has_saved_nothing_of_what_its_source_has(story: Story) -> None:
    story.attempt(100, "b")
    story.add("session.forked", 120, facts={"source": "other", "at": 9})
    assert story.timeline().saved == Saved()
    story.attempt(130, "c")
    assert story.timeline().saved.model_calls == 1


def test_what_a_worker_does_whose_clock_is_behind_stands_after_what_was_done(story: Story) -> None:
    story.attempt(-500, "b")
    story.settle(story.open(-499), -490, 9.0, usage=SPENT)
    turn = story.bar()
    assert (turn.attempts[0].unnoticed_s, turn.attempts[1].began_s) == (0.0, 1006.0)
    call = story.call(3)
    assert (call.opened_s, call.settled_s, call.ran_s) == (1007.0, 1016.0, 9.0)
    assert turn.finished.busy_s == 12.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (payload({"command": "pytest  -q\n tests", "timeout": 5}), "pytest -q tests"),
        (payload({"file_path": "a" * 200}), "a" * ABOUT),
        (payload({"other": 1}), ""),
        (payload([1]), ""),
        (payload(None), ""),
        (Payload(ref="blob", size=9), ""),
    ],
)
def test_a_call_tells_what_it_is_about(story: Story, arguments: Payload, text: str) -> None:
    assert story.call(story.open(7, "tool", "Bash", arguments=arguments)).about == text


def test_only_the_calls_of_the_turn_that_is_asked_for_are_kept(story: Story) -> None:
    story.add("turn.settled", 10, status="done")
    story.begin(20)
    story.open(21)
    newest = unfold(story.events, details=0)
    assert [(len(turn.lanes), turn.calls) for turn in newest.turns] == [(0, 2), (1, 1)]
    first = unfold(story.events, details=1)
    assert [(len(turn.lanes), turn.calls) for turn in first.turns] == [(1, 2), (0, 1)]


def test_the_log_costs_its_commits_as_they_are_stored() -> None:
    commit = make_commit(Header(1, 0, 1, 3, refs=("a", "b")), b"12345")
    assert LogCost().plus(commit).plus(commit) == LogCost(2, 6, 10, 4)
    assert LogCost(1, 2, 3, 4) + LogCost(1, 2, 3, 4) == LogCost(2, 4, 6, 8)


def test_a_session_without_a_turn_has_a_picture() -> None:
    story = Story()
    story.attempt(5)
    assert story.timeline() == Timeline(
        "1.0", 1005.0, 0.0, AttemptBar(1, "w", {"outlast": "1"}, 1005.0, 1005.0)
    )
