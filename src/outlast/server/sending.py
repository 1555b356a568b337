"""An answer that goes on, and ends when whoever reads it is gone, or takes nothing for too long."""

import asyncio
from contextlib import AbstractContextManager, aclosing

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from outlast.groups import task_group
from outlast.server.operations import Streamed
from outlast.serving import TRANSPORT, until_gone


class Stream(Response):
    """Sends the pieces of a stream as they come, and closes their iterator however it ends."""

    def __init__(
        self, streamed: Streamed, status: int, send_s: float, held: AbstractContextManager[None]
    ) -> None:
        super().__init__(status_code=status, media_type=streamed.media, headers=dict(streamed.headers))
        del self.headers["content-length"]
        self._pieces = streamed.pieces
        self._send_s = send_s
        self._held = held
        self._over = streamed.over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with task_group() as tasks:
                tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
                with self._held:
                    await self._send_all(scope, send)
                tasks.cancel_scope.cancel()
        finally:
            self._over()

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await until_gone(receive)
        scope.cancel()

    async def _send_all(self, scope: Scope, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            async with aclosing(self._pieces) as pieces:
                await send(start)
                async for piece in pieces:
                    with anyio.fail_after(self._send_s):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            transport: asyncio.Transport | None = scope.get("state", {}).get(TRANSPORT)
            if transport is not None:
                transport.abort()
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
