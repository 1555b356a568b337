"""What an edit makes of a value, and which edits are refused."""

from typing import Any

import msgspec
import pydantic
import pytest

from outlast.documents import SIZE_LIMIT, Document, Shape, edited, shape_of, whole, wish
from outlast.errors import BadEdit, BadPayload
from outlast.records import AnyEdit, Delete, Merge, Set


class Step(msgspec.Struct):
    title: str
    done: bool = False


class Plan(msgspec.Struct):
    steps: list[Step] = []


class Note(pydantic.BaseModel):
    text: str


def after(value: Any, *edits: AnyEdit, shape: Shape | None = None) -> Any:
    return msgspec.json.decode(edited(wish("plan", edits, None), value, 0, shape))


PLACES: list[tuple[Any, AnyEdit, Any]] = [
    (None, Set({"a": 1}), {"a": 1}),
    ([1], Set(None), None),
    (None, Set(1, "/a/b"), {"a": {"b": 1}}),
    ({"a": [1, 2]}, Set(9, "/a/0"), {"a": [9, 2]}),
    ({"a": [1, 2]}, Set(9, "/a/-"), {"a": [1, 2, 9]}),
    ({"a": [1, 2]}, Set(9, "/a/2"), {"a": [1, 2, 9]}),
    ({"a": [{}]}, Set("yes", "/a/0/done"), {"a": [{"done": "yes"}]}),
    ({"a/b": 1, "m~n": 2}, Set(3, "/a~1b"), {"a/b": 3, "m~n": 2}),
    ({"a/b": 1, "m~n": 2}, Delete("/m~0n"), {"a/b": 1}),
    ({"": 1}, Delete("/"), {}),
    ({"a": 1}, Delete("/b/c"), {"a": 1}),
    ({"a": {"b": 1, "c": 2}}, Delete("/a/b"), {"a": {"c": 2}}),
    ({"a": [1, 2, 3]}, Delete("/a/1"), {"a": [1, 3]}),
    ([[1, 2]], Delete("/0/0"), [[2]]),
    ({"a": 1}, Delete(""), None),
    (None, Delete("/a"), None),
    (None, Set("look", "/steps/-"), {"steps": ["look"]}),
    ({"a": None}, Merge({"b": 1}, "/a/-"), {"a": [{"b": 1}]}),
    (None, Merge({"a": 1}, "/x"), {"x": {"a": 1}}),
]


@pytest.mark.parametrize(("before", "edit", "then"), PLACES)
def test_an_edit_changes_its_place_and_nothing_else(before: Any, edit: AnyEdit, then: Any) -> None:
    assert after(before, edit) == then


@pytest.mark.parametrize(
    ("before", "patch", "then"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_does_what_rfc_7396_says(before: Any, patch: Any, then: Any) -> None:
    assert after(before, Merge(patch)) == then


@pytest.mark.parametrize(
    ("before", "edit", "reason"),
    [
        ({}, Set(1, "a"), "no JSON pointer"),
        ({"a": 1}, Set(1, "/a/b"), "there is no 'b' in a int"),
        ([1], Set(1, "/2"), "a list of 1 has no place '2'"),
        ([1], Set(1, "/01"), "has no place '01'"),
        ([1], Delete("/-"), "has no place '-'"),
        ("text", Delete("/a"), "there is no 'a' in a str"),
        (None, Set("x" * SIZE_LIMIT), "bytes of JSON are more than 65,536"),
    ],
)
def test_an_edit_that_finds_no_place_is_refused_with_the_reason(
    before: Any, edit: AnyEdit, reason: str
) -> None:
    with pytest.raises(BadEdit, match=reason):
        after(before, edit)


def test_edits_are_done_in_order_and_the_version_is_looked_at_first() -> None:
    assert after(None, Set([1]), Set(2, "/-"), Merge(3, "/0")) == [3, 2]
    with pytest.raises(BadEdit, match="it has version 4, not 3"):
        edited(wish("plan", [Set(1)], 3), None, 4, None)
    assert edited(wish("plan", [Set(1)], 4), None, 4, None) == b"1"


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (Plan, {"steps": [{"title": "a"}]}, {"steps": [{"title": 1}]}),
        (Note, {"text": "a"}, {"text": None}),
        (dict[int, str], {"1": "a"}, {"a": "b"}),
    ],
)
def test_a_value_that_does_not_fit_its_shape_is_refused(kind: Any, fits: Any, does_not: Any) -> None:
    assert after(None, Set(fits), shape=Shape(kind)) == fits
    with pytest.raises(BadEdit):
        after(None, Set(does_not), shape=Shape(kind))
    assert Document("plan", 1, fits).read(kind) is not None
    with pytest.raises(BadEdit, match="does not fit"):
        Document("plan", 1, does_not).read(kind)


def test_a_shape_says_how_large_its_document_may_be() -> None:
    text = "x" * SIZE_LIMIT
    assert after(None, Set(text), shape=Shape(str, limit_bytes=2 * SIZE_LIMIT)) == text
    assert shape_of({"plan": Plan}, "plan") == Shape(Plan)
    assert shape_of({"plan": Shape(Plan, 2)}, "plan") == Shape(Plan, 2)
    assert shape_of({"plan": Plan}, "notes") is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "x" * 129])
def test_a_name_that_is_none_and_an_edit_that_says_nothing_are_refused(name: str) -> None:
    with pytest.raises(BadEdit, match="a document's name"):
        wish(name, [Set(1)], None)
    with pytest.raises(BadEdit, match="says nothing"):
        wish("plan", [], None)


def test_an_edit_holds_json_and_a_value_of_its_own() -> None:
    mutable = [1]
    made = wish("plan", [Set(mutable)], None)
    mutable.append(2)
    assert made.edits == (Set([1]),)
    assert wish("plan", [Set(Step("a"))], None).edits == (Set({"title": "a", "done": False}),)
    for bad in (object(), "\ud800"):
        with pytest.raises(BadPayload):
            wish("plan", [Set(bad)], None)
    with pytest.raises(BadEdit, match="none of Set, Merge and Delete"):
        wish("plan", [{"op": "erase"}], None)  # pyright: ignore[reportArgumentType] - users' code


@pytest.mark.parametrize("first", [Set({"list": []}), Merge({"list": []})])
def test_a_wish_that_is_done_anew_does_the_same(first: AnyEdit) -> None:
    wanted = wish("plan", [first, Set(1, "/list/-")], None)
    for _ in range(2):
        assert msgspec.json.decode(edited(wanted, None, 0, None)) == {"list": [1]}
    assert wanted.edits[0] == first


def test_only_a_whole_value_stands_for_its_edit() -> None:
    assert whole(wish("plan", [Merge({}), Set(1)], None))
    assert not whole(wish("plan", [Set(1), Merge({})], None))
    assert not whole(wish("plan", [Set(1, "/a")], None))
