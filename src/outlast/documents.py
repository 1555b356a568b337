"""Documents: typed JSON of a session, named, with a version that every edit raises by one.

What an edit makes of a value is decided here, purely; where edits come from and how they are ordered is the engine's.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import msgspec

from outlast.codec import to_json
from outlast.errors import BadEdit
from outlast.records import AnyEdit, Delete, Merge, Set

T = TypeVar("T")

SIZE_LIMIT: Final = 64 * 1024
"""Bytes of JSON that a document may have, unless its shape says otherwise."""
COUNT_LIMIT: Final = 256
"""Documents of a session."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

_edits = msgspec.json.Decoder(tuple[AnyEdit, ...])


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was at one moment: a value of its own, which nothing changes any more."""

    name: str
    version: int
    """How often it was edited; 0 of one that is not there, whose value is None."""
    value: Any
    """JSON."""

    def read(self, kind: type[T]) -> T:
        """The value as a type that msgspec or pydantic can read.

        Raises:
            BadEdit: it does not fit.
        """
        try:
            return _converted(self.value, kind)
        except (ValueError, TypeError, RecursionError) as error:
            raise BadEdit(name=self.name, reason=f"it does not fit: {_line(error)}") from None


@dataclass(frozen=True, slots=True)
class Shape:
    """What the value of a document must be.

    Args:
        kind: any type that msgspec reads, or a pydantic model; None for any JSON.
        version: raise it when the type changes: code that knows only an older one then leaves the document alone.
        limit_bytes: how much JSON it may be.
    """

    kind: Any = None
    version: int = 1
    limit_bytes: int = SIZE_LIMIT


Shapes: TypeAlias = Mapping[str, Shape | type]
"""By name of the document: its shape, or just its type."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One edit that somebody wants: all of it or nothing."""

    name: str
    edits: tuple[AnyEdit, ...]
    if_version: int | None = None


class Docs(Protocol):
    """The session's documents, as a tool or a loop has them.

    A tool's edits take effect with its outcome, in the same commit, and it sees its own before: a call that is cut off,
    fails or is tried again leaves none. Where an application was faster they are done to what it left. A loop's take
    effect at once, each a call of its lane.
    """

    async def get(self, name: str) -> Document:
        """The document as it is now; version 0 and None if it is not there."""
        ...

    async def edit(self, name: str, *edits: AnyEdit, if_version: int | None = None) -> Document:
        """Edit it, all or nothing. Returns what it then is.

        Args:
            if_version: only if this is its version; 0 when it must not be there yet.

        Raises:
            BadEdit: it has another version, the edits find no place in it, or what it came to does not fit its shape.
        """
        ...


def wish(name: str, edits: Sequence[AnyEdit], if_version: int | None) -> Wish:
    """An edit as it can be written down, with values that are JSON.

    Raises:
        BadEdit: it names no document, or says nothing.
        BadPayload: a value is not JSON.
    """
    if not NAME.fullmatch(name):
        said = (
            "a document's name is 1 to 128 of A-Z, a-z, 0-9, '.', '_', '-', beginning with a letter or digit"
        )
        raise BadEdit(name=name, reason=said)
    if not edits:
        raise BadEdit(name=name, reason="it says nothing; give a Set, a Merge or a Delete")
    try:
        made = _edits.decode(to_json(tuple(edits), what=f"The edit of {name}"))
    except msgspec.ValidationError as error:
        raise BadEdit(name=name, reason=f"it is none of Set, Merge and Delete: {error}") from None
    return Wish(name, made, if_version)


def shape_of(shapes: Shapes, name: str) -> Shape | None:
    """The shape that was declared for a document."""
    found = shapes.get(name)
    return found if found is None or isinstance(found, Shape) else Shape(found)


def versions_of(shapes: Shapes) -> dict[str, int]:
    """The version of each shape."""
    return {name: shape.version if isinstance(shape, Shape) else 1 for name, shape in shapes.items()}


