"""Sockets of a way out, and whoever connects to them."""

import asyncio
import os
import socket
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream

from outlast.groups import task_group
from outlast.workspaces.egress.conversation import Answering, Conversation
from outlast.workspaces.egress.events import log
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.unix import UnixStream, addressed

_BACKLOG: Final = 1024
_AGAIN_S: Final = 0.1


@contextmanager
def bound(directory: Path, name: str) -> Generator[tuple[Path, socket.socket]]:
    """A socket that listens in a private directory, for this user only, and where it is.

    It takes the place of one that an attempt before left; one that a later attempt has put in its place stays.

    Raises:
        OSError: it cannot be made.
    """
    path = directory / f"{name}.sock"
    with ExitStack() as stack:
        path.unlink(missing_ok=True)
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(stack.enter_context(addressed(path)))
        path.chmod(0o600)
        made = path.stat()
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the library's own signature
        try:
            yield path, listener
        finally:
            with suppress(OSError):
                if os.path.samestat(path.stat(), made):
                    path.unlink()


async def serve(listener: socket.socket, answering: Callable[[], Answering], limits: Limits) -> None:
    """Answer whoever connects to a socket, until cancelled."""
    room = anyio.Semaphore(limits.connections)

    async def one(connected: socket.socket) -> None:
        stream = await UnixStream.on(connected)
        try:
            room.acquire_nowait()
        except anyio.WouldBlock:
            await _full(stream)
            return
        try:
            await Conversation(stream, answering(), limits).serve()
        except Exception:  # noqa: BLE001 - it is told, with where it came from
            # One client must not end the way of the others; what it did is a bug of ours to be found in the log.
            log.exception("a connection out of a sandbox was dropped")
        except BaseException:
            stream.abort()
            raise
        finally:
            room.release()

    async with task_group() as tasks:
        while True:
            try:
                connected, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # no descriptor is free: it may be in a moment
                await anyio.sleep(_AGAIN_S)
                continue
            tasks.start_soon(one, connected)


async def _full(stream: ByteStream) -> None:
    body = b"outlast: too many connections of this sandbox are open; close some.\n"
    head = b"HTTP/1.1 503 outlast: too many connections\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    with anyio.move_on_after(1.0):
        await stream.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    await anyio.aclose_forcefully(stream)
