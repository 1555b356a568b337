import copy
from collections.abc import Sequence

import msgspec
import pytest

from outlast.errors import FormatTooNew, LogBroken
from outlast.fold import HELD_LIMIT, SessionState, apply, apply_record, fold, remember
from outlast.records import (
    FORMAT,
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    InputDropped,
    Mirrored,
    Payload,
    PromptQueued,
    SessionOpened,
    Snapshot,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Usage,
    Verdict,
)
from outlast.world.commit import Commit, Header
from tests.property.strategies import commit, inline

OPENED = SessionOpened("s", "agent", "scripted")
PROMPT = inline("do it")
TURN = TurnOpened(1, "in-1", PROMPT)
TOOL = CallIntent(1, 1, "main", 0, "tool", "refund", harness_id="toolu_1")
DONE = CallOutcome(1, 1, "ok", inline("done"))


def _log(*bodies: Sequence[AnyRecord], fences: Sequence[int] = ()) -> list[Commit]:
    """Commit 1 opens the session, commit 2 an attempt; then `bodies`."""
    all_of = [[OPENED], [AttemptOpened("w1")], *bodies]
    at = [0, 1, *(fences or [1] * len(bodies))]
    return [commit(seq, fence, list(of)) for seq, (fence, of) in enumerate(zip(at, all_of, strict=True), 1)]


def _state(*records: AnyRecord) -> SessionState:
    return fold("s", _log(records) if records else _log())


def _snapshot(state: SessionState) -> Snapshot:
    return Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(state))))


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([OPENED], "a second time"),
        ([_snapshot(SessionState())], "not announced"),
        ([AttemptOpened("w2")], "two attempts"),
        ([TURN, TURN], "while another is open"),
        ([TurnOpened(2, "in-1", PROMPT)], "not the next"),
        ([TOOL], "turn 1 is not open"),
        ([TURN, TurnSettled(1, "done"), TOOL], "turn 1 is not open"),
        ([TURN, TurnSettled(1, "done"), TurnSettled(1, "done")], "turn 1 is not open"),
        ([TURN, SteerTaken(2, "in-2", 1)], "turn 2 is not open"),
        ([TURN, TurnParked(2, "stuck")], "turn 2 is not open"),
        ([TurnReleased(1)], "turn 1 is not open"),
        ([AttemptEnded(1, "failed")], "turn 1 is not open"),
        ([TURN, CallStarted(1, 1)], "call 1 is not open"),
        ([TURN, DONE], "call 1 is not open"),
        ([TURN, TOOL, CallOutcome(1, 2, "ok")], "turn 2 is not open"),
        ([TURN, TOOL, TOOL], "call 1 is not the next"),
        ([TURN, msgspec.structs.replace(TOOL, call=2)], "call 2 is not the next"),
        ([TURN, msgspec.structs.replace(TOOL, ordinal=1)], "call 1 has ordinal 1, not 0"),
        ([TURN, TOOL, DONE, DONE], "call 1 is not open"),
        ([TURN, TOOL, DONE, CallStarted(1, 1)], "call 1 is not open"),
        ([TURN, TOOL, DONE, CallRetracted(1, 1)], "call 1 is not open"),
        ([TURN, TOOL, DONE, Verdict(1, 1, "done")], "call 1 is not open"),
        ([TURN, TOOL, TurnSettled(1, "done")], "settled with calls open"),
        ([PromptQueued("in-2", PROMPT), PromptQueued("in-2", PROMPT)], "queued twice"),
        ([TURN, PromptQueued("in-1", PROMPT)], "queued twice"),
        ([Mirrored("f", 1, inline(["b"]), 1)], "has 0 lines and goes on at line 1"),
        ([Mirrored("f", -1, inline(["b"]), 1)], "goes on at line -1"),
        ([Mirrored("f", 0, inline(["b"]), -1)], "goes on at line 0"),
    ],
)
def test_a_record_out_of_order_is_a_broken_log(records: list[AnyRecord], reason: str) -> None:
    with pytest.raises(LogBroken, match=reason) as caught:
        _state(*records)
    assert (caught.value.session, caught.value.seq) == ("s", 3)


