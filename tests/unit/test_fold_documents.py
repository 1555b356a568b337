"""What a log makes of edits: dense versions, one order, nothing of a call before it or behind its outcome."""

import msgspec
import pytest

from outlast.errors import LogBroken
from outlast.fold import SessionState, apply_record, fold
from outlast.records import (
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    DocumentEdited,
    EditRejected,
    Payload,
    SessionOpened,
    Snapshot,
    TurnOpened,
)
from tests.property.strategies import commit, inline


def state_of(*records: AnyRecord) -> SessionState:
    """The state after a session was opened and `records` came."""
    state = SessionState(session="s")
    for record in (SessionOpened("s", "agent", "scripted"), *records):
        state.fence += isinstance(record, AttemptOpened)
        apply_record(state, record)
    return state


CALL = (AttemptOpened("w"), TurnOpened(1, "in", inline("go")), CallIntent(1, 1, "main", 0, "tool", "plan"))


def test_a_document_is_what_its_newest_edit_left_and_a_rejected_one_changes_nothing() -> None:
    edits = [DocumentEdited("plan", version, inline([version]), shape=version) for version in (1, 2)]
    state = state_of(*edits, EditRejected("plan", "no"), DocumentEdited("notes", 1, Payload(ref="b")))
    assert (state.version_of("plan"), state.version_of("notes"), state.version_of("none")) == (2, 1, 0)
    assert state.documents["plan"].value == inline([2])
    assert (state.documents["plan"].shape, state.documents["notes"].value.ref) == (2, "b")


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_version_that_is_not_the_next_is_a_broken_log(version: int) -> None:
    state = state_of(DocumentEdited("plan", 1, inline(1)))
    with pytest.raises(LogBroken, match="not 2"):
        apply_record(state, DocumentEdited("plan", version, inline(2)))
    assert state.version_of("plan") == 1


def test_an_edit_of_a_call_that_is_not_open_is_a_broken_log() -> None:
    edited = DocumentEdited("plan", 1, inline(1), call=1)
    assert state_of(*CALL, edited).version_of("plan") == 1
    for log in ((), (*CALL, CallOutcome(1, 1, "ok"))):
        with pytest.raises(LogBroken, match=r"turn 0 is not open|call 1 is not open"):
            apply_record(state_of(*log), edited)


def test_documents_stand_in_snapshots() -> None:
    first = commit(1, 0, [SessionOpened("s", "agent", "scripted")])
    second = commit(2, 0, [DocumentEdited("plan", 1, inline({"a": 1}), shape=3)])
    state = fold("s", [first, second])
    taken = Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(state))))
    third = commit(3, 0, [taken, DocumentEdited("plan", 2, inline({"a": 2}))], snapshot=True)
    assert fold("s", [third]).documents == fold("s", [first, second, third]).documents
    assert fold("s", [third]).version_of("plan") == 2
