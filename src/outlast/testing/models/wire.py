"""One exchange over HTTP, with what ASGI lacks: dropping the connection, seeing at once that it is gone."""

import asyncio
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.lowlevel
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_CLOSE_S: Final = 1.0  # for a client that does not read what was sent before the cut
_TRANSPORT: Final = "transport"


class Connection(H11Protocol):
    """A server connection that tells the application its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Put the transport where each request's scope finds it."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _TRANSPORT: transport}


class Wire:
    """The answer to one request, as it goes out.

    Nothing is raised for a client that goes away: `gone` says so, and what is written then is dropped.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport: asyncio.Transport = scope["state"][_TRANSPORT]
        self._receive = receive
        self._send = send

    @property
    def gone(self) -> bool:
        """Whether the connection is closed, by either side."""
        return self._transport.is_closing()

    async def read(self) -> bytes:
        """Read the request's body; what came of it, if the client goes away."""
        body = bytearray()
        while (event := await self._receive())["type"] == "http.request":
            body += event.get("body", b"")
            if not event.get("more_body", False):
                break
        return bytes(body)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than the client does."""
        with anyio.move_on_after(seconds):
            await self.until_gone()

    async def until_gone(self) -> None:
        """Wait until the connection is closed."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers."""
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes) -> None:
        """Send bytes now, as a chunk of their own, and let other connections have a turn."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        await anyio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """End the response properly."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def drop(self) -> None:
        """Close the connection in the middle of the response, behind what was sent and without its end.

        A reset would be ruder, but could take away frames that were sent, and with them the place of the cut.
        """
        self._transport.close()
        with anyio.move_on_after(_CLOSE_S):
            await self.until_gone()
            return
        self._transport.abort()
        await self.until_gone()
