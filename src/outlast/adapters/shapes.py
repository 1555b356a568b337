"""Takes apart JSON that comes from elsewhere: what is not of the expected shape is nothing."""

from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


def as_object(value: object) -> Json:
    """`value` if it is a JSON object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_objects(value: object) -> list[Json]:
    """The objects in `value` that hold anything, if it is a list."""
    return [found for item in as_list(value) if (found := as_object(item))]
