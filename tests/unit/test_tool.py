import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
import pytest

from outlast import Done, NotDone, Tool, ToolFailed, ToolIO, Unsure, Verdict, tool
from outlast.engine.effects import CallIO
from outlast.errors import BadTool
from outlast.tool import result_text
from tests.unit.future_tools import made_inside, ship
from tests.unit.no_documents import no_documents

IO = CallIO(lambda: "key", "s", 1, 1, 1, lambda _: None, no_documents())


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Money:
    cents: int
    currency: str = "EUR"


class Line(msgspec.Struct):
    item: str
    price: Money


class Place(TypedDict):
    city: str


@tool
async def order(  # noqa: PLR0917 - one argument of each kind
    io: ToolIO,
    name: Annotated[str, msgspec.Meta(description="Who it is for", min_length=1)],
    count: Annotated[int, msgspec.Meta(ge=1)],
    weight: float,
    gift: bool,  # noqa: FBT001 - as users write it
    size: Size,
    lines: list[Line],
    to: Place,
    when: Annotated[datetime, msgspec.Meta(tz=True)],
    by_number: dict[int, str],
    speed: Literal["slow", "fast"] = "slow",
    note: str | None = None,
    extra: str | list[str] = "",
    tags: list[str] = [],  # noqa: B006 - as users write it
    old: Money = Money(5),  # noqa: B008 - as users write it
) -> object:
    """Place an order.

    It is paid at once.
    """
    tags.append("seen")
    return [name, count, weight, gift, size, lines, to, when, by_number, speed, note, extra, tags, old]


GIVEN: Mapping[str, Any] = {
    "name": "Ada",
    "count": 2,
    "weight": 1,
    "gift": True,
    "size": "large",
    "lines": [{"item": "book", "price": {"cents": 100}}],
    "to": {"city": "Ghent"},
    "when": "2026-01-02T03:04:05Z",
    "by_number": {"7": "seven"},
}


async def test_arguments_arrive_as_they_are_annotated() -> None:
    got = cast("list[object]", await order.call(IO, GIVEN))
    assert got == [
        "Ada",
        2,
        1.0,
        True,
        Size.LARGE,
        [Line("book", Money(100))],
        {"city": "Ghent"},
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        {7: "seven"},
        "slow",
        None,
        "",
        ["seen"],
        Money(5),
    ]
    assert type(got[2]) is float


async def test_a_default_that_a_tool_changes_is_whole_again_in_the_next_call() -> None:
    first, second = [cast("list[object]", await order.call(IO, GIVEN)) for _ in range(2)]
    assert first[12] == second[12] == ["seen"]


