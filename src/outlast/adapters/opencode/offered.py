"""What OpenCode's model is offered in the place of OpenCode's own tools, where the workspace holds no programs.

Names and arguments are those of OpenCode 1.18; what they do is `outlast.workspace_tools`. To models of OpenAI's it
offers `apply_patch` instead of `edit` and `write`, by their names and whoever brings the tools.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, Final

import msgspec

from outlast.tool import Tool, ToolIO, tool
from outlast.workspace_tools import standing_in
from outlast.workspace_tools.looks import find, list_, search
from outlast.workspace_tools.patches import patched
from outlast.workspace_tools.said import telling
from outlast.workspace_tools.shell import bash
from outlast.workspace_tools.texts import edit, read, write

KEPT: Final = frozenset({"invalid", "task", "todoread", "todowrite"})
"""OpenCode's own tools that touch no file, command or network. What a sub-agent calls is offered like all else."""
PERMISSIONS: Final = ("bash", "codesearch", "edit", "execute", "lsp", "skill", "webfetch", "websearch")
"""Permissions of its own tools that are not kept, by which they are taken away where nothing stands in for them."""
_PATCHING: Final = frozenset({"apply_patch", "edit", "write"})
"""Its tools that have the permission `edit`."""
LINES: Final = 1_900
SIZE: Final = 48_000
"""Lines and characters beyond which OpenCode would put a result into a file of the host, and name that."""
LONGEST_S: Final = 600.0

_Path = Annotated[str, msgspec.Meta(description="The absolute path to the file", min_length=1)]
_Where = Annotated[str, msgspec.Meta(description="The directory to search in; by default the workspace.")]


def _short(made: Tool) -> Tool:
    """The tool with its texts at a length that OpenCode leaves as it is."""

    @wraps(made.function)
    async def short(*args: Any, **kwargs: Any) -> object:
        said = await made.function(*args, **kwargs)
        return _cut(said) if isinstance(said, str) else said

    return replace(made, function=short)


