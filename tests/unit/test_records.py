"""Records, their faces and their texts. That old ones stay readable is tested in `tests/histories`."""

from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec
import pytest

from outlast.records import EMPTY, AnyInput, AnyRecord, CallOutcome, Mirrored, Payload, Snapshot, Usage
from outlast.records.events import Event, EventKind, LiveDelta, delta_event, face
from tests.property.strategies import inline

KINDS: tuple[type[AnyRecord], ...] = get_args(AnyRecord)
HIDDEN = {
    "Mirrored",
    "Snapshot",
    "InputDropped",
    "NoticeDue",
    "NoticeTried",
    "ErrandDue",
    "ErrandDone",
    "PromptRecalled",
    "ResultTold",
}


def _least(kind: type[AnyRecord]) -> AnyRecord:
    """A record with nothing but what it must have."""
    required = [field for field in msgspec.structs.fields(kind) if field.required]
    values: dict[Any, Any] = {int: 1, float: 1.0, str: "x", Payload: EMPTY}
    return kind(**{field.name: _any_of(field.type, values) for field in required})


def _any_of(of: Any, values: Mapping[Any, Any]) -> Any:
    """A value of a type: of tuples the empty one, of literals the first."""
    if get_origin(of) is tuple:
        return ()
    return values.get(of) or get_args(of)[0]


def test_tags_are_snake_case_and_each_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in (*KINDS, *get_args(AnyInput))]
    assert len(set(tags)) == len(tags)
    assert all(str(tag).replace("_", "").islower() for tag in tags)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_leaves_out_what_stands_at_its_default(kind: type[AnyRecord]) -> None:
    text = msgspec.json.decode(msgspec.json.encode(_least(kind)))
    assert set(text) == {"is"} | {field.name for field in msgspec.structs.fields(kind) if field.required}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_cannot_be_changed_and_is_documented(kind: type[AnyRecord]) -> None:
    record = _least(kind)
    with pytest.raises(AttributeError):
        setattr(record, kind.__struct_fields__[0], 1)
    assert kind.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_watchers_are_shown_every_record_but_what_is_no_business_of_theirs(kind: type[AnyRecord]) -> None:
    event = face(_least(kind), "4.2", 7)
    assert (event.cursor, event.attempt) == ("4.2", 7)
    assert (event.kind == "hidden") == (kind.__name__ in HIDDEN)
    if "turn" in kind.__struct_fields__ and event.kind != "hidden":
        assert event.turn == 1
    if "call" in kind.__struct_fields__ and event.kind != "hidden":
        assert event.call == getattr(_least(kind), "call")  # noqa: B009 - not every kind has one


def test_every_kind_of_event_comes_from_somewhere() -> None:
    shown = {face(_least(kind), "1.0", 1).kind for kind in KINDS}
    live = {delta_event(LiveDelta(1, 1, kind, "x", 0), "1.1").kind for kind in ("text", "thinking", "output")}
    assert shown | live | {"gap"} == set(get_args(EventKind))


def test_a_delta_is_shown_where_it_belongs() -> None:
    event = delta_event(LiveDelta(3, 2, "output", "more", 10, "sub1", 7), "5.9")
    assert event == Event("5.9", "call.output", 2, 7, "sub1", 3, text="more", offset=10)


def test_a_payload_is_its_value_or_says_that_it_must_be_fetched() -> None:
    assert inline({"a": [1]}).value() == {"a": [1]}
    assert EMPTY.value() is None
    with pytest.raises(ValueError, match="stands behind the blob abc"):
        Payload(ref="abc", size=9000).value()


def test_equal_payloads_are_equal_wherever_they_were_read() -> None:
    read = msgspec.json.decode(msgspec.json.encode(CallOutcome(1, 1, "ok", inline([1, 2]))), type=CallOutcome)
    assert read.result == inline([1, 2])
    assert hash(read.result) == hash(inline([1, 2]))
    assert len({inline([1]), inline([2]), EMPTY, Payload(ref="a"), Payload(ref="b")}) == 5


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 4, 0.5) + Usage(10, 20, 30, 40, 0.25) == Usage(11, 22, 33, 44, 0.75)
    assert Usage() + Usage() == Usage()


def test_hidden_records_are_still_counted_by_cursors() -> None:
    for record in (Mirrored("f", 0, EMPTY), Snapshot(EMPTY)):
        assert face(record, "9.1", 1).cursor == "9.1"
