"""JSON schemas as providers enforce them: every object closed, every property required, little else.

What a provider cannot enforce becomes words in the description; the answer is checked against the whole type anyway
(`outlast.output`).
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

_KEPT: Final = ("type", "enum", "const", "description", "$ref")
_UNSAID: Final = (
    "$defs",
    "title",
    "default",
    "discriminator",
    "examples",
    "required",
    "additionalProperties",
)
_INNER: Final = ("properties", "items", "anyOf", "oneOf", "allOf")
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class _Beyond(Exception):
    """The schema says something that the strict form cannot."""


def strict(schema: Mapping[str, Any], *, recursive: bool) -> dict[str, Any] | None:
    """`schema` in the form that providers enforce; None if that cannot say what it says, as of a map with any keys.

    Args:
        schema: of an object.
        recursive: whether the provider takes types that hold themselves.
    """
    parts: Mapping[str, Any] = schema.get("$defs", {})
    try:
        if not recursive and any(_reaches(name, name, parts) for name in parts):
            return None
        top = _walked(schema)
        if parts:
            top["$defs"] = {name: _walked(part) for name, part in parts.items()}
    except _Beyond:
        return None
    return top


def _walked(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if not schema.keys() & {"type", "enum", "const", *_INNER[2:]}:
        raise _Beyond  # anything at all
    kept: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    kept |= _inner(schema)
    if schema.get("format") in _FORMATS:
        kept["format"] = schema["format"]
    told = {key: value for key, value in schema.items() if _is_told(key, value)}
    if told:
        words = msgspec.json.encode(told, order="sorted").decode()
        kept["description"] = f"{kept.get('description', '')} {words}".strip()
    return kept


def _inner(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind == "object":
        return _object(schema)
    if kind == "array":
        if not isinstance(schema.get("items"), dict) or "prefixItems" in schema:
            raise _Beyond
        return {"items": _walked(schema["items"])}
    choices = schema.get("anyOf", schema.get("oneOf"))
    if choices is not None:
        return {"anyOf": [_walked(choice) for choice in choices]}
    match schema.get("allOf"):
        case None:
            return {}
        case [only]:
            return _walked(cast("Mapping[str, Any]", only))
        case _:
            raise _Beyond


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] | None = schema.get("properties")
    if properties is None or schema.get("additionalProperties", False) is not False:
        raise _Beyond
    walked = {name: _walked(part) for name, part in properties.items()}
    return {"properties": walked, "required": list(walked), "additionalProperties": False}


def _is_told(key: str, value: object) -> bool:
    if key == "format":
        return value not in _FORMATS
    return key not in {*_KEPT, *_UNSAID, *_INNER}


def _reaches(start: str, goal: str, parts: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Whether the part `start` holds, however deep, the part `goal`."""
    named = {name for name in parts if _mention(name) in msgspec.json.encode(parts.get(start))}
    return goal in named or any(
        _reaches(name, goal, parts, seen | {start}) for name in named - seen - {start}
    )


def _mention(name: str) -> bytes:
    return msgspec.json.encode(f"#/$defs/{name}")
