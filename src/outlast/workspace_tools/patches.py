"""`apply_patch`: changes of several files in one text, in the format that models of OpenAI's are trained on.

The format is that of `outlast.adapters.patches`.
"""

from collections.abc import Sequence
from typing import Final

from outlast.adapters.patches import BEGIN, END, Chunk, sections_of
from outlast.tool import ToolFailed, ToolIO

NONE: Final = (
    f"This is no patch that can be read. It begins with {BEGIN!r} and ends with {END!r}; between them stands each file "
    "once: '*** Add File: PATH' with lines that begin with +, '*** Delete File: PATH', or '*** Update File: PATH' with "
    "hunks that begin with @@ and have lines that begin with a blank, - or +."
)
_SAID: Final = {"add": "A", "delete": "D", "update": "M"}


async def patched(io: ToolIO, text: str) -> str:
    """Apply a patch to the workspace: what can be found wrong with it is found before anything changes.

    Raises:
        ToolFailed: it cannot be read, or does not fit the files.
        WorkspaceError
    """
    sections = sections_of(text)
    if sections is None:
        raise ToolFailed(NONE)
    files = io.workspace.files
    writes: dict[str, str] = {}
    removes: list[str] = []
    for one in sections:
        if one.kind == "add":
            writes[one.path] = one.content
            continue
        there = (await files.read(one.path)).decode(errors="surrogateescape")
        if one.kind == "update":
            writes[one.move or one.path] = updated(one.path, there, one.chunks)
        if one.kind == "delete" or one.move:
            removes.append(one.path)
    for path, content in writes.items():
        await files.write(path, content.encode(errors="surrogateescape"))
    for path in removes:
        await files.remove(path)
    return "\n".join(["Done:", *(f"{_SAID[one.kind]} {one.move or one.path}" for one in sections)])


def updated(path: str, text: str, chunks: Sequence[Chunk]) -> str:
    """A file after its hunks, each found behind the one before: to the letter, else but for blanks around lines.

    Raises:
        ToolFailed: one does not stand there.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    at = 0
    for chunk in chunks:
        if chunk.after is not None:
            at = _find(lines, [chunk.after], at, path) + 1
        place = len(lines)
        if chunk.old:
            place = _find(lines, chunk.old, place - len(chunk.old) if chunk.last else at, path)
        elif chunk.after is not None and not chunk.last:
            place = at
        lines[place : place + len(chunk.old)] = chunk.new
        at = place + len(chunk.new)
    return "".join(f"{line}\n" for line in lines)


def _find(lines: Sequence[str], wanted: Sequence[str], begin: int, path: str) -> int:
    for same in (str, str.rstrip, str.strip):
        meant = [same(line) for line in wanted]
        for at in range(max(0, begin), len(lines) - len(wanted) + 1):
            if [same(line) for line in lines[at : at + len(wanted)]] == meant:
                return at
    shown = "\n".join(wanted)[:500]
    raise ToolFailed(f"Nothing was changed: in {path} these lines do not stand:\n{shown}")
