"""Folding depends on nothing but the commits, begins at any snapshot, and refuses what breaks the order."""

import contextlib
import copy
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from outlast.errors import LogBroken
from outlast.fold import SessionState, apply, apply_record, fold, records_of
from outlast.records import AnyRecord, CallOutcome, CallRetracted, Payload, Snapshot, Usage
from outlast.world.commit import Commit
from tests.property.strategies import commit, logs, records


@given(logs())
def test_what_the_documented_order_allows_is_folded(log: list[Commit]) -> None:
    state = fold("s", log)
    assert (state.seq, state.fence) == (log[-1].header.seq, log[-1].header.fence)


@given(logs(), st.data())
def test_folding_in_two_parts_is_folding_at_once(log: list[Commit], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(log)))
    state = fold("s", log[:cut])
    for later in log[cut:]:
        apply(state, later.header, records_of("s", later))
    assert state == fold("s", log)


@given(logs())
def test_the_state_that_a_writer_keeps_is_the_state_that_a_reader_folds(log: list[Commit]) -> None:
    live = SessionState(session="s")
    for one in log:
        live.seq, live.fence = one.header.seq, one.header.fence
        for record in records_of("s", one):
            apply_record(live, record)
    assert live == fold("s", log)


@given(logs(), st.data())
def test_folding_from_a_snapshot_is_folding_from_the_beginning(
    log: list[Commit], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(log)))
    before, fence = fold("s", log[:cut]), log[cut - 1].header.fence
    taken = Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(before))))
    snapshot = commit(cut + 1, fence, [taken], snapshot=True)
    later = [commit(one.header.seq + 1, one.header.fence, records_of("s", one)) for one in log[cut:]]
    assert fold("s", [snapshot, *later]) == fold("s", [*log[:cut], snapshot, *later])


@given(logs())
def test_folding_leaves_the_commits_as_they_were(log: list[Commit]) -> None:
    kept = copy.deepcopy(log)
    fold("s", log)
    assert log == kept


@given(logs(), st.data())
def test_a_missing_a_doubled_and_a_moved_commit_are_a_broken_log(
    log: list[Commit], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(log) - 2))
    missing = [*log[:place], *log[place + 1 :]]
    doubled = [*log[: place + 1], *log[place:]]
    moved = [*log[:place], log[place + 1], log[place], *log[place + 2 :]]
    for broken in (missing, doubled, moved):
        with pytest.raises(LogBroken):
            fold("s", broken)


@given(logs(), records, st.data())
def test_records_out_of_order_are_a_broken_log_and_nothing_worse(
    log: list[Commit], foreign: AnyRecord, data: st.DataObject
) -> None:
    flat = [(one.header.fence, record) for one in log for record in records_of("s", one)]
    place, other = (data.draw(st.integers(0, len(flat) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["drop", "double", "swap", "foreign"])):
        case "drop":
            del flat[place]
        case "double":
            flat.insert(other, flat[place])
        case "swap":
            flat[place], flat[other] = flat[other], flat[place]
        case _:
            flat.insert(place, (flat[place][0], foreign))
    state = SessionState(session="s")
    for fence, record in flat:
        before = copy.deepcopy(state)
        state.fence = before.fence = fence
        try:
            apply_record(state, record)
        except LogBroken:
            assert state == before or isinstance(record, Snapshot)
            break
    with contextlib.suppress(LogBroken):
        fold("s", [commit(seq, fence, [record]) for seq, (fence, record) in enumerate(flat, 1)])


@given(logs())
def test_nothing_that_was_billed_is_lost_or_counted_twice(log: list[Commit]) -> None:
    billed = Usage()
    for one in log:
        for record in records_of("s", one):
            if isinstance(record, CallOutcome | CallRetracted) and record.usage is not None:
                billed = billed + record.usage
    state = fold("s", log)
    assert state.usage + (state.turn.usage if state.turn else Usage()) == billed


@pytest.mark.full
@settings(max_examples=200)
@given(logs(longest=150), st.data())
def test_long_logs_keep_every_promise(log: list[Commit], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(log)))
    state = fold("s", log[:cut])
    snapshot = Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(state))))
    mended = _renumbered(
        [*log[:cut], commit(0, log[cut - 1].header.fence, [snapshot], snapshot=True), *log[cut:]]
    )
    assert fold("s", mended[cut:]) == fold("s", mended)


def _renumbered(log: Sequence[Commit]) -> list[Commit]:
    return [Commit(structs.replace(one.header, seq=seq), one.body) for seq, one in enumerate(log, 1)]
