"""What a loop sees of its workspace outside of its tools, as the log keeps it."""

from base64 import b64encode
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from outlast.adapter import Look, ToolResult
from outlast.errors import BoxGone, FileMissing, OutlastError, WorkspaceError
from outlast.workspace import Files

MOST_BYTES: Final = 1024 * 1024
"""Of a file: what is read so stands in the log."""
TOO_MUCH: Final = (
    "{path} has {size:,} bytes; io.workspace reads up to {most:,}, since the log keeps them. Read it in a tool of the "
    "agent's, which returns what the loop needs of it."
)


async def look(files: Files, what: Look, path: str, fail: Callable[[OutlastError], NoReturn]) -> ToolResult:
    """Look, and say what was seen as `outlast.adapter.Attempt.look` promises.

    Args:
        fail: ends the attempt: what the machine was like when it died is not what the loop saw.
    """
    try:
        return ToolResult("ok", await _seen(files, what, path))
    except BoxGone as error:
        fail(error)
    except FileMissing:
        return ToolResult("ok", {"missing": True})
    except WorkspaceError as error:
        return ToolResult("ok", {"error": str(error)})


async def _seen(files: Files, what: Look, path: str) -> dict[str, object]:
    match what:
        case "find":
            return {"entry": msgspec.to_builtins(await files.find(path))}
        case "list":
            return {"entries": msgspec.to_builtins(await files.list(path))}
        case _:
            found = await files.find(path)
            if found is not None and found.size > MOST_BYTES:
                raise WorkspaceError(detail=TOO_MUCH.format(path=path, size=found.size, most=MOST_BYTES))
            return _content(await files.read(path), path)


def _content(data: bytes, path: str) -> dict[str, object]:
    if len(data) > MOST_BYTES:  # a link leads to it, or it grew meanwhile
        raise WorkspaceError(detail=TOO_MUCH.format(path=path, size=len(data), most=MOST_BYTES))
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
