"""A stream to the supervisor of a hosted sandbox, over commands that are run to their end (`relay`, inside)."""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import anyio
from anyio.abc import ByteStream

from outlast.errors import BoxGone

Run = Callable[[Mapping[str, Any], float], Awaitable[Mapping[str, Any]]]
"""Carries a request to the relay within so many seconds. Raises `BoxError`, `BoxGone`."""
PIECE: Final = 48 * 1024
"""Bytes of one request: a command line has an end."""
_WAIT_S: Final = 10.0
_CALL_S: Final = 30.0
_CLOSE_S: Final = 5.0


class Relayed(ByteStream):
    """One stream. What is asked again after a failed command is not done twice: offsets see to that."""

    def __init__(self, run: Run, stream: int) -> None:
        self._run = run
        self._stream = stream
        self._sent = 0
        self._read = 0
        self._ready = b""
        self._end = False
        self._closed = False
        self._sending = anyio.Lock()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while not self._ready:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._end:
                raise anyio.EndOfStream
            said = await self._ask({"op": "get", "at": self._read, "wait_s": _WAIT_S}, _WAIT_S + _CALL_S)
            self._ready = base64.b64decode(str(said["data"]))
            self._read += len(self._ready)
            self._end = bool(said["end"])
        piece, self._ready = self._ready[:max_bytes], self._ready[max_bytes:]
        return piece

    async def send(self, item: bytes) -> None:
        async with self._sending:
            for start in range(0, len(item), PIECE):
                if self._closed:
                    raise anyio.ClosedResourceError
                piece = item[start : start + PIECE]
                data = base64.b64encode(piece).decode()
                await self._ask({"op": "put", "at": self._sent, "data": data}, _CALL_S)
                self._sent += len(piece)

    async def _ask(self, request: Mapping[str, Any], within_s: float) -> Mapping[str, Any]:
        try:
            said = await self._run({**request, "stream": self._stream}, within_s)
        except BoxGone:
            self._end = True
            raise anyio.BrokenResourceError from None
        if "error" in said:
            raise anyio.BrokenResourceError(str(said["error"]))
        return said

    async def send_eof(self) -> None:
        async with self._sending:
            await self._ask({"op": "eof"}, _CALL_S)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        with anyio.move_on_after(_CLOSE_S, shield=True):
            try:
                await self._run({"op": "close", "stream": self._stream}, _CLOSE_S)
            except BoxGone:
                return


def packed(request: Mapping[str, Any]) -> str:
    """A request, as the relay reads it."""
    return base64.b64encode(json.dumps(request).encode()).decode()


def unpacked(line: bytes) -> Mapping[str, Any]:
    """What the relay says. Raises `ValueError`: nothing sound."""
    said = json.loads(base64.b64decode(line.strip()))
    if not isinstance(said, dict):
        raise ValueError("no map")  # noqa: TRY004 - as of all that is no answer
    return cast("Mapping[str, Any]", said)
