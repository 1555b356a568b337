"""What Pi's model is offered in the place of Pi's own tools, where the workspace holds no programs.

Names and arguments are those of Pi 1.6 (`dist/core/tools`); what they do is `outlast.workspace_tools`.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from outlast.tool import Tool, ToolFailed, ToolIO, tool
from outlast.workspace_tools import standing_in
from outlast.workspace_tools.looks import find, list_, search
from outlast.workspace_tools.said import telling
from outlast.workspace_tools.shell import bash
from outlast.workspace_tools.texts import read, replaced, write

LONGEST_S: Final = 600.0

_Path = Annotated[str, msgspec.Meta(description="Path to the file (relative or absolute)", min_length=1)]
_Where = Annotated[str, msgspec.Meta(description="Directory or file (default: current directory)")]
_Limit = Annotated[int, msgspec.Meta(description="Maximum number of results", ge=1, le=5000)]


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """One replacement of `edit`."""

    oldText: Annotated[  # noqa: N815 - as the model knows it
        str, msgspec.Meta(description="Exact text to replace. It must stand once in the original file.")
    ]
    newText: Annotated[str, msgspec.Meta(description="Replacement text.")]  # noqa: N815 - as the model knows it


@tool(name="bash")
async def _bash(
    io: ToolIO,
    command: Annotated[str, msgspec.Meta(description="Shell command to execute", min_length=1)],
    timeout: Annotated[  # noqa: ASYNC109 - an argument of the model's, by name
        float, msgspec.Meta(description="Timeout in seconds", gt=0, le=LONGEST_S)
    ] = LONGEST_S,
) -> object:
    """Execute a bash command in the current working directory. Returns stdout and stderr."""
    return await bash.function(io, command=command, timeout_s=timeout)


@tool(name="read", replay="safe")
async def _read(
    io: ToolIO,
    path: _Path,
    offset: Annotated[
        int, msgspec.Meta(description="Line number to start reading from (1-indexed)", ge=1)
    ] = 1,
    limit: Annotated[int, msgspec.Meta(description="Maximum number of lines to read", ge=1)] = 2_000,
) -> object:
    """Read the contents of a file, each line with its number. Supports text files and images (png, jpg, gif, webp)."""
    return await read.function(io, path=path, offset=offset, limit=limit)


@tool(name="edit")
@telling
async def _edit(
    io: ToolIO,
    path: _Path,
    edits: Annotated[
        list[Edit],
        msgspec.Meta(
            description="Targeted replacements, each matched against the original file, not overlapping.",
            min_length=1,
        ),
    ],
) -> str:
    """Edit a single file using exact text replacement. Every edits[].oldText must match a unique region of the file."""
    return await replaced(io, path, [(one.oldText, one.newText) for one in edits])


@tool(name="write")
async def _write(
    io: ToolIO,
    path: _Path,
    content: Annotated[str, msgspec.Meta(description="Content to write to the file")],
) -> object:
    """Write content to a file. Creates it if it doesn't exist, overwrites it if it does. Makes parent directories."""
    return await write.function(io, path=path, content=content)


@tool(name="grep", replay="safe")
async def _grep(  # noqa: PLR0913, PLR0917 - each is an option that the model may name
    io: ToolIO,
    pattern: Annotated[str, msgspec.Meta(description="Regular expression or literal string", min_length=1)],
    path: _Where = ".",
    glob: Annotated[str, msgspec.Meta(description="Filter files by name, e.g. '*.ts'")] = "",
    ignoreCase: bool = False,  # noqa: FBT001, FBT002, N803 - an argument of the model's, by name
    literal: bool = False,  # noqa: FBT001, FBT002 - an argument of the model's, by name
    context: Annotated[
        int, msgspec.Meta(description="Lines to show before and after each match", ge=0, le=20)
    ] = 0,
    limit: _Limit = 100,
) -> object:
    """Search file contents for a pattern. Returns matching lines with file paths and line numbers."""
    return await search.function(
        io,
        pattern=_escaped(pattern) if literal else pattern,
        path=path,
        glob=glob,
        ignore_case=ignoreCase,
        around=context,
        limit=limit,
    )


def _escaped(text: str) -> str:
    """A text as the extended regular expression (POSIX) that is that text."""
    return "".join(f"\\{char}" if char in r"\.[]{}()*+?^$|" else char for char in text)


@tool(name="find", replay="safe")
async def _find(
    io: ToolIO,
    pattern: Annotated[
        str,
        msgspec.Meta(
            description="Glob pattern, e.g. 'src/**/*.ts'. Without '/' it matches file names at any depth",
            min_length=1,
        ),
    ],
    path: _Where = ".",
    limit: _Limit = 1_000,
) -> object:
    """Search for files by glob pattern. Returns matching file paths relative to the search directory."""
    wanted = pattern if "/" in pattern else f"**/{pattern}"
    return _first(await find.function(io, pattern=wanted, path=path), limit)


@tool(name="ls", replay="safe")
async def _ls(io: ToolIO, path: _Where = ".", limit: _Limit = 500) -> object:
    """List directory contents, with '/' behind directories. Includes dotfiles."""
    return _first(await list_.function(io, path=path), limit)


def _first(said: object, limit: int) -> str:
    if not isinstance(said, str):
        raise ToolFailed("Nothing could be listed.")
    lines = said.splitlines()
    more = len(lines) - limit
    return "\n".join([*lines[:limit], f"[{more:,} more]"]) if more > 0 else said


OFFERED: Final[Sequence[Tool]] = standing_in((_read, _bash, _edit, _write, _grep, _find, _ls))
