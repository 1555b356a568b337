"""What can be done to a document: all at once, or to one place in it.

A `path` is a JSON pointer (RFC 6901): `""` is the whole document, `/steps/0/done` a place in it, and `-` as the last
part of one stands behind the end of a list.
"""

from typing import Any, TypeAlias

import msgspec


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
