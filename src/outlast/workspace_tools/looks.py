"""`grep`, `glob`, `ls`: what is in the workspace."""

import re
import shlex
from fnmatch import translate
from typing import Annotated, Final, Literal

import msgspec

from outlast.drive import Entry
from outlast.tool import ToolFailed, ToolIO, tool
from outlast.workspace_tools.said import bounded, telling

WALK_LIMIT: Final = 50_000
"""Entries that are looked at for one `glob`."""
FOUND_LIMIT: Final = 1_000
"""Paths that `glob` and `ls` return."""
SEARCH_S: Final = 60.0
"""How long a `grep` may search."""
UNSEEN: Final = (".git", "node_modules")
"""Directories that searches do not enter."""

_Where = Annotated[str, msgspec.Meta(description="A file or directory; by default the workspace.")]


@tool(name="grep", replay="safe")
@telling
async def search(  # noqa: PLR0913, PLR0917 - each is an option that the model may name
    io: ToolIO,
    pattern: Annotated[str, msgspec.Meta(description="An extended regular expression.", min_length=1)],
    path: _Where = ".",
    glob: Annotated[str, msgspec.Meta(description="Only files whose name fits, as *.py")] = "",
    ignore_case: bool = False,  # noqa: FBT001, FBT002 - an argument of the model's, by name
    show: Annotated[
        Literal["lines", "files", "count"],
        msgspec.Meta(description="Lines, only paths, or how many in each."),
    ] = "lines",
    around: Annotated[int, msgspec.Meta(description="Lines before and after each.", ge=0, le=20)] = 0,
    limit: Annotated[int, msgspec.Meta(description="How many lines to return.", ge=1, le=5000)] = 200,
) -> str:
    """Search the contents of files. Each line comes as path:number:line. Directories as .git are left out."""
    options = ["-rIE", {"lines": "-n", "files": "-l", "count": "-c"}[show]]
    options += ["-i"] if ignore_case else []
    options += [f"-C{around}"] if around and show == "lines" else []
    options += [f"--include={glob}"] if glob else []
    options += [f"--exclude-dir={name}" for name in UNSEEN]
    ran = await io.workspace.run(
        shlex.join(["grep", *options, "-e", pattern, "--", path]), timeout_s=SEARCH_S, looks=True
    )
    if ran.status > 1 and not ran.stdout:
        raise ToolFailed(bounded(ran.stderr.strip() or f"grep ended with status {ran.status}."))
    lines = [line.removeprefix("./") for line in ran.stdout.splitlines()]
    if show == "count":
        lines = [line for line in lines if not line.endswith(":0")]
    if not lines:
        return "Nothing found."
    more = len(lines) - limit
    shown = bounded("\n".join(line[:1000] for line in lines[:limit]))
    return f"{shown}\n[{more:,} more lines: narrow the pattern or the path]" if more > 0 else shown


@tool(name="glob", replay="safe")
@telling
async def find(
    io: ToolIO,
    pattern: Annotated[str, msgspec.Meta(description="As **/*.py or src/*.ts", min_length=1)],
    path: _Where = ".",
) -> str:
    """Find files by their path, the newest first. Directories as .git are left out."""
    wanted = _pattern(pattern)
    found: list[tuple[int, str]] = []
    looked, waiting = 0, [""]
    while waiting and looked < WALK_LIMIT:
        at = waiting.pop()
        for entry in await io.workspace.files.list(f"{path}/{at}" if at else path):
            looked += 1
            name = _name(entry)
            below = f"{at}/{name}" if at else name
            if entry.kind == "dir":
                waiting.extend([] if name in UNSEEN else [below])
            elif wanted.fullmatch(below):
                found.append((-entry.mtime_ns, below))
    lines = [name for _, name in sorted(found)]
    if not lines:
        return "Nothing found."
    notes = [f"[{len(lines) - FOUND_LIMIT:,} more]"] if len(lines) > FOUND_LIMIT else []
    notes += [f"[only {looked:,} entries were looked at]"] if waiting else []
    return "\n".join([*lines[:FOUND_LIMIT], *notes])


def _name(entry: Entry) -> str:
    return entry.path.rpartition("/")[2]


def _pattern(pattern: str) -> re.Pattern[str]:
    """A glob whose `**` stands for any number of directories, and whose `*` for a part of one name."""
    parts: list[str] = []
    for part in pattern.removeprefix("./").split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        else:
            parts.append(f"{translate(part)[4:-3].replace('.*', '[^/]*')}/")
    whole = "".join(parts).removesuffix("/")
    return re.compile(whole + ("[^/]+" if pattern.endswith("**") else ""), re.DOTALL)


@tool(name="ls", replay="safe")
@telling
async def list_(io: ToolIO, path: _Where = ".") -> str:
    """List a directory: sizes of files, directories with a / at their end."""
    entries = sorted(await io.workspace.files.list(path), key=_name)
    lines = [_line(entry) for entry in entries[:FOUND_LIMIT]]
    if len(entries) > FOUND_LIMIT:
        lines.append(f"[{len(entries) - FOUND_LIMIT:,} more]")
    return "\n".join(lines) or "(empty)"


def _line(entry: Entry) -> str:
    match entry.kind:
        case "dir":
            return f"{'':>12}  {_name(entry)}/"
        case "link":
            return f"{'':>12}  {_name(entry)} -> {entry.target}"
        case _:
            return f"{entry.size:>12,}  {_name(entry)}"
