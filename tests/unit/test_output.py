import dataclasses
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from outlast.codec import canonical
from outlast.errors import AnswerUnfit, BadInput
from outlast.model import Answer, AssistantMessage, Stop, TextPart
from outlast.models.strict import strict
from outlast.output import output_of


class Leaf(msgspec.Struct):
    """A leaf."""

    title: str
    count: Annotated[int, msgspec.Meta(ge=1, description="how many")] = 3


class Tree(msgspec.Struct):
    kids: "list[Tree]"
    leaf: Leaf | None = None


class Order(pydantic.BaseModel):
    id: int = pydantic.Field(gt=3)
    lines: list[str] = []
    state: Literal["open", "closed"] = "open"
    title: str = ""


class Node(pydantic.BaseModel):
    inner: "list[Node]" = []


@dataclasses.dataclass
class Point:
    x: float


def answer(text: str, stop: Stop = "end") -> Answer:
    return Answer(message=AssistantMessage((TextPart(text),)), stop=stop)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Leaf, '{"title": "a"}', Leaf("a")),
        (Tree, '{"kids": [{"kids": []}]}', Tree([Tree([])])),
        (Order, '{"id": 4}', Order(id=4)),
        (Node, '{"inner": [{}]}', Node(inner=[Node()])),
        (Point, '{"x": 1}', Point(1.0)),
        (list[int], '{"value": [1]}', [1]),
        (int | None, '{"value": null}', None),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Leaf, '```json\n{"title": "a"}\n```\n', Leaf("a")),
    ],
)
def test_an_answer_becomes_a_value_of_its_type(kind: Any, text: str, value: object) -> None:
    output = output_of(kind)
    assert output.spec.schema["type"] == "object"
    assert output.read(answer(text)) == value


@pytest.mark.parametrize("kind", [Leaf, Order])
def test_an_answer_that_does_not_fit_says_why_and_what_the_model_said(kind: Any) -> None:
    text = '{"count": 0, "id": "x", "remark": "I am sorry"}'
    with pytest.raises(AnswerUnfit) as caught:
        output_of(kind).read(answer(text))
    assert caught.value.said == text
    assert text in str(caught.value)
    assert kind.__name__ in str(caught.value)


@pytest.mark.parametrize("text", ["", "I would rather not.", "[" * 9999, '{"title": "a"} and more'])
@pytest.mark.parametrize("kind", [Leaf, Order, list[int]])
def test_an_answer_that_is_no_json_is_unfit(kind: Any, text: str) -> None:
    with pytest.raises(AnswerUnfit):
        output_of(kind).read(answer(text))


@pytest.mark.parametrize(("stop", "why"), [("length", "cut"), ("context", "cut"), ("refusal", "declined")])
def test_half_an_answer_is_unfit_even_if_it_could_be_read(stop: Stop, why: str) -> None:
    with pytest.raises(AnswerUnfit, match=why):
        output_of(Leaf).read(answer('{"title": "a"}', stop))


def test_a_long_answer_is_whole_in_the_error_and_short_in_its_text() -> None:
    text = "no " * 10_000
    with pytest.raises(AnswerUnfit) as caught:
        output_of(Leaf).read(answer(text))
    assert caught.value.said == text
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("kind", [object(), print, type("Odd", (), {})])
def test_a_type_that_is_no_json_is_refused(kind: Any) -> None:
    with pytest.raises(BadInput):
        output_of(kind)


def test_the_titles_that_libraries_make_up_are_not_in_a_schema_but_properties_called_so_are() -> None:
    assert canonical(output_of(Leaf).spec) == (
        b'{"name":"Leaf","schema":{"description":"A leaf.","properties":{"count":{"default":3,"description":"how many",'
        b'"minimum":1,"type":"integer"},"title":{"type":"string"}},"required":["title"],"type":"object"}}'
    )
    assert output_of(Order).spec.schema["properties"].keys() == {"id", "lines", "state", "title"}
    assert b'"title":"' not in canonical(output_of(Order).spec)


def test_a_name_is_one_that_providers_take() -> None:
    assert output_of(list[int], name="my answer!").spec.name == "my_answer"
    assert output_of(int | None).spec.name == "answer"


@pytest.mark.parametrize("kind", [Leaf, Order, list[int], int | None, Point])
def test_a_strict_schema_closes_and_requires_everything_and_says_the_rest_in_words(kind: Any) -> None:
    schema = strict(output_of(kind).spec.schema, recursive=False)
    assert schema is not None
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])


def test_a_bound_becomes_words_in_a_strict_schema() -> None:
    schema = strict(output_of(Leaf).spec.schema, recursive=False)
    assert schema is not None
    assert schema["properties"]["count"] == {"type": "integer", "description": 'how many {"minimum":1}'}


@pytest.mark.parametrize("kind", [Tree, Node])
def test_a_type_that_holds_itself_is_strict_only_where_the_provider_takes_it(kind: Any) -> None:
    schema = output_of(kind).spec.schema
    assert strict(schema, recursive=False) is None
    recursive = strict(schema, recursive=True)
    assert recursive is not None
    assert recursive["type"] == "object"


@pytest.mark.parametrize("kind", [dict[str, int], dict[str, Any], Any, tuple[int, str], list[Any]])
def test_what_the_strict_form_cannot_say_has_none(kind: Any) -> None:
    assert strict(output_of(kind).spec.schema, recursive=True) is None