def test_the_model_reads_what_the_function_says() -> None:
    assert (order.name, order.description) == ("order", "Place an order.\n\nIt is paid at once.")
    schema = order.schema
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert schema["required"] == list(GIVEN)
    told = schema["properties"]
    assert told["name"] == {"type": "string", "minLength": 1, "description": "Who it is for"}
    assert told["count"] == {"type": "integer", "minimum": 1}
    assert (told["weight"], told["gift"]) == ({"type": "number"}, {"type": "boolean"})
    assert told["size"] == {"$ref": "#/$defs/Size"}
    assert told["lines"] == {"type": "array", "items": {"$ref": "#/$defs/Line"}}
    assert told["when"] == {"type": "string", "format": "date-time"}
    assert told["speed"] == {"enum": ["fast", "slow"], "default": "slow"}
    assert told["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert [one["type"] for one in told["extra"]["anyOf"]] == ["string", "array"]
    assert set(schema["$defs"]) == {"Size", "Line", "Money", "Place"}
    assert schema["$defs"]["Size"]["enum"] == ["large", "small"]
    assert schema["$defs"]["Money"]["required"] == ["cents"]
    msgspec.json.encode(schema)


def test_a_tool_without_arguments_has_an_empty_schema() -> None:
    @tool
    async def look(io: ToolIO) -> int:
        return 1

    assert (look.schema["properties"], look.description) == ({}, "look")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": "2"}, r"Expected `int`, got `str` - at `\$.count`"),
        ({"count": 0}, r"Expected `int` >= 1 - at `\$.count`"),
        ({"count": None}, "Expected `int`"),
        ({"size": "huge"}, "Invalid enum value 'huge'"),
        ({"to": {}}, "missing required field `city`"),
        ({"lines": [{"item": "book", "price": {"cents": "1"}}]}, r"at `\$.lines\[0\].price.cents`"),
        ({"unknown": 1}, "unknown field `unknown`"),
        ({"when": "yesterday"}, "Invalid RFC3339"),
        ({"by_number": {"seven": "7"}}, "Expected `int`"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    change: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(ToolFailed, match=reason) as caught:
        await order.call(IO, {**GIVEN, **change})
    assert str(caught.value).startswith("The arguments do not fit order: ")


async def test_arguments_that_are_no_object_are_told_to_the_model() -> None:
    with pytest.raises(ToolFailed, match="Expected `object`, got `array`"):
        await order.call(IO, cast("Mapping[str, Any]", ["Ada"]))


async def test_annotations_may_be_text() -> None:
    assert ship.schema["required"] == ["order"]
    assert ship.schema["$defs"]["Order"]["properties"]["items"] == {
        "type": "array",
        "items": {"type": "string"},
    }
    assert await made_inside().call(IO, {"parcel": {"grams": 5}}) == 5


async def test_a_method_can_be_a_tool() -> None:
    class Shop:
        async def price(self, io: ToolIO, item: str) -> int:
            """Price of an item."""
            return len(item)

    assert await tool(Shop().price).call(IO, {"item": "book"}) == 4


async def test_a_function_with_some_arguments_given_can_be_a_tool() -> None:
    async def price(io: ToolIO, item: str, *, factor: int) -> int:
        return len(item) * factor

    made = tool(name="price")(functools.partial(price, factor=3))
    assert await made.call(IO, {"item": "book"}) == 12


def test_a_wrapped_function_keeps_its_arguments() -> None:
    def logged(function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        @functools.wraps(function)
        async def inner(*args: object, **more: object) -> object:
            return await function(*args, **more)

        return inner

    @tool
    @logged
    async def look(io: ToolIO, item: str) -> str:
        """Look."""
        return item

    assert (look.name, look.schema["required"]) == ("look", ["item"])


async def _good(io: ToolIO, item: str) -> int:
    return len(item)


def _sync(io: ToolIO, item: str) -> int:
    return len(item)


async def _no_io(item: str) -> int:
    return len(item)


async def _io_by_name(*, io: ToolIO) -> None: ...


async def _no_annotation(io: ToolIO, item: object) -> None: ...


del _no_annotation.__annotations__["item"]


async def _many(io: ToolIO, *items: str) -> None: ...


async def _any_name(io: ToolIO, **items: str) -> None: ...


async def _by_place(io: ToolIO, item: str, /) -> None: ...


async def _no_such_type(io: ToolIO, item: object) -> None: ...


async def _no_type(io: ToolIO, item: object) -> None: ...


_no_such_type.__annotations__["item"] = "Nowhere"
_no_type.__annotations__["item"] = "1 +"


async def _no_json(io: ToolIO, item: complex) -> None: ...


async def _two_structs(io: ToolIO, item: Line | Money) -> None: ...


async def _ask(io: ToolIO, item: str) -> Verdict:
    return Done(item)


async def _ask_other(io: ToolIO, order: str) -> Verdict:
    return Done(order)


async def _other(io: ToolIO, order: str) -> None: ...


@tool
async def _undo(io: ToolIO, item: str, why: str = "") -> None: ...


def _ask_sync(io: ToolIO, item: str) -> Verdict:
    return Done(item)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_sync, "it must be an `async def`"),
        (_no_io, "its first parameter must be `io`"),
        (_io_by_name, "its first parameter must be `io`"),
        (_no_annotation, "the argument 'item' has no annotation"),
        (_many, r"`\*items: str` cannot be described"),
        (_any_name, r"`\*\*items: str` cannot be described"),
        (_by_place, "`item: str` cannot be described"),
        (_no_such_type, "the annotation 'Nowhere' of 'item' cannot be read"),
        (_no_type, "the annotation '1 \\+' of 'item' cannot be read"),
        (_no_json, "complex"),
        (_two_structs, "more than one"),
    ],
)
def test_a_function_that_can_be_no_tool_is_refused_where_it_is_defined(function: object, reason: str) -> None:
    with pytest.raises(BadTool, match=reason):
        tool(cast("Callable[..., Awaitable[object]]", function))


