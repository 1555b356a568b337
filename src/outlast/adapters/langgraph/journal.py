"""What a thread's checkpoints are written down as: lines that only grow, each an entry in JSON.

A checkpoint costs what is new in it: the channels that changed since its parent, and of a channel that holds a list the
elements behind those it shares with the version before.
"""

from typing import Final, TypeAlias

import msgspec

FILE: Final = "langgraph/thread.jsonl"
"""What the lines are called among those a session mirrors."""

Typed: TypeAlias = tuple[str, bytes]
"""A value as LangGraph's serializer writes it: its kind and its bytes."""
Version: TypeAlias = str | int | float
Name: TypeAlias = tuple[str, str]
"""A checkpoint by its namespace and id."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a channel holds from some version on."""

    channel: str
    version: Version
    whole: Typed | None = None
    """None of a list, and of a channel that is empty."""
    items: tuple[Typed, ...] | None = None
    """Of a list: its elements behind the first `kept` of the version `base`."""
    base: Version | None = None
    kept: int = 0


class Write(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a task wrote to a channel: the `at`-th of its writes."""

    at: int
    channel: str
    value: Typed


class Put(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is", tag="put", gc=False):
    """A checkpoint."""

    ns: str
    id: str
    checkpoint: Typed
    """Without its channels' values and versions."""
    metadata: Typed
    versions: dict[str, Version] = {}
    values: tuple[Value, ...] = ()
    parent: str = ""
    source: str = ""
    run: str = ""


class Writes(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is", tag="writes", gc=False):
    """What a task wrote, for the checkpoint that comes after this one."""

    ns: str
    id: str
    task: str
    writes: tuple[Write, ...]
    path: str = ""


class Dropped(msgspec.Struct, frozen=True, tag_field="is", tag="dropped", gc=False):
    """Checkpoints that nobody wants any more."""

    names: tuple[Name, ...]


Entry: TypeAlias = Put | Writes | Dropped

_entry = msgspec.json.Decoder(Entry)
_encoder = msgspec.json.Encoder()


def line_of(entry: Entry) -> str:
    """One line of text."""
    return _encoder.encode(entry).decode()


def entry_of(line: str) -> Entry:
    """What a line says.

    Raises:
        msgspec.MsgspecError: it is none of ours.
    """
    return _entry.decode(line)