def edited(wish: Wish, value: Any, version: int, shape: Shape | None) -> bytes:
    """The JSON of a document after an edit of what had `value` and `version`; `value` is of no more use.

    Raises:
        BadEdit
    """
    if wish.if_version not in {None, version}:
        reason = f"it has version {version}, not {wish.if_version}"
        raise BadEdit(name=wish.name, reason=reason)
    # What one edit puts there the next may change: the wish itself must stay as it is, since it may be done anew.
    edits = wish.edits if len(wish.edits) == 1 else copy.deepcopy(wish.edits)
    try:
        for edit in edits:
            value = _done(edit, value)
        return _fitting(to_json(value, what=wish.name), shape)
    except Exception as error:  # noqa: BLE001 - a type's own validators may raise anything; the editor is told
        raise BadEdit(name=wish.name, reason=_line(error)) from None


def _fitting(text: bytes, shape: Shape | None) -> bytes:
    limit = SIZE_LIMIT if shape is None else shape.limit_bytes
    if len(text) > limit:
        raise ValueError(f"{len(text):,} bytes of JSON are more than {limit:,}")
    if shape is not None and shape.kind is not None:
        _converted(msgspec.json.decode(text), shape.kind)
    return text


def whole(wish: Wish) -> bool:
    """Whether it leaves nothing of what was there, so that the new value says it all."""
    return isinstance(wish.edits[-1], Set) and not wish.edits[-1].path


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _converted(value: Any, kind: Any) -> Any:
    if hasattr(kind, "model_validate_json"):  # pydantic's, which is not imported for those who do not use it
        return kind.model_validate_json(msgspec.json.encode(value))
    return msgspec.convert(value, kind, str_keys=True)


def _done(edit: AnyEdit, value: Any) -> Any:
    parts = _parts(edit.path)
    match edit:
        case Set(value=new):
            return _put(value, parts, lambda _: new)
        case Merge(value=patch):
            return _put(value, parts, lambda there: _merged(there, patch))
        case Delete():
            return _without(value, parts)


def _parts(path: str) -> list[str]:
    """The parts of a JSON pointer (RFC 6901)."""
    if not path:
        return []
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is no JSON pointer: it must begin with '/', or be empty")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _put(value: Any, parts: Sequence[str], make: Callable[[Any], Any]) -> Any:
    """`value` with what `make` makes of the place; what is missing on the way is made, a list before `-`."""
    if not parts:
        return make(value)
    part, rest = parts[0], parts[1:]
    if value is None:
        value = [] if part == "-" else {}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        at = _index(items, part, behind=True)
        if at == len(items):
            items.append(None)
        items[at] = _put(items[at], rest, make)
        return items
    members = _object(value, part)
    members[part] = _put(members.get(part), rest, make)
    return members


def _without(value: Any, parts: Sequence[str]) -> Any:
    if not parts or value is None:
        return None
    part, rest = parts[0], parts[1:]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        at = _index(items, part, behind=False)
        if not rest:
            del items[at]
        else:
            items[at] = _without(items[at], rest)
        return items
    members = _object(value, part)
    if not rest:
        members.pop(part, None)
    elif part in members:
        members[part] = _without(members[part], rest)
    return members


def _object(value: Any, part: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"there is no {part!r} in a {type(value).__name__}")
    return cast("dict[str, Any]", value)


def _index(items: Sequence[Any], part: str, *, behind: bool) -> int:
    """The place of a list that `part` names; with `behind` also the one behind its end."""
    if behind and part == "-":
        return len(items)
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", part) or int(part) >= len(items) + behind:
        raise ValueError(f"a list of {len(items)} has no place {part!r}")
    return int(part)


def _merged(there: Any, patch: Any) -> Any:
    """The algorithm of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    members = dict(cast("dict[str, Any]", there)) if isinstance(there, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            members.pop(name, None)
        else:
            members[name] = _merged(members.get(name), value)
    return members
