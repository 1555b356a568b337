"""A connection from inside, as a stream of bytes of anyio's.

anyio's own streams of unix sockets lose a race between a cancelled read and bytes that come at that moment: the event
loop is told of an error that is none. Ours are cancelled all the time, so these stand on asyncio's.
"""

import asyncio
import socket
from typing import Final

import anyio
from anyio.abc import ByteStream

READ_BYTES: Final = 256 * 1024
_FLUSH_S: Final = 10.0


class UnixStream(ByteStream):
    """On streams of asyncio."""

    @classmethod
    async def on(cls, connected: socket.socket) -> "UnixStream":
        """The stream of a connected socket, which belongs to it from now on."""
        return cls(*await asyncio.open_unix_connection(sock=connected, limit=READ_BYTES))

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        try:
            data = await self._reader.read(max_bytes)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        try:
            self._writer.write_eof()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close behind what was sent, which the other end has a moment to take."""
        self._writer.close()
        asyncio.get_running_loop().call_later(_FLUSH_S, self._writer.transport.abort)

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()
