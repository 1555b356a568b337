"""Unix sockets of this machine, however long their paths are, and connections over them as streams of anyio's.

The path of a socket may have about a hundred bytes, and a data directory more. The kernel looks at no more than what it
is told, so a longer one is told by the descriptor of its directory.

anyio's own streams of unix sockets lose a race between a read or a connecting that is cancelled and what comes at that
moment: the event loop is told of an error that is none. Ours are cancelled all the time, so these stand on asyncio's.
"""

import asyncio
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream

READ_BYTES: Final = 256 * 1024
_PATH_BYTES: Final = 100
"""Of a unix socket, a little less than systems take."""
_FLUSH_S: Final = 10.0
_AGAIN_S: Final = 0.01


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
        except (OSError, RuntimeError) as error:  # the second: it is closed
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close behind what was sent, which the other end has a moment to take."""
        self._writer.close()
        asyncio.get_running_loop().call_later(_FLUSH_S, self._writer.transport.abort)

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()


async def connect(path: Path) -> UnixStream:
    """A stream to the socket at `path`.

    Raises:
        OSError: nobody listens there.
    """
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)  # noqa: FBT003 - the library's own signature
        with addressed(path) as address:
            # Not the event loop's own: it takes a queue that is full for a connection that is made.
            while not _tried(connecting, address):  # noqa: ASYNC110 - the kernel tells nobody when there is room
                await anyio.sleep(_AGAIN_S)
        return await UnixStream.on(connecting)
    except BaseException:
        connecting.close()
        raise


@contextmanager
def addressed(path: Path) -> Generator[str]:
    """What a socket is told for `path`, while the context lasts.

    Raises:
        OSError: its directory is not there.
    """
    if len(os.fsencode(path)) <= _PATH_BYTES:
        yield os.fspath(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _tried(connecting: socket.socket, address: str) -> bool:
    try:
        connecting.connect(address)
    except BlockingIOError:
        return False
    return True
