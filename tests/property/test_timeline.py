"""The picture of any log that keeps the documented order."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from outlast.fold import records_of
from outlast.records import CallIntent
from outlast.records.events import Event, face
from outlast.timeline import Saved, Timeline
from outlast.unfolding import Unfolding, unfold
from outlast.world.commit import Commit
from tests.property.strategies import logs


def _events(log: list[Commit]) -> list[Event]:
    return [
        face(record, f"{commit.header.seq}.{at}", commit.header.fence)
        for commit in log
        for at, record in enumerate(records_of("s", commit))
    ]


def _sums(saved: Saved) -> list[float]:
    usage = saved.usage
    tokens = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
    seconds = [saved.model_s, saved.tool_s, saved.busy_s]
    return [saved.takeovers, saved.model_calls, saved.tool_calls, usage.cost_usd, *tokens, *seconds]


def _pictures(timeline: Timeline) -> list[Saved]:
    attempts = [attempt.saved for turn in timeline.turns for attempt in turn.attempts]
    return [timeline.saved, *attempts, *(turn.finished for turn in timeline.turns)]


@given(logs(), st.data())
def test_a_picture_goes_on_where_another_ended(log: list[Commit], data: st.DataObject) -> None:
    events = _events(log)
    cut = data.draw(st.integers(0, len(events)))
    assert unfold(events[cut:], unfold(events[:cut])) == unfold(events)


@given(logs())
def test_every_call_stands_in_one_lane(log: list[Commit]) -> None:
    shown = Counter(
        call.call for turn in unfold(_events(log)).turns for lane in turn.lanes for call in lane.calls
    )
    assert shown == Counter(
        record.call for commit in log for record in records_of("s", commit) if isinstance(record, CallIntent)
    )


@given(logs())
def test_nothing_that_is_saved_is_ever_negative_or_taken_back(log: list[Commit]) -> None:
    unfolding, before = Unfolding(), [0.0] * 11
    for event in _events(log):
        unfolding.apply(event)
        timeline = unfolding.timeline()
        assert all(value >= 0 for saved in _pictures(timeline) for value in _sums(saved))
        now = _sums(timeline.saved)
        if event.kind != "session.forked":
            assert all(one >= other for one, other in zip(now, before, strict=True))
        before = now


@given(logs())
def test_what_the_turns_saved_is_what_their_attempts_saved(log: list[Commit]) -> None:
    for turn in unfold(_events(log)).turns:
        assert turn.saved == sum((attempt.saved for attempt in turn.attempts), start=Saved())
        assert turn.saved.busy_s <= turn.saved.model_s + turn.saved.tool_s + sum(
            call.ran_s * len(turn.attempts) for lane in turn.lanes for call in lane.calls if call.spawns
        )
