"""Streams that the Engine API hands over: a connection upgraded to raw bytes, its output in frames.

The format is the API's own ("Stream format", at `ContainerAttach`): 8 bytes (kind 0, 1 or 2, three zeros, the size of
what follows as a big-endian uint32), then so many bytes. Kind 2 is what the program says on stderr.
"""

import socket
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

import anyio
import httpcore
import httpx
from anyio.abc import ByteStream

_HEADER: Final = 8
_STDERR: Final = 2
_PIECE: Final = 65536
_SAID: Final = 2000
"""Bytes of stderr that are kept."""
_GONE: Final = (httpcore.ReadError, httpcore.WriteError, httpx.ReadError, httpx.WriteError, OSError)


class Raw(Protocol):
    """What httpx has beneath an answer of status 101."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...  # noqa: ASYNC109 - httpcore's
    async def write(self, buffer: bytes, timeout: float | None = None) -> None: ...  # noqa: ASYNC109 - httpcore's
    def get_extra_info(self, info: str) -> Any: ...


class Frames:
    """Takes frames apart, however they are cut."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._kind = 0
        self._due = 0
        self.said = b""
        """The end of what came on stderr."""

    def feed(self, data: bytes) -> bytes:
        """What of it is stdout."""
        self._left += data
        out = bytearray()
        while True:
            if not self._due:
                if len(self._left) < _HEADER:
                    return bytes(out)
                self._kind = self._left[0]
                self._due = int.from_bytes(self._left[4:_HEADER], "big")
                del self._left[:_HEADER]
            piece = bytes(self._left[: self._due])
            if not piece and self._due:
                return bytes(out)
            del self._left[: len(piece)]
            self._due -= len(piece)
            if self._kind == _STDERR:
                self.said = (self.said + piece)[-_SAID:]
            else:
                out += piece


class Hijacked(ByteStream):
    """Stdin and stdout of a program in a container. Closing it closes the connection, and the program's stdin."""

    def __init__(self, raw: Raw, owned: AsyncExitStack) -> None:
        self._raw = raw
        self._owned = owned
        self._frames = Frames()
        self._ready = b""
        self._closed = False

    @property
    def said(self) -> str:
        """The end of what the program wrote to stderr."""
        return self._frames.said.decode("utf-8", "replace").strip()

    async def receive(self, max_bytes: int = _PIECE) -> bytes:
        while not self._ready:
            if self._closed:
                raise anyio.ClosedResourceError
            try:
                data = await self._raw.read(_PIECE)
            except _GONE as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            self._ready = self._frames.feed(data)
        piece, self._ready = self._ready[:max_bytes], self._ready[max_bytes:]
        return piece

    async def send(self, item: bytes) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            await self._raw.write(item)
        except _GONE as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Half of the connection is shut; over TLS that cannot be, and nothing happens."""
        beneath = self._raw.get_extra_info("socket")
        if beneath is not None and self._raw.get_extra_info("ssl_object") is None:
            beneath.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._owned.aclose()
