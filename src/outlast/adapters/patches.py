"""The patch format of `apply_patch`: what a patch does to files, as far as its lines fit them exactly.

A patch stands between `*** Begin Patch` and `*** End Patch` and has sections: `*** Add File: PATH` with lines that
begin with `+`; `*** Delete File: PATH`; `*** Update File: PATH`, maybe with `*** Move to: PATH`, with chunks. A chunk
begins with `@@`, maybe with a line that stands before its place, and has lines that begin with a blank (kept), `-`
(taken out) or `+` (put in); `*** End of File` behind it says that it is the end of the file. Harnesses also find lines
that differ in blanks or signs; what such a patch leads to is not told here.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from outlast.adapters.edited import Contents, Edit, as_bytes, as_text

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_LAST: Final = "*** End of File"
_HEREDOC: Final = re.compile(
    r"\s*(?:cd\s+(?P<cd>[A-Za-z0-9_./-]+)\s+&&\s+)?apply_patch\s*<<\s*(?P<q>['\"]?)(?P<end>\w+)(?P=q)\n"
    r"(?P<patch>.*?)\n(?P=end)\s*",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One place of an update."""

    old: Sequence[str]
    new: Sequence[str]
    after: str | None = None
    """A line behind which it is."""
    last: bool = False
    """It is at the end of the file."""


@dataclass(frozen=True, slots=True)
class Section:
    """What is done to one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    content: str = ""
    """Of a file that is added."""
    move: str = ""
    chunks: Sequence[Chunk] = field(default=())

    @property
    def paths(self) -> list[str]:
        return [self.path, self.move] if self.move else [self.path]


def sections_of(patch: str) -> list[Section] | None:
    """The sections of a patch; None where something in it is not plain."""
    lines = patch.strip().split("\n")
    if "\r" in patch or len(lines) < 2 or (lines[0], lines[-1]) != (BEGIN, END):
        return None
    rest, found = lines[1:-1], list[Section]()
    while rest:
        body = next((at for at, line in enumerate(rest[1:], 1) if _begins(line)), len(rest))
        section = _section(rest[0], rest[1:body])
        if section is None:
            return None
        found.append(section)
        rest = rest[body:]
    paths = [posixpath.normpath(path) for section in found for path in section.paths]
    return (
        found if found and len(set(paths)) == len(paths) else None
    )  # of a file that comes twice nothing is told


def _begins(line: str) -> bool:
    return line.startswith((_ADD, _DELETE, _UPDATE))


def _section(head: str, body: list[str]) -> Section | None:
    if head.startswith(_DELETE):
        return None if body else Section("delete", head.removeprefix(_DELETE).strip())
    if head.startswith(_ADD):
        plain = all(line.startswith("+") for line in body)
        content = "".join(f"{line[1:]}\n" for line in body)
        return Section("add", head.removeprefix(_ADD).strip(), content) if plain else None
    if not head.startswith(_UPDATE):
        return None
    move = body[0].removeprefix(_MOVE).strip() if body and body[0].startswith(_MOVE) else ""
    chunks = _chunks(body[1:] if move else body)
    path = head.removeprefix(_UPDATE).strip()
    return None if chunks is None else Section("update", path, move=move, chunks=chunks)


def _chunks(body: Sequence[str]) -> list[Chunk] | None:
    found: list[Chunk] = []
    at = 0
    while at < len(body):
        head = body[at]
        if not (head == "@@" or head.startswith("@@ ")):
            return None
        end = next((n for n in range(at + 1, len(body)) if body[n].startswith("@@")), len(body))
        chunk = _chunk(head[3:] or None, list(body[at + 1 : end]))
        if chunk is None:
            return None
        found.append(chunk)
        at = end
    return found or None


def _chunk(after: str | None, lines: list[str]) -> Chunk | None:
    last = bool(lines) and lines[-1] == _LAST
    lines = lines[:-1] if last else lines
    if not lines or any(line[:1] not in {" ", "-", "+"} for line in lines):
        return None
    old = [line[1:] for line in lines if line[0] != "+"]
    new = [line[1:] for line in lines if line[0] != "-"]
    return Chunk(old, new, after, last)


def updated(text: str, chunks: Sequence[Chunk]) -> str | None:
    """The text with every chunk in its place; None where one does not fit exactly."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    at, done = 0, list[tuple[int, Chunk]]()
    for chunk in chunks:
        if chunk.after is not None:
            found = _find(lines, [chunk.after], at, last=False)
            if found is None:
                return None
            at = found + 1
        if not chunk.old:
            return None  # where lines are put in that nothing stands beside, harnesses differ
        found = _find(lines, chunk.old, at, last=chunk.last)
        if found is None:
            return None
        done.append((found, chunk))
        at = found + len(chunk.old)
    for found, chunk in reversed(done):
        lines[found : found + len(chunk.old)] = chunk.new
    return "".join(f"{line}\n" for line in lines)


def _find(lines: Sequence[str], wanted: Sequence[str], begin: int, *, last: bool) -> int | None:
    begin = max(begin, len(lines) - len(wanted)) if last else begin
    for at in range(begin, len(lines) - len(wanted) + 1):
        if list(lines[at : at + len(wanted)]) == list(wanted):
            return at
    return None


def patched(
    patch: str, says: Callable[[Sequence[Section]], str], *, within: str = "", shorn: bool = False
) -> Edit | None:
    """A call that applies a patch; None where what it does is not plain.

    Args:
        says: how the harness says that it is done.
        within: the directory that its paths are relative to, if that is not where the harness works.
        shorn: of a file that is added an empty line at its end is left out.
    """
    sections = sections_of(patch)
    if sections is None:
        return None

    def place(path: str) -> str:
        return posixpath.join(within, path)

    def apply(before: Contents) -> Contents:
        after: dict[str, bytes | None] = {}
        for section in sections:
            done = _applied(_shorn(section) if shorn else section, before, place)
            after.update({place(path): data for path, data in done.items()})
        return after

    paths = [place(path) for section in sections for path in section.paths]
    return Edit(paths, apply, lambda _: says(sections))


def _shorn(section: Section) -> Section:
    content = section.content.removesuffix("\n")
    return replace(section, content=content if not content or content.endswith("\n") else section.content)


def _applied(section: Section, before: Contents, place: Callable[[str], str]) -> Mapping[str, bytes | None]:
    if section.kind == "delete":
        return {section.path: None}
    if section.kind == "add":
        data = as_bytes(section.content)
        return {} if data is None else {section.path: data}
    text = as_text(before[place(section.path)])
    new = None if text is None else updated(text, section.chunks)
    data = None if new is None else as_bytes(new)
    if data is None:
        return {}
    return {section.path: None, section.move: data} if section.move else {section.path: data}


def heredoc_of(command: str) -> tuple[str, str] | None:
    """The patch that a line of shell applies and does nothing else, with the directory that it goes to first."""
    found = _HEREDOC.fullmatch(command)
    if found is None or (not found["q"] and any(sign in found["patch"] for sign in "$`\\")):
        return None
    return (found["patch"], found["cd"] or "") if sections_of(found["patch"]) is not None else None


def listed(sections: Sequence[Section]) -> str:
    """The files of a patch, one a line: `A` added, `M` changed, `D` deleted, each kind together."""
    signs = {"add": "A", "update": "M", "delete": "D"}
    lines = [f"{signs[section.kind]} {section.move or section.path}" for section in sections]
    return "\n".join(line for sign in "AMD" for line in lines if line[0] == sign)