def _cut(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > LINES:
        half = LINES // 2
        left = len(lines) - 2 * half
        text = "\n".join([*lines[:half], f"[… {left:,} lines are left out here …]", *lines[-half:]])
    if len(text.encode()) > SIZE:
        part = text.encode()
        text = (
            f"{part[: SIZE // 2].decode(errors='ignore')}\n[… {len(part) - SIZE:,} bytes are left out here …]\n"
            f"{part[-SIZE // 2 :].decode(errors='ignore')}"
        )
    return text


@tool(name="bash")
async def _bash(
    io: ToolIO,
    command: Annotated[str, msgspec.Meta(description="The command to execute", min_length=1)],
    timeout: Annotated[  # noqa: ASYNC109 - an argument of the model's, by name
        float, msgspec.Meta(description="Optional timeout in milliseconds", gt=0)
    ] = 120_000,
    workdir: Annotated[str, msgspec.Meta(description="The directory to run it in.")] = "",
    description: Annotated[str, msgspec.Meta(description="What it does, in 5 to 10 words.")] = "",  # noqa: ARG001 - for watchers
) -> object:
    """Execute a bash command in the workspace. Returns what it wrote, and its exit status if that is not 0."""
    line = f"cd -- {_quoted(workdir)} && {{\n{command}\n}}" if workdir else command
    return await bash.function(io, command=line, timeout_s=min(timeout / 1000, LONGEST_S))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@tool(name="read", replay="safe")
async def _read(
    io: ToolIO,
    filePath: Annotated[str, msgspec.Meta(description="The path to the file or directory", min_length=1)],  # noqa: N803 - as the model knows it
    offset: Annotated[
        int, msgspec.Meta(description="The line number to start reading from (1-indexed)", ge=0)
    ] = 1,
    limit: Annotated[int, msgspec.Meta(description="The maximum number of lines to read", ge=1)] = LINES - 1,
) -> object:
    """Read a file of the workspace, each line with its number; or list a directory. Images are shown."""
    entry = await _kind(io, filePath)
    if entry == "dir":
        return await list_.function(io, path=filePath)
    return await read.function(io, path=filePath, offset=max(1, offset), limit=min(limit, LINES - 1))


@telling
async def _kind(io: ToolIO, path: str) -> str:
    entry = await io.workspace.files.find(path)
    return "" if entry is None else entry.kind


@tool(name="edit")
async def _edit(
    io: ToolIO,
    filePath: _Path,  # noqa: N803 - as the model knows it
    oldString: Annotated[str, msgspec.Meta(description="The text to replace")],  # noqa: N803 - as the model knows it
    newString: Annotated[  # noqa: N803 - as the model knows it
        str, msgspec.Meta(description="The text to replace it with (must be different from oldString)")
    ],
    replaceAll: Annotated[  # noqa: FBT002, N803 - as the model knows it
        bool, msgspec.Meta(description="Replace all occurrences of oldString (default false)")
    ] = False,
) -> object:
    """Replace exact text in a file. oldString must stand there once, unless replaceAll is set. Read the file first."""
    given = {"old_string": oldString, "new_string": newString, "replace_all": replaceAll}
    return await edit.function(io, path=filePath, **given)


@tool(name="write")
async def _write(
    io: ToolIO,
    content: Annotated[str, msgspec.Meta(description="The content to write to the file")],
    filePath: _Path,  # noqa: N803 - as the model knows it
) -> object:
    """Write a file to the workspace, whole: what is there already is replaced. Parent directories are made."""
    return await write.function(io, path=filePath, content=content)


@tool(name="apply_patch")
@telling
async def _apply_patch(
    io: ToolIO,
    patchText: Annotated[  # noqa: N803 - as the model knows it
        str, msgspec.Meta(description="The full patch text, from *** Begin Patch to *** End Patch")
    ],
) -> str:
    """Change files of the workspace by a patch: *** Add File, *** Update File (with *** Move to), *** Delete File."""
    return await patched(io, patchText)


@tool(name="glob", replay="safe")
async def _glob(
    io: ToolIO,
    pattern: Annotated[
        str, msgspec.Meta(description="The glob pattern to match files against", min_length=1)
    ],
    path: _Where = ".",
) -> object:
    """Find files by a glob pattern like **/*.js, the newest first."""
    return await find.function(io, pattern=pattern, path=path)


@tool(name="grep", replay="safe")
async def _grep(
    io: ToolIO,
    pattern: Annotated[
        str, msgspec.Meta(description="The regular expression to search for in file contents", min_length=1)
    ],
    path: _Where = ".",
    include: Annotated[str, msgspec.Meta(description="File pattern to include (e.g. *.js)")] = "",
) -> object:
    """Search the contents of files. Each line comes as path:number:line."""
    return await search.function(io, pattern=pattern, path=path, glob=include)


@tool(name="list", replay="safe")
async def _list(io: ToolIO, path: _Where = ".") -> object:
    """List a directory: sizes of files, directories with a / at their end."""
    return await list_.function(io, path=path)


OFFERED: Final[Sequence[Tool]] = [
    _short(one) for one in standing_in((_bash, _read, _glob, _grep, _edit, _write, _apply_patch, _list))
]


def is_shown(name: str, model: str) -> bool:
    """Whether OpenCode offers a tool of this name to a model at all."""
    patches = "gpt-" in model and "oss" not in model and "gpt-4" not in model
    if name == "apply_patch":
        return patches
    return not (patches and name in {"edit", "write"})


def denied(offered: Collection[str]) -> Sequence[str]:
    """The permissions that take OpenCode's own tools away: of all but those that it keeps or that have a stand-in."""
    by_permission = {name: {name} for name in PERMISSIONS} | {"edit": _PATCHING}
    others = ("glob", "grep", "list", "read")
    taken = [name for name, tools in by_permission.items() if not tools & set(offered)]
    return [*taken, *(name for name in others if name not in offered)]