@pytest.mark.parametrize(
    ("promise", "reason"),
    [
        ({"replay": "sometimes"}, "replay='sometimes' is none of never, verify, keyed, safe"),
        ({"replay": "verify"}, "replay='verify' needs verify="),
        ({"replay": "safe", "verify": _ask}, "verify= does not go with replay='safe'"),
        ({"verify": _ask_sync}, "its verify must be an `async def`"),
        ({"verify": _ask_other}, "its verify must take the same arguments"),
        ({"on_doubt": "guess"}, "on_doubt='guess' is none of tell, ask"),
        ({"timeout_s": 0}, "timeout_s=0 is no time"),
        ({"timeout_s": float("inf")}, "timeout_s=inf is no time"),
        ({"key_ttl_s": -1}, "key_ttl_s=-1 is no time"),
        ({"name": "not a name"}, "its name must be"),
        ({"name": "größe"}, "its name must be"),
        ({"name": "x" * 49}, "its name must be"),
        ({"name": "9lives"}, "its name must be"),
        ({"compensate": _ask}, "compensate= must be a tool"),
        ({"compensate": _undo, "replay": "safe"}, "does not go with replay='safe'"),
        ({"compensate": tool(compensate=_undo)(_good)}, "_good has one of its own"),
        ({"compensate": tool(_other)}, "_other needs order, which it does not take itself"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(promise: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadTool, match=reason):
        tool(**promise)(_good)


def test_the_policy_is_what_was_promised() -> None:
    assert tool(_good).policy == "never"
    assert tool(replay="keyed", key_ttl_s=60)(_good).policy == "keyed"
    assert tool(verify=_ask, on_doubt="ask")(_good).policy == "verify"
    assert tool(replay="verify", verify=_ask)(_good).on_doubt == "tell"


def _asking(verify: Callable[..., Awaitable[object]]) -> Tool:
    return tool(verify=cast("Callable[..., Awaitable[Verdict]]", verify))(_good)


async def test_a_verdict_is_the_tool_s_own() -> None:
    async def not_done(io: ToolIO, item: str) -> Verdict:
        return NotDone()

    assert await _asking(_ask).ask(IO, {"item": "book"}) == Done("book")
    assert await _asking(not_done).ask(IO, {"item": "book"}) == NotDone()


async def test_whatever_keeps_a_tool_from_knowing_is_unsure() -> None:
    async def raises(io: ToolIO, item: str) -> Verdict:
        raise ConnectionError("no network")

    async def wrong(io: ToolIO, item: str) -> bool:
        return True

    assert await _asking(raises).ask(IO, {"item": "book"}) == Unsure(
        "verify raised ConnectionError: no network"
    )
    assert await _asking(wrong).ask(IO, {"item": "book"}) == Unsure(
        "verify returned bool, not Done, NotDone or Unsure"
    )
    assert await tool(_good).ask(IO, {"item": "book"}) == Unsure("the tool has no verify")
    assert isinstance(await _asking(_ask).ask(IO, {"item": 1}), Unsure)


def test_a_result_is_read_as_text_or_as_json() -> None:
    assert result_text("as it is") == "as it is"
    assert result_text({"a": [1, None]}) == '{"a":[1,null]}'
