"""Paths of trees: texts outside, bytes inside."""

from collections.abc import Sequence

from outlast.errors import BadInput
from outlast.workspaces.drive.format import DEPTH_LIMIT, NAME_LIMIT, shown


def encode_text(text: str) -> bytes:
    """The bytes of a name; those that are no UTF-8 stand in a text as Python's own functions give them."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadInput(detail=f"{text!a} is no name that a file can have.") from None


def decode_text(name: bytes) -> str:
    """The text for a name, from which `encode_text` makes the same bytes."""
    return name.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """The bytes of a path."""
    return encode_text(path)


def split_path(path: bytes) -> Sequence[bytes]:
    """The names in a path that is relative to the root of a tree; none: the root itself.

    Raises:
        BadInput: it leads upwards or out, or no tree can have it.
    """
    names = [name for name in path.split(b"/") if name not in {b"", b"."}]
    if path.startswith(b"/") or b".." in names or b"\0" in path:
        raise BadInput(detail=f"{shown(path)} is no path within a workspace's files.")
    if len(names) > DEPTH_LIMIT or any(len(name) > NAME_LIMIT for name in names):
        raise BadInput(
            detail=f"{shown(path)[:200]} is deeper, or has a longer name, than a workspace's files may have."
        )
    return names


def joined(path: bytes, name: bytes) -> bytes:
    """The path of a name in a directory."""
    return path + b"/" + name if path else name