def test_a_refused_record_changes_nothing() -> None:
    state = _state(TURN, Mirrored("f", 0, inline(["a"]), 1))
    before = copy.deepcopy(state)
    for record in (
        msgspec.structs.replace(TOOL, ordinal=1),
        msgspec.structs.replace(TOOL, call=2),
        Mirrored("other", 1, inline(["b"]), 1),
        Mirrored("f", 5, inline(["b"]), 1),
    ):
        with pytest.raises(LogBroken):
            apply_record(state, record)
        assert state == before


@pytest.mark.parametrize(
    "first", [InputDropped("in-1", "why"), AttemptOpened("w1"), PromptQueued("in-1", PROMPT)]
)
def test_a_log_begins_with_the_opening_of_its_session(first: AnyRecord) -> None:
    for body in ([first], [first, OPENED], []):
        with pytest.raises(LogBroken):
            fold("s", [commit(1, 0, body)])


def test_a_fence_never_falls() -> None:
    with pytest.raises(LogBroken, match="fence 0 comes after 1"):
        fold("s", _log([InputDropped("in-1", "why")], fences=[0]))


def test_a_header_counts_the_events_of_its_body() -> None:
    header = Header(1, 0, FORMAT, 2, "")
    with pytest.raises(LogBroken, match="counts 2 events and holds 1"):
        apply(SessionState(session="s"), header, [OPENED])


def test_a_newer_format_is_not_folded() -> None:
    later = Commit(Header(1, 0, FORMAT + 1, 1, ""), b"[]")
    with pytest.raises(FormatTooNew):
        fold("s", [later])


def test_an_input_that_was_dropped_leaves_no_trace() -> None:
    after = _state(InputDropped("in-1", "why"))
    assert msgspec.structs.replace(after, tail=after.tail - 1) == _state_at(3)


def _state_at(seq: int) -> SessionState:
    state = _state()
    state.seq = seq
    return state


def test_prompts_wait_in_order_and_leave_the_queue_as_their_turn_opens() -> None:
    state = _state(PromptQueued("in-1", PROMPT), PromptQueued("in-2", PROMPT), TURN)
    assert [prompt.input for prompt in state.queue] == ["in-2"]
    assert state.turn is not None
    assert (state.turn.input, state.next_turn) == ("in-1", 2)


def test_a_call_knows_who_wrote_it_and_who_let_it_go() -> None:
    log = _log([TURN, TOOL], [AttemptOpened("w2")], [CallStarted(1, 1)], fences=[1, 2, 2])
    turn = fold("s", log).turn
    assert turn is not None
    assert (turn.calls[1].opened, turn.calls[1].started) == (1, 2)
    assert turn.calls[1].open


def test_the_recovery_budget_counts_attempts_in_which_nothing_was_settled() -> None:
    def fruitless(*bodies: Sequence[AnyRecord], fences: Sequence[int]) -> int:
        turn = fold("s", _log([TURN, TOOL], *bodies, fences=[1, *fences])).turn
        assert turn is not None
        return turn.fruitless

    two, three = [AttemptOpened("w2")], [AttemptOpened("w3")]
    assert fruitless(fences=[]) == 0
    assert fruitless(two, three, fences=[2, 3]) == 2
    assert fruitless(two, [DONE], three, fences=[2, 2, 3]) == 1
    assert fruitless(two, [TurnParked(1, "stuck"), TurnReleased(1)], fences=[2, 2]) == 0


def test_attempts_of_a_turn_are_kept_with_what_they_settled_and_why_they_ended() -> None:
    log = _log([TURN, TOOL], [AttemptOpened("w2"), DONE, AttemptEnded(1, "handed_over")], fences=[1, 2])
    turn = fold("s", log).turn
    assert turn is not None
    assert [(one.fence, one.worker, one.settled, one.ended) for one in turn.attempts] == [
        (1, "w1", 0, ""),
        (2, "w2", 1, "handed_over"),
    ]


def test_a_parked_turn_is_parked_until_it_is_released_or_settled() -> None:
    parked = TurnParked(1, "diverged", {"why": 1})
    state = _state(TURN, parked)
    assert state.turn is not None
    assert state.turn.parked == parked
    released = _state(TURN, parked, TurnReleased(1, "somebody"))
    assert released.turn is not None
    assert released.turn.parked is None
    assert _state(TURN, parked, TurnSettled(1, "cancelled")).turn is None


