"""Logs of every released version fold for ever. See `README.md` beside this."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest

from outlast.codec import decode_input
from outlast.fold import SessionState, apply, fold
from outlast.fold import records_of as of_commit
from outlast.ids import blob_hash
from outlast.records import AnyInput, AnyRecord, CallIntent, Snapshot
from outlast.records.events import face
from outlast.snapshots import adopt, whole
from outlast.squeezing import unsqueeze
from outlast.unfolding import unfold
from tests.histories.schema import schema
from tests.histories.stored import HERE, History, records_of, summary

HISTORIES = sorted(
    path for path in HERE.glob("v*/*.json") if path.suffixes == [".json"] and path.stem != "schema"
)


def _read(path: Path) -> History:
    return msgspec.json.decode(path.read_bytes(), type=History)


def _named(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", HISTORIES, ids=_named)
async def test_a_stored_history_means_what_it_meant(path: Path) -> None:
    expected = msgspec.json.decode(path.with_suffix(".expected.json").read_bytes())
    assert msgspec.json.decode(msgspec.json.encode(await summary(_read(path)))) == expected


@pytest.mark.parametrize("path", HISTORIES, ids=_named)
def test_a_stored_blob_has_the_name_that_its_bytes_had(path: Path) -> None:
    for name, data in _read(path).blobs.items():
        assert blob_hash("default", unsqueeze(b64decode(data))) == name


@pytest.mark.parametrize("path", HISTORIES, ids=_named)
async def test_a_stored_history_folds_from_its_snapshots(path: Path) -> None:
    history = _read(path)
    commits = history.commits()
    for at, commit in enumerate(commits):
        if commit.header.snapshot:
            early, late = fold(history.session, commits), await _from(history, at)
            late.held = early.held  # a hint that the snapshot of this release did not have
            late.talk = early.talk  # likewise
            for mine, other in ((late.turn, early.turn), (late.cut, early.cut)):
                if mine is not None and other is not None:  # nor how far the tenant's counters reach
                    mine.counted, mine.counted_s = other.counted, other.counted_s
            assert late == early


async def _from(history: History, at: int) -> SessionState:
    """The state as a claim reads it whose newest snapshot is that of the commit at this place."""

    async def get_blobs(names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: b64decode(history.blobs[name]) for name in names}

    commits = history.commits()[at:]
    state = SessionState(session=history.session, seq=commits[0].header.seq - 1)
    snapshot = of_commit(history.session, commits[0])[0]
    assert isinstance(snapshot, Snapshot)
    adopt(state, await whole(snapshot, get_blobs))
    for commit in commits:
        apply(state, commit.header, of_commit(history.session, commit))
    return state


def test_a_stored_snapshot_has_parts_in_nodes_and_one_that_was_cut() -> None:
    history = _read(HERE / "v1" / "extra-snapshots.json")
    found = [record for _, of in records_of(history) for record in of if isinstance(record, Snapshot)]
    newest = found[-1].kept
    assert len(newest.calls[1].levels) == 2
    assert newest.left == (21,)
    counts = [record.kept.files["log.jsonl"].count for record in found if record.kept.files]
    assert counts != sorted(counts)
    state = fold(history.session, history.commits())
    assert state.turn is not None
    assert state.turn.handed == 0


def test_a_stored_conversation_can_be_gone_on_with() -> None:
    history = _read(HERE / "v1" / "extra-assistant.json")
    state = fold(history.session, history.commits())
    assert state.talk is not None
    assert (state.talk.turn, state.talk.tools) == (2, [])
    assert state.talk.answer.value()["message"]["parts"] == [{"kind": "text", "text": "There is none."}]
    assert state.turn is not None
    (refund,) = [call for call in state.turn.calls.values() if call.intent.name == "refund"]
    assert (refund.tries, refund.begun) == (1, False)


def test_every_kind_of_record_and_input_stands_in_a_history() -> None:
    histories = [_read(path) for path in HISTORIES]
    records = {type(record) for history in histories for _, of in records_of(history) for record in of}
    inputs = {
        type(decode_input(b64decode(body))) for history in histories for body in history.inputs.values()
    }
    assert records == set(get_args(AnyRecord))
    assert inputs == set(get_args(AnyInput))


@pytest.mark.parametrize("path", sorted(HERE.glob("v*/schema.json")), ids=_named)
def test_what_was_once_written_is_still_understood(path: Path) -> None:
    """Nothing is removed, no tag, type or default changes its meaning; what is added has a default."""
    now = schema()
    stored = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    for name, then in stored.items():
        fields: dict[str, dict[str, Any]] = now[name]["fields"]
        known: dict[str, dict[str, Any]] = then["fields"]
        assert now[name]["tag"] == then["tag"]
        for field, shape in known.items():
            assert _still(fields.get(field), shape), f"{name}.{field} was {shape}"
        for field, shape in fields.items():
            assert field in known or "default" in shape, f"{name}.{field} was added without a default"


def _still(now: dict[str, Any] | None, then: dict[str, Any]) -> bool:
    if now is None or now.get("default", "none") != then.get("default", "none"):
        return False
    if isinstance(then["type"], list):
        return set(cast("list[str]", then["type"])) <= set(cast("list[str]", now["type"]))
    return now["type"] == then["type"]


@pytest.mark.parametrize(
    "now",
    [
        None,
        {"type": ["a", "b"], "default": "b"},
        {"type": ["a", "b"]},
        {"type": ["a", "c"], "default": "a"},
        {"type": "str", "default": "a"},
    ],
)
def test_a_field_that_is_gone_or_means_something_else_is_noticed(now: dict[str, Any] | None) -> None:
    then = {"type": ["a", "b"], "default": "a"}
    assert not _still(now, then)
    assert _still({"type": ["a", "b", "c"], "default": "a"}, then)


def test_what_this_release_writes_is_in_its_schema() -> None:
    """Whatever is added is stored as well, so that the next release cannot take it back."""
    newest = max(HERE.glob("v*/schema.json"))
    stored = msgspec.json.decode(newest.read_bytes(), type=dict[str, dict[str, Any]])
    for name, now in schema().items():
        assert set(now["fields"]) == set(stored[name]["fields"]), f"add the new fields of {name} to {newest}"


@pytest.mark.parametrize("path", HISTORIES, ids=_named)
def test_a_stored_history_has_a_picture(path: Path) -> None:
    history = _read(path)
    events = [
        face(record, f"{header.seq}.{at}", header.fence)
        for header, records in records_of(history)
        for at, record in enumerate(records)
    ]
    turns = unfold(events).turns
    calls = [call for turn in turns for lane in turn.lanes for call in lane.calls]
    intents = [
        record for _, records in records_of(history) for record in records if isinstance(record, CallIntent)
    ]
    assert [call.call for call in sorted(calls, key=lambda call: call.call)] == [one.call for one in intents]
    state = fold(history.session, history.commits())
    for turn in turns:
        assert (turn.status == "open") == (state.turn is not None and turn.turn == state.turn.turn)
        assert turn.status == "open" or turn.attempts[-1].ended
