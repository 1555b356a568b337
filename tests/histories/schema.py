"""The shape of everything that a log holds, as plain JSON: what a later release may add to and not take from."""

import re
from typing import Any, Literal, get_args, get_origin

import msgspec

from outlast.codec import ModelRequest
from outlast.engine.children import Opening
from outlast.fold import AttemptState, CallState, FileState, SessionState, TalkState, TurnState
from outlast.records import AnyEdit, AnyInput, AnyRecord, Attached, Kept, Parent, Payload, Shelf, Usage
from outlast.records.events import LiveDelta
from outlast.state import DocumentState, NoticeState, ScheduleState, TreeState

STATES: tuple[type[msgspec.Struct], ...] = (
    SessionState,
    TurnState,
    CallState,
    AttemptState,
    FileState,
    TalkState,
    NoticeState,
    ScheduleState,
    DocumentState,
    TreeState,
)
"""What a snapshot holds."""
STORED: tuple[type[msgspec.Struct], ...] = (
    *get_args(AnyRecord),
    *get_args(AnyInput),
    *get_args(AnyEdit),
    *STATES,
    Payload,
    Attached,
    Usage,
    ModelRequest,
    LiveDelta,
    Parent,
    Opening,
    Kept,
    Shelf,
)


def schema() -> dict[str, Any]:
    """By name of the struct: its tag, and of each field its type and what stands for it when it is left out."""
    return {kind.__name__: _struct(kind) for kind in STORED}


def _struct(kind: type[msgspec.Struct]) -> dict[str, Any]:
    tag = kind.__struct_config__.tag
    fields = {field.name: _field(field) for field in msgspec.structs.fields(kind)}
    return {"tag": tag, "fields": fields}


def _field(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": _type(field.type)}
    if field.default is not msgspec.NODEFAULT:
        shape["default"] = _plain(field.default)
    elif field.default_factory is not msgspec.NODEFAULT:
        shape["default"] = _plain(field.default_factory())
    return shape


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _type(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return sorted(get_args(kind))
    named = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return re.sub(r"\b\w+\.", "", named)  # where a type lives is nothing to a log
