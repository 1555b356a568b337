"""What has changed between two JSON values, as a JSON patch (RFC 6902). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec


def patch(before: Any, now: Any, place: str = "") -> Sequence[Mapping[str, Any]]:
    """The operations that make `now` of `before`: objects member by member, anything else whole.

    Args:
        place: JSON pointer to the value.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        return _members(cast("dict[str, Any]", before), cast("dict[str, Any]", now), place)
    return (
        []
        if msgspec.json.encode(before) == msgspec.json.encode(now)
        else [{"op": "replace", "path": place, "value": now}]
    )


def _members(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> Sequence[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = [
        {"op": "remove", "path": f"{place}/{_escaped(name)}"} for name in before if name not in now
    ]
    for name, value in now.items():
        path = f"{place}/{_escaped(name)}"
        if name in before:
            found += patch(before[name], value, path)
        else:
            found.append({"op": "add", "path": path, "value": value})
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
