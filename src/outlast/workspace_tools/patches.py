"""`apply_patch`: changes of several files in one text, in the format that models of OpenAI's are trained on.

    *** Begin Patch
    *** Add File: PATH          lines that begin with +
    *** Delete File: PATH
    *** Update File: PATH       then perhaps *** Move to: PATH, then hunks: @@, lines that begin with a space, - or +
    *** End Patch

Source of the format: `codex-rs/apply-patch` of openai/codex (Apache-2.0), its grammar.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from outlast.tool import ToolFailed, ToolIO

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
END_OF_FILE: Final = "*** End of File"
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "


@dataclass(slots=True)
class Hunk:
    """One place of a file that changes."""

    after: str = ""
    """It stands behind a line with this text, if there is one."""
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])
    at_end: bool = False


@dataclass(slots=True)
class Change:
    """What a patch does with one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    to: str = ""
    lines: list[str] = field(default_factory=list[str])
    hunks: list[Hunk] = field(default_factory=list[Hunk])


async def patched(io: ToolIO, text: str) -> str:
    """Apply a patch to the workspace: what can be found wrong with it is found before anything changes.

    Raises:
        ToolFailed: it cannot be read, or does not fit the files.
        WorkspaceError
    """
    changes = read_patch(text)
    files = io.workspace.files
    writes: list[tuple[str, str]] = []
    removes: list[str] = []
    for change in changes:
        if change.kind == "add":
            writes.append((change.path, "".join(f"{line}\n" for line in change.lines)))
            continue
        there = (await files.read(change.path)).decode(errors="surrogateescape")
        if change.kind == "delete":
            removes.append(change.path)
            continue
        writes.append((change.to or change.path, applied(change, there)))
        if change.to and change.to != change.path:
            removes.append(change.path)
    for path, content in writes:
        await files.write(path, content.encode(errors="surrogateescape"))
    for path in removes:
        await files.remove(path)
    said = {"add": "A", "delete": "D", "update": "M"}
    return "\n".join(["Done:", *(f"{said[one.kind]} {one.to or one.path}" for one in changes)])


def read_patch(text: str) -> Sequence[Change]:
    """The changes of a patch, in their order.

    Raises:
        ToolFailed: it is none.
    """
    lines = text.strip().split("\n")
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolFailed(f"This is no patch: it begins with {BEGIN!r} and ends with {END!r}.")
    changes: list[Change] = []
    for number, line in enumerate(lines[1:-1], 2):
        begun = _begun(line)
        if begun is not None:
            changes.append(begun)
        elif not changes or not _taken(changes[-1], line):
            raise ToolFailed(f"This is no patch: line {number} is {line[:200]!r}.")
    if not changes:
        raise ToolFailed("The patch is empty.")
    return changes


def _begun(line: str) -> Change | None:
    for head, kind in ((_ADD, "add"), (_DELETE, "delete"), (_UPDATE, "update")):
        if line.startswith(head):
            return Change(kind, line.removeprefix(head).strip())  # pyright: ignore[reportArgumentType] - one of the three
    return None


def _taken(change: Change, line: str) -> bool:
    """Take a line of a change; False if it can be none."""
    match change.kind:
        case "delete":
            return False
        case "add":
            change.lines.append(line[1:])
            return line.startswith("+")
        case "update":
            return _of_update(change, line)


def _of_update(change: Change, line: str) -> bool:
    if line.startswith(_MOVE) and not change.hunks:
        change.to = line.removeprefix(_MOVE).strip()
    elif line.startswith("@@"):
        change.hunks.append(Hunk(line.removeprefix("@@").strip()))
    elif line.strip() == END_OF_FILE and change.hunks:
        change.hunks[-1].at_end = True
    elif not line or line[0] in " +-":
        if not change.hunks:
            change.hunks.append(Hunk())
        hunk, sign, rest = change.hunks[-1], line[:1], line[1:]
        if sign != "+":
            hunk.old.append(rest)
        if sign != "-":
            hunk.new.append(rest)
    else:
        return False
    return True


def applied(change: Change, text: str) -> str:
    """The file after its hunks, each found behind the one before.

    Raises:
        ToolFailed: one does not stand there.
    """
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    at = 0
    for hunk in change.hunks:
        if hunk.after:
            at = _find(lines, [hunk.after], at, change.path) + 1
        if not hunk.old:
            place = len(lines) if hunk.at_end or not hunk.after else at
        else:
            place = _find(lines, hunk.old, at, change.path, at_end=hunk.at_end)
        lines[place : place + len(hunk.old)] = hunk.new
        at = place + len(hunk.new)
    return "\n".join(lines) + ("\n" if lines else "")


def _find(lines: Sequence[str], wanted: Sequence[str], begin: int, path: str, *, at_end: bool = False) -> int:
    """Where lines stand, from `begin` on: to the letter, else but for blanks around them."""
    last = len(lines) - len(wanted)
    places = [last] if at_end else range(begin, last + 1)
    for same in (str, str.rstrip, str.strip):
        for at in places:
            if at >= 0 and all(
                same(one) == same(other)
                for one, other in zip(lines[at : at + len(wanted)], wanted, strict=True)
            ):
                return at
    shown = "\n".join(wanted)[:500]
    raise ToolFailed(f"Nothing was changed: in {path} these lines do not stand:\n{shown}")
