"""`read`, `write`, `edit`: one file of the workspace at a time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final

import msgspec

from outlast.errors import FileMissing, WorkspaceError
from outlast.model import ImagePart
from outlast.parts import IMAGE_LIMIT, MEDIA_TYPES
from outlast.tool import Done, NotDone, ToolFailed, ToolIO, Unsure, Verdict, tool
from outlast.workspace_tools.said import TEXT_LIMIT, telling

LINES: Final = 2_000
"""Lines that `read` returns where nobody says otherwise."""
LINE_LIMIT: Final = 2_000
"""Characters of one line that it returns."""
SIZE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a file that is read or edited as text."""

_Path = Annotated[
    str, msgspec.Meta(description="Absolute, or relative to the workspace's directory.", min_length=1)
]
_Offset = Annotated[int, msgspec.Meta(description="Number of the first line to read.", ge=1)]
_Limit = Annotated[int, msgspec.Meta(description="How many lines to read.", ge=1, le=20_000)]
_Old = Annotated[
    str, msgspec.Meta(description="The text to replace, exactly as in the file, indentation included.")
]
_All = Annotated[
    bool, msgspec.Meta(description="Replace it wherever it stands, not only where it stands once.")
]
_New = Annotated[str, msgspec.Meta(description="The text to put in its place.")]


@tool(name="read", replay="safe")
@telling
async def read(io: ToolIO, path: _Path, offset: _Offset = 1, limit: _Limit = LINES) -> object:
    """Read a text file, with the number of each line before it; or look at an image (PNG, JPEG, GIF, WebP)."""
    data = await _read(io, path)
    shown = _image(data)
    if shown is not None:
        return shown
    if b"\0" in data[:8192]:
        raise ToolFailed(f"{path} is no text: it has {len(data):,} bytes, with zeros among them.")
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return f"({path} is empty)"
    if offset > len(lines):
        raise ToolFailed(f"{path} has {len(lines)} lines, none from {offset} on.")
    return _numbered(lines, offset, limit)


def _numbered(lines: list[str], offset: int, limit: int) -> str:
    shown: list[str] = []
    size = 0
    at = offset
    for at, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        cut = line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} [… {len(line) - LINE_LIMIT:,} more]"
        shown.append(f"{at:6}\t{cut}")
        size += len(shown[-1])
        if size > TEXT_LIMIT:
            break
    if at < len(lines):
        shown.append(f"[lines {at + 1} to {len(lines)} are not shown: read on with offset={at + 1}]")
    return "\n".join(shown)


def _image(data: bytes) -> ImagePart | None:
    magic = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
    kind = next((one for begins, one in magic.items() if data.startswith(begins)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    return ImagePart(data, kind) if kind in MEDIA_TYPES and len(data) <= IMAGE_LIMIT else None


async def _read(io: ToolIO, path: str) -> bytes:
    entry = await io.workspace.files.find(path)
    if entry is not None and entry.kind == "dir":
        raise ToolFailed(f"{path} is a directory: ls lists it.")
    if entry is not None and entry.size > SIZE_LIMIT:
        raise ToolFailed(f"{path} has {entry.size:,} bytes, too many to read whole: use head, tail or grep.")
    return await io.workspace.files.read(path)


async def _written(io: ToolIO, path: str, content: str) -> Verdict:
    try:
        there = await io.workspace.files.read(path)
    except FileMissing:
        return NotDone()
    except WorkspaceError as error:
        return Unsure(str(error))
    return Done(_said(path, content)) if there == content.encode() else NotDone()


def _said(path: str, content: str) -> str:
    return f"Wrote {path}: {len(content.encode()):,} bytes."


@tool(name="write", verify=_written)
@telling
async def write(
    io: ToolIO, path: _Path, content: Annotated[str, msgspec.Meta(description="The whole text.")]
) -> str:
    """Write a file, whole: what is there already is replaced. Directories on the way are made."""
    await io.workspace.files.write(path, content.encode())
    return _said(path, content)


async def _edited(
    io: ToolIO,
    path: str,
    old_string: str,
    new_string: str,
    replace_all: bool,  # noqa: ARG001, FBT001 - it is given what the tool is given
) -> Verdict:
    """It landed where only the new text stands, and did not where only the old one does."""
    try:
        there = (await io.workspace.files.read(path)).decode()
    except (WorkspaceError, UnicodeDecodeError) as error:
        return Unsure(str(error))
    before = old_string in there
    after = bool(new_string) and new_string in there
    if before and not after:
        return NotDone()
    # A new text that holds the old one: without it, the old must be gone.
    if after and old_string not in there.replace(new_string, ""):
        return Done(_changed(path, there.count(new_string)))
    return Unsure(f"{path} holds neither the old text alone nor the new one alone.")


@tool(name="edit", verify=_edited)
@telling
async def edit(
    io: ToolIO,
    path: _Path,
    old_string: _Old,
    new_string: _New,
    replace_all: _All = False,  # noqa: FBT002 - an argument of the model's, by name
) -> str:
    """Replace a text in a file by another. The old text must stand there once, or replace_all be set.

    Read the file first: the text must be exactly as it stands there, without the line numbers.
    """
    data = await _read(io, path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is no UTF-8 text.") from None
    count = text.count(old_string) if old_string else 0
    if old_string == new_string or not old_string:
        raise ToolFailed("Nothing would change: give an old_string, and a new_string that differs from it.")
    if not count:
        raise ToolFailed(f"old_string does not stand in {path}. Read it again: every space counts.")
    if count > 1 and not replace_all:
        raise ToolFailed(
            f"old_string stands {count} times in {path}: give more of what is around it, or set replace_all."
        )
    await io.workspace.files.write(path, text.replace(old_string, new_string).encode())
    return _changed(path, count)


def _changed(path: str, count: int) -> str:
    return f"Edited {path}: {count} {'place' if count == 1 else 'places'}."


async def replaced(io: ToolIO, path: str, edits: Sequence[tuple[str, str]]) -> str:
    """Replace several texts of a file at once, each of which must stand once in the file as it is.

    Raises:
        ToolFailed: one does not, or two overlap; nothing has changed.
        WorkspaceError
    """
    data = await _read(io, path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is no UTF-8 text.") from None
    places: list[tuple[int, int, str]] = []
    for old, new in edits:
        count = text.count(old) if old else 0
        if count != 1 or old == new:
            stands = f"stands {count} times" if count else "does not stand"
            why = (
                "it would be replaced by itself"
                if count == 1
                else f"it {stands} in {path}; it must stand once"
            )
            raise ToolFailed(f"Nothing was changed. Of the text {old[:200]!r}: {why}.")
        places.append((text.index(old), len(old), new))
    places.sort()
    if any(at + size > later for (at, size, _), (later, _, _) in pairwise(places)):
        raise ToolFailed("Nothing was changed: two of the texts overlap. Make one of them.")
    for at, size, new in reversed(places):
        text = text[:at] + new + text[at + size :]
    await io.workspace.files.write(path, text.encode())
    return _changed(path, len(places))