def test_void_answers_are_paid_for() -> None:
    model = CallIntent(1, 1, "main", 0, "model", "m")
    cut, whole = Usage(10, 1, cost_usd=0.25), Usage(10, 5, cost_usd=0.5)
    state = _state(TURN, model, CallRetracted(1, 1, usage=cut), CallOutcome(1, 1, "ok", usage=whole))
    assert state.turn is not None
    assert state.turn.usage == state.turn.calls[1].spent == Usage(20, 6, cost_usd=0.75)
    apply_record(state, TurnSettled(1, "done"))
    assert state.usage == Usage(20, 6, cost_usd=0.75)
    assert state.last is not None


def test_what_we_told_in_a_harness_s_name_outlives_its_turn() -> None:
    doubt = CallOutcome(1, 1, "in_doubt", inline("perhaps"))
    assert _state(TURN, TOOL, doubt, TurnSettled(1, "done")).told == {"toolu_1": inline("perhaps")}
    assert _state(TURN, TOOL, DONE, TurnSettled(1, "done")).told == {}


@pytest.mark.parametrize(
    ("position", "counts"), [(5, [3, 2, 1]), (4, [3, 1, 1]), (3, [3, 1]), (2, [2, 1]), (0, [1])]
)
def test_a_mirrored_file_can_be_cut_at_any_line(position: int, counts: list[int]) -> None:
    state = _state(
        Mirrored("f", 0, inline(["a", "b", "c"]), 3),
        Mirrored("f", 3, inline(["d", "e"]), 2),
        Mirrored("f", position, inline(["z"]), 1),
    )
    file = state.files["f"]
    assert (file.counts, file.lines, len(file.pieces)) == (counts, position + 1, len(counts))
    assert file.pieces[-1] == inline(["z"])


def test_a_file_that_is_only_cut_keeps_no_empty_piece() -> None:
    state = _state(Mirrored("f", 0, inline(["a", "b"]), 2), Mirrored("f", 1, inline([]), 0))
    assert (state.files["f"].counts, len(state.files["f"].pieces)) == ([1], 1)


def test_the_blobs_that_commits_name_are_remembered_up_to_a_bound() -> None:
    state = SessionState(session="s")
    apply(state, Header(1, 0, FORMAT, 1, "", refs=("blob-1", "blob-2")), [OPENED])
    assert state.held == ["blob-1", "blob-2"]
    assert remember(state, [f"more-{at}" for at in range(HELD_LIMIT - 2)]) == ()
    forgotten = remember(state, ["last"])
    assert list(forgotten[:2]) == ["blob-1", "blob-2"]
    assert len(state.held) + len(forgotten) == HELD_LIMIT + 1
    assert state.held[-1] == "last"


def test_a_fold_begins_at_a_snapshot() -> None:
    before = _state(TURN, TOOL)
    log = [commit(4, 1, [_snapshot(before)], snapshot=True), commit(5, 1, [DONE])]
    state = fold("s", log)
    assert state.turn is not None
    assert (state.seq, state.turn.calls[1].outcome) == (5, DONE)


def test_a_snapshot_on_the_way_changes_nothing() -> None:
    wrong = _snapshot(SessionState(opened=OPENED, next_call=99))
    log = [*_log([TURN]), commit(4, 1, [wrong], snapshot=True)]
    assert fold("s", log).next_call == 1


@pytest.mark.parametrize(
    "body",
    [
        [],
        [InputDropped("in-1", "why"), _snapshot(SessionState(opened=OPENED))],
        [InputDropped("in-1", "why")],
        [Snapshot(Payload())],
        [Snapshot(inline({"next_call": "one"}))],
        [Snapshot(Payload(ref="blob", size=9000))],
        [_snapshot(SessionState())],
    ],
)
def test_a_snapshot_that_is_none_is_a_broken_log(body: list[AnyRecord]) -> None:
    with pytest.raises(LogBroken):
        fold("s", [commit(4, 1, body, snapshot=True)])
