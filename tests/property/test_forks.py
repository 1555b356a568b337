"""A fork at any commit of any history folds, leaves nothing in doubt, and can itself be forked."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.scripted import Scripted
from outlast.errors import LogBroken
from outlast.fold import SessionState, apply, fold, records_of
from outlast.forking import forking_commit
from outlast.records import CallIntent, CallOutcome, Forked, Payload, Snapshot
from outlast.recovery import AskAgain, Declared, Run, plan
from outlast.world.commit import Commit
from tests.property.strategies import commit, logs

pytestmark = pytest.mark.timeout(300)


def forked_at(log: list[Commit], at: int, session: str = "f") -> tuple[list[Commit], SessionState]:
    """The log of a fork at commit `at`, and its state as whoever forks keeps it."""
    state = fold("s", log[:at])
    first = forking_commit("default", state, Forked(session, "s", at, f"{session}-folder", at_s=7.0))
    return [*log[:at], first], state


@given(logs(), st.data())
def test_a_fork_at_any_commit_folds_to_what_was_written(log: list[Commit], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(log)))
    past, kept = forked_at(log, at)
    state = fold("f", past)
    assert (state.queue, state.schedules, state.untold, state.errands) == ([], {}, [], [])
    assert (state.seq, state.fence) == (at + 1, past[at - 1].header.fence)
    header = past[-1].header
    assert header.turn_open == (state.turn is not None)
    assert not header.parked
    if state.turn is not None:
        told = (
            state.turn.noticed,
            state.turn.allowed,
            state.turn.allowed_for_turn,
            state.turn.allowed_before,
        )
        assert told == ([], [], [], [])
        assert state.turn.parked is None
    before = fold("s", log[:at])
    assert (state.signals, state.documents, state.usage) == (before.signals, before.documents, before.usage)
    assert (state.next_call, state.next_turn) == (before.next_call, before.next_turn)
    assert state.opened is not None
    assert (state.opened.session, state.opened.folder, state.opened.home) == ("s", "f-folder", "")
    kept.session, kept.shown, kept.held = state.session, state.shown, state.held
    assert kept == state


@given(logs(), st.data())
def test_nothing_of_a_fork_is_in_doubt_and_what_goes_on_may_be_done_again(
    log: list[Commit], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(log)))
    before, state = fold("s", log[:at]), fold("f", forked_at(log, at)[0])
    if state.turn is None:
        return
    assert before.turn is not None
    outcomes = {number: one.outcome for number, one in before.turn.calls.items() if one.outcome is not None}
    now = {number: one.outcome for number, one in state.turn.calls.items() if one.outcome is not None}
    assert outcomes.items() <= now.items()
    assert {one.status for number, one in now.items() if number not in outcomes} <= {"cancelled"}
    steps = plan(state.turn, _as_recorded, Scripted(script=[]).abilities, 0.0)
    for step in steps:
        intent = state.turn.calls[step.call].intent
        assert isinstance(step, AskAgain | Run)
        assert intent.kind == "model" or intent.policy == "safe"
    for one in state.turn.open_calls():
        assert not (one.intent.kind == "wait" and (one.intent.harness_id or one.intent.child))


def _as_recorded(intent: CallIntent) -> Declared:
    return Declared(intent.policy, intent.on_doubt)


@given(logs(), st.data())
def test_a_fork_folds_from_its_snapshots_and_can_be_forked_anywhere(
    log: list[Commit], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(log)))
    past, _ = forked_at(log, at)
    taken = fold("f", past)
    snapshot = Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(taken))))
    later = commit(at + 2, taken.fence, [snapshot], snapshot=True)
    whole, bare = fold("f", [*past, later]), fold("f", [later])
    assert whole == bare
    deeper = data.draw(st.integers(1, at + 2))
    again = [*past, later][:deeper]
    before = copy.deepcopy(again)
    fork = fold("s", again)
    first = forking_commit("default", fork, Forked("g", "f", deeper, "g-folder"))
    grown = fold("g", [*again, first])
    assert again == before
    assert grown.forked == Forked("g", "f", deeper, "g-folder")


@given(logs(), st.data())
def test_a_fork_s_first_commit_can_stand_nowhere_else(log: list[Commit], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(log)))
    place = data.draw(st.integers(1, len(log)).filter(lambda place: place != at))
    (*_, first), _ = forked_at(log, at)
    state = fold("s", log[:place])
    moved = commit(place + 1, state.fence, records_of("s", first))
    with pytest.raises(LogBroken):
        apply(state, moved.header, records_of("s", moved))


@given(logs(), st.data())
def test_what_was_left_is_said_in_the_order_of_the_calls(log: list[Commit], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(log)))
    past, _ = forked_at(log, at)
    first, *rest = records_of("f", past[-1])
    assert isinstance(first, Forked)
    left = [record.call for record in rest if isinstance(record, CallOutcome)]
    assert left == sorted(left)
