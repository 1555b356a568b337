"""One exchange over HTTP, with what ASGI lacks: dropping the connection, seeing at once that it is gone."""

import asyncio
from collections.abc import Mapping

import anyio
import anyio.lowlevel
from starlette.types import Receive, Scope, Send

from outlast.serving import TRANSPORT, hang_up, until_gone


class Wire:
    """The answer to one request, as it goes out.

    Nothing is raised for a client that goes away: `gone` says so, and what is written then is dropped.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport: asyncio.Transport = scope["state"][TRANSPORT]
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
        await until_gone(self._receive)

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
        """Close the connection in the middle of the response, behind what was sent and without its end."""
        await hang_up(self._transport, self._receive)
