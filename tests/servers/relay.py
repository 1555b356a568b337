"""A relay before a server, which cuts connections when told to."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Literal, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.from_thread import start_blocking_portal

Moment: TypeAlias = Literal["unsent", "sent", "answered"]
"""When the connection is cut, seen from the next thing that a client says: before the server hears it, right after it
was passed on, or when the server has answered and the client has not heard it."""

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Relay:
    """Passes bytes on in both directions until it is told to cut."""

    def __init__(self, server_port: int, port: int) -> None:
        self.port = port
        self.cuts = 0
        """How many connections it has cut."""
        self._server_port = server_port
        self.stalled = False
        """Nothing is passed on, and nobody is told."""
        self.delay_s = 0.0
        """How long whatever is said takes, in either direction."""
        self._armed: list[Moment] = []

    def cut(self, moment: Moment) -> None:
        """Cut the connection on which a client says something next."""
        self._armed.append(moment)

    async def serve(self, client: SocketStream) -> None:
        try:
            server = await anyio.connect_tcp("127.0.0.1", self._server_port)
        except OSError:
            await client.aclose()
            return
        async with server, client, anyio.create_task_group() as tasks:
            state: list[Moment] = []
            tasks.start_soon(self._up, client, server, state, tasks.cancel_scope)
            tasks.start_soon(self._down, client, server, state, tasks.cancel_scope)

    async def _up(
        self, client: SocketStream, server: SocketStream, state: list[Moment], scope: anyio.CancelScope
    ) -> None:
        with suppress(*GONE):
            while True:
                data = await client.receive()
                if self.stalled:
                    continue
                await anyio.sleep(self.delay_s)
                moment = self._armed.pop() if self._armed else None
                if moment is not None:
                    self.cuts += 1
                    state.append(moment)
                if moment != "unsent":
                    await server.send(data)
                if moment in {"unsent", "sent"}:
                    break
        scope.cancel()

    async def _down(
        self, client: SocketStream, server: SocketStream, state: list[Moment], scope: anyio.CancelScope
    ) -> None:
        with suppress(*GONE):
            while True:
                data = await server.receive()
                if self.stalled:
                    continue
                await anyio.sleep(self.delay_s)
                if state:
                    break
                await client.send(data)
        scope.cancel()


@asynccontextmanager
async def _open_relay(server_port: int) -> AsyncGenerator[Relay]:
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        relay = Relay(server_port, listener.extra(SocketAttribute.local_port))
        tasks.start_soon(listener.serve, relay.serve)
        try:
            yield relay
        finally:
            tasks.cancel_scope.cancel()


@contextmanager
def relay_to(server_port: int) -> Generator[Relay]:
    """A relay to a port of this machine, on a thread of its own."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_open_relay(server_port)) as relay,
    ):
        yield relay
