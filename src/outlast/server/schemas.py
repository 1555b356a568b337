"""JSON schemas of msgspec types.

`msgspec.json.schema_components` cannot say the default of a `Raw`, which every payload has; this says the same of the
types that the server takes and answers.
"""

import inspect
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec
import msgspec.inspect as mi

Schema: TypeAlias = dict[str, Any]
REF: Final = "#/components/schemas/"
_BOUNDS: Final[Mapping[str, str]] = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}

_BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class Schemas:
    """The schemas of structs by name, gathered while they are asked for."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._kinds: dict[str, type[Any]] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type; a struct is a reference to a component."""
        return self._of(mi.type_info(kind))

    def of_fields(self, kind: type[msgspec.Struct]) -> Sequence[tuple[str, bool, Schema]]:
        """Of each field of a struct: its name, whether it must be there, its schema."""
        info = mi.type_info(kind)
        assert isinstance(info, mi.StructType)
        return [(field.encode_name, field.required, self._of_field(field)) for field in info.fields]

    def _of(self, info: mi.Type) -> Schema:  # noqa: C901 - one arm per kind of type, nothing else
        match info:
            case mi.StructType(cls=cls):
                return self._struct(info, cls)
            case mi.EnumType(cls=cls):
                return {"type": "string", "enum": sorted(member.value for member in cls)}
            case mi.StrType() | mi.IntType() | mi.FloatType():
                names = {mi.StrType: "string", mi.IntType: "integer", mi.FloatType: "number"}
                return {"type": names[type(info)], **_bounds(info)}
            case mi.BytesType():
                return {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
            case mi.BoolType():
                return {"type": "boolean"}
            case mi.NoneType():
                return {"type": "null"}
            case mi.LiteralType(values=values):
                return {"enum": list(values)}
            case mi.ListType(item_type=item) | mi.VarTupleType(item_type=item):
                return {"type": "array", "items": self._of(item)}
            case mi.DictType(key_type=key, value_type=value):
                names = self._of(key)
                return {
                    "type": "object",
                    "additionalProperties": self._of(value),
                    **({} if names == {"type": "string"} else {"propertyNames": names}),
                }
            case mi.UnionType(types=types):
                return {"anyOf": [self._of(one) for one in types]}
            case mi.Metadata(type=inner):
                return self._of(inner)
            case mi.AnyType() | mi.RawType():
                return {}
            case _:
                raise TypeError(f"no schema is known of {info}")

    def _struct(self, info: mi.StructType, cls: type[Any]) -> Schema:
        name = cls.__name__
        if self._kinds.setdefault(name, cls) is not cls:
            raise TypeError(f"two structs are called {name}: {cls} and {self._kinds[name]}")
        if name not in self.components:
            self.components[name] = {}  # one that holds itself finds it there
            said = inspect.cleandoc(cls.__doc__ or "")
            properties = {field.encode_name: self._of_field(field) for field in info.fields}
            tag: Schema = {} if info.tag is None else {str(info.tag_field): {"enum": [info.tag]}}
            required = [*tag, *(field.encode_name for field in info.fields if field.required)]
            self.components[name] = {
                "type": "object",
                "title": name,
                "description": said,
                "properties": {**tag, **properties},
                **({"required": required} if required else {}),
                **({"additionalProperties": False} if info.forbid_unknown_fields else {}),
            }
        return {"$ref": REF + name}

    def _of_field(self, field: mi.Field) -> Schema:
        schema = self._of(field.type)
        plain = isinstance(field.default, str | int | float | bool | Enum | None)
        return {**schema, "default": field.default} if plain and "$ref" not in schema else schema


def _bounds(info: mi.StrType | mi.IntType | mi.FloatType) -> Schema:
    found = {said: getattr(info, name, None) for name, said in _BOUNDS.items()}
    return {said: value for said, value in found.items() if value is not None}
