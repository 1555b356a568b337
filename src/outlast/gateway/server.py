"""Where the gateway listens."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from outlast.gateway.strangers import Strangers
from outlast.groups import task_group
from outlast.serving import Connection, Server

_BACKLOG: Final = 1024


@asynccontextmanager
async def serving(
    app: ASGIApp, host: str, unix: Path | None, close_s: float, strangers: Strangers
) -> AsyncGenerator[str]:
    """Serve `app` on a free port of `host`, and on the socket `unix`, while the context lasts; gives the base URL.

    `strangers` is told of each connection.
    """
    with _listening(host, unix) as listeners:
        server = Server(app, close_s, _told_to(strangers))
        async with task_group() as tasks:
            tasks.start_soon(server.run_until_ended, listeners)
            name, port = listeners[0].getsockname()[:2]
            try:
                yield f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
            finally:
                server.end()


def _told_to(strangers: Strangers) -> type[Connection]:
    class Told(Connection):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            strangers.came(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.left(self.transport)
            super().connection_lost(exc)

    return Told


@contextmanager
def _listening(host: str, unix: Path | None) -> Generator[list[socket.socket]]:
    listeners = [
        socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
        )
    ]
    try:
        if unix is not None:
            listeners.append(_unix_listener(unix))
        yield listeners
    finally:
        for listener in listeners:
            listener.close()
        if unix is not None:
            unix.unlink(missing_ok=True)


def _unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
