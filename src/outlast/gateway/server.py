"""The HTTP server inside the worker: without signal handlers and log set-up, with an end that waits for nobody long."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast.gateway.groups import task_group
from outlast.gateway.wire import TRANSPORT

_BACKLOG: Final = 1024
_KEEP_ALIVE_S: Final = 120
_HEADER_BYTES: Final = 256 * 1024


class _Connection(H11Protocol):
    """A connection that tells the application its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            # asyncio does this only for sockets that were made with the protocol's number; without it the first words
            # of an answer wait some 40 ms for the acknowledgement of its head.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.app_state = {**self.app_state, TRANSPORT: transport}


class _Server(uvicorn.Server):
    def __init__(self, app: ASGIApp, close_s: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                h11_max_incomplete_event_size=_HEADER_BYTES,
            )
        )
        self._close_s = close_s
        self._ended = anyio.Event()

    def end(self) -> None:
        self._ended.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # signals are the worker's business

    async def main_loop(self) -> None:
        await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, _Connection):
                connection.transport.abort()
        if self.server_state.tasks:
            _, late = await asyncio.wait(set(self.server_state.tasks), timeout=self._close_s)
            for task in late:
                task.cancel()


@asynccontextmanager
async def serving(app: ASGIApp, host: str, unix: Path | None, close_s: float) -> AsyncGenerator[str]:
    """Serve `app` on a free port of `host`, and on the socket `unix`, while the context lasts; gives the base URL."""
    with _listening(host, unix) as listeners:
        server = _Server(app, close_s)
        async with task_group() as tasks:
            tasks.start_soon(_run, server, listeners)
            name, port = listeners[0].getsockname()[:2]
            try:
                yield f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
            finally:
                server.end()


async def _run(server: _Server, listeners: list[socket.socket]) -> None:
    # Only an orderly end drops the connections: it must not be cut short when the worker is cancelled.
    with anyio.CancelScope(shield=True):
        await server.serve(listeners)


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
