"""What can be done to a document, all at once or to one place in it, and what stands in the log for it.

A `path` is a JSON pointer (RFC 6901): `""` is the whole document, `/steps/0/done` a place in it, and `-` as the last
part of one stands behind the end of a list.
"""

from typing import Any, TypeAlias

import msgspec

from outlast.records.kinds import Record
from outlast.records.payload import EMPTY, Payload


class Set(msgspec.Struct, frozen=True, tag="set", tag_field="op", omit_defaults=True):
    """Put a value in a place, whatever was there. Objects that are missing on the way are made."""

    value: Any
    path: str = ""


class Merge(msgspec.Struct, frozen=True, tag="merge", tag_field="op", omit_defaults=True):
    """Merge a patch into the value of a place (RFC 7396): members of objects are set one by one, null removes one."""

    value: Any
    path: str = ""


class Delete(msgspec.Struct, frozen=True, tag="delete", tag_field="op", omit_defaults=True):
    """Remove a member of an object, if it is there, or an item of a list. The whole document becomes null."""

    path: str


AnyEdit: TypeAlias = Set | Merge | Delete


class DocumentEdited(Record, frozen=True, tag="document_edited"):
    """A document has a new value. The order of the log is the order of its edits."""

    name: str
    version: int
    """Dense from 1 for each document."""
    value: Payload
    """All of it, as it is now."""
    edits: Payload = EMPTY
    """What was done to the value before (`AnyEdit`); null when it was set whole."""
    call: int = 0
    """The call that edited it; its outcome follows in this commit. 0 when an application did."""
    input: str = ""
    """The edit of an application that came through the inbox; this commit consumes it."""
    by: str = ""
    shape: int = 0
    """Version of the shape that the value fits; 0 when nobody has looked."""
    at_s: float = 0.0


class EditRejected(Record, frozen=True, tag="edit_rejected"):
    """An edit changed nothing, and whoever made it is told why."""

    name: str
    reason: str
    version: int = 0
    """Of the document, then."""
    call: int = 0
    input: str = ""
    by: str = ""
    at_s: float = 0.0
