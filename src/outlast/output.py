"""Answers of a shape: a type becomes the JSON schema that a model must follow, and its answer a value of that type."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast, overload

import msgspec

from outlast.errors import AnswerUnfit, BadInput
from outlast.model import Answer, OutputSpec, Stop

T = TypeVar("T")

_FENCED: Final = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_WRAPPED: Final = "value"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ONE: Final = ("items", "additionalProperties", "contains", "not")
_SEVERAL: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "$defs", "patternProperties")
_CUT: Final[Mapping[Stop, str]] = {
    "length": "it was cut at the most tokens that it may have",
    "context": "it was cut where the model's context was full",
    "refusal": "the model declined",
}


@dataclass(frozen=True, slots=True)
class Output(Generic[T]):
    """What an answer must be. Made by `output_of`."""

    spec: OutputSpec
    """For `Request.output`."""
    kind: Any
    wrapped: bool = False
    """Providers take objects only: a value that is none is the one member of an object."""

    def read(self, answer: Answer) -> T:
        """The value in the text of `answer`.

        Raises:
            AnswerUnfit: it was cut, declined, is no JSON, or does not fit; `said` holds what the model said.
        """
        said = answer.message.text
        if answer.stop in _CUT:
            raise AnswerUnfit(wanted=self.spec.name, reason=_CUT[answer.stop], said=said)
        fenced = _FENCED.fullmatch(said)
        try:
            return self._decode(fenced.group(1) if fenced else said)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise AnswerUnfit(wanted=self.spec.name, reason=reason, said=said) from None

    def _decode(self, text: str) -> T:
        if _is_pydantic(self.kind):
            return self.kind.model_validate_json(text)
        value = msgspec.json.decode(text, type=self.kind)
        return getattr(value, _WRAPPED) if self.wrapped else value


@overload
def output_of(kind: type[T], *, name: str = "") -> Output[T]: ...
@overload
def output_of(kind: Any, *, name: str = "") -> Output[Any]: ...
def output_of(kind: Any, *, name: str = "") -> Output[Any]:
    """What an answer must be: a msgspec struct, dataclass, TypedDict, pydantic model, or any type msgspec can read.

    The schema is the same for ever as long as the type is: titles, which libraries word as they like, are left out.

    Args:
        kind: the type.
        name: what the provider and errors call it, by default the type's name.

    Raises:
        BadInput: the type cannot be described as JSON.
    """
    called = _NOT_IN_NAMES.sub("_", name or getattr(kind, "__name__", "") or "answer").strip("_")[:64]
    try:
        if _is_pydantic(kind):
            return Output(OutputSpec(called, _untitled(_opened(kind.model_json_schema()))), kind)
        schema = _schema(kind)
        if schema.get("type") == "object":
            return Output(OutputSpec(called, schema), kind)
        wrapper = msgspec.defstruct(called, [(_WRAPPED, kind)], forbid_unknown_fields=True)
        return Output(OutputSpec(called, _schema(wrapper)), wrapper, wrapped=True)
    except (TypeError, NameError, ValueError) as error:
        raise BadInput(detail=f"An answer cannot be {kind!r}: {error}.") from None


def _is_pydantic(kind: Any) -> bool:
    # By what it can do: pydantic itself takes long to import, and only who uses it should wait.
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate_json")


def _schema(kind: Any) -> dict[str, Any]:
    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = cast("str", top.get("$ref", "")).rpartition("/")[2]
    schema = dict(parts[own]) if own else dict(top)
    # A type that holds itself is named by its parts, and must stay among them.
    others = {key: part for key, part in parts.items() if key != own or _names(own, parts)}
    return _untitled({**schema, "$defs": others} if others else schema)


def _opened(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its own members at the top, where providers look for them, not only a name for them."""
    own = cast("str", schema.get("$ref", "")).rpartition("/")[2]
    return {**schema["$defs"][own], "$defs": schema["$defs"]} if own else schema


def _names(own: str, parts: Mapping[str, Any]) -> bool:
    return f'"#/$defs/{own}"'.encode() in msgspec.json.encode(parts)


def _untitled(schema: Any) -> Any:
    """`schema` without the titles of its parts; a property may be called so."""
    if not isinstance(schema, dict):
        return schema
    bare = {key: value for key, value in cast("dict[str, Any]", schema).items() if key != "title"}
    for key in _ONE:
        if key in bare:
            bare[key] = _untitled(bare[key])
    for key in _SEVERAL:
        if key in bare:
            bare[key] = [_untitled(part) for part in bare[key]]
    for key in _NAMED:
        if key in bare:
            bare[key] = {name: _untitled(part) for name, part in bare[key].items()}
    return bare
