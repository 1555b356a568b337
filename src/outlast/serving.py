"""An HTTP server beside other work in a process.

Without signal handlers and log set-up, and with an end that waits for nobody long. Its applications are given what ASGI
lacks: the transport, which can be closed in the middle of an answer.
"""

import asyncio
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

TRANSPORT: Final = "outlast.transport"
"""Where the transport stands in the `state` of a request's scope."""
_KEEP_ALIVE_S: Final = 120
_HEADER_BYTES: Final = 256 * 1024
_HANG_UP_S: Final = 1.0
BODY_S: Final = 10.0
"""How long a client may take to send a body."""


class Connection(H11Protocol):
    """A connection that tells the application its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Put the transport where each request's scope finds it."""
        super().connection_made(transport)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            # asyncio does this only for sockets that were made with the protocol's number; without it the first words
            # of an answer wait some 40 ms for the acknowledgement of its head.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.app_state = {**self.app_state, TRANSPORT: transport}


class Server(uvicorn.Server):
    """Serves `app` until `end`, and then at most `close_s` longer."""

    def __init__(self, app: ASGIApp, close_s: float, connection: type[Connection] = Connection) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=connection,
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

    async def run_until_ended(self, listeners: Sequence[socket.socket]) -> None:
        """Serve, also when cancelled: only an orderly end drops the connections."""
        with anyio.CancelScope(shield=True):
            await self.serve(list(listeners))

    def end(self) -> None:
        """Drop all connections and end."""
        self._ended.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the business of the process."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing more, drop who is connected, and give what answers them a moment."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connected in list(self.server_state.connections):
            if isinstance(connected, Connection):
                connected.transport.abort()
        if self.server_state.tasks:
            _, late = await asyncio.wait(set(self.server_state.tasks), timeout=self._close_s)
            for task in late:
                task.cancel()


async def until_gone(receive: Receive) -> None:
    """Wait until the connection of a request is closed, by either side; only after its body."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def hang_up(transport: asyncio.Transport, receive: Receive) -> None:
    """Close a connection in the middle of an answer, behind what was sent and without its end.

    A reset would be ruder, but could take away what was sent, and with it the place of the cut. It comes only to a
    client that does not take what was sent.
    """
    transport.close()
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_HANG_UP_S) as waiting:
            await until_gone(receive)
        if waiting.cancelled_caught:
            transport.abort()
            await until_gone(receive)


async def read_body(request: Request, most: int) -> bytes | None:
    """The body of a request; None of one that is longer than `most` bytes, or takes longer than `BODY_S`."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    return None
    except TimeoutError:
        return None
    return bytes(body)
