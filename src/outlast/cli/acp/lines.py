"""JSON-RPC over standard input and output, a JSON object a line (`acp` calls it a transport).

Whatever an editor writes, the next line is read: what is no JSON, or no object, is answered as JSON-RPC says.
"""

import asyncio
import json
import os
import stat
import sys
from typing import Any, Final

from acp.stdio import stdio_streams

from outlast.errors import BadInput

LINE_BYTES: Final = 64 << 20
"""Of one line; prompts carry whole files."""
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


class EditorLines:
    """The editor's end. Once it is gone, what is sent goes nowhere."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            self._writer.write(line + b"\n")
            await self._writer.drain()
        except ConnectionError:
            return  # nobody reads; the end of what we read ends the command

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the editor is gone."""
        while True:
            line = await self._line()
            if line is None:
                return None
            found = _decoded(line)
            if isinstance(found, dict):
                return found  # pyright: ignore[reportUnknownVariableType] - JSON
            if found is not _EMPTY:
                await self._refuse(found)

    async def close(self) -> None:
        """Nothing more is sent."""
        self._writer.close()

    async def _line(self) -> bytes | None:
        """A line; None at the end. Of one that is too long nothing is kept, and it is as if it were no JSON."""
        too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
                too_long = True
            except asyncio.IncompleteReadError as error:
                return error.partial if error.partial.strip() and not too_long else None
            else:
                return b"{" if too_long else line

    async def _refuse(self, found: object) -> None:
        if found is _NO_JSON:
            error = {"code": _PARSE_ERROR, "message": "Parse error: a line is one JSON object."}
        else:
            error = {"code": _INVALID_REQUEST, "message": "Invalid request: a line is one JSON object."}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


class _Odd:
    """What a line was that is no JSON value."""


_NO_JSON: Final = _Odd()
_EMPTY: Final = _Odd()


def _decoded(line: bytes) -> object:
    if not line.strip():
        return _EMPTY
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _NO_JSON


async def open_lines() -> EditorLines:
    """Standard input and output, for an editor.

    Raises:
        BadInput: nobody can be there.
    """
    for stream in (sys.stdin, sys.stdout):
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()):
            raise BadInput(
                detail="`outlast acp` talks to an editor over pipes, and none is here. Name it in the settings of an "
                "editor, which starts it."
            )
    return EditorLines(*await stdio_streams(limit=LINE_BYTES))
