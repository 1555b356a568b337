"""A small HTTP server for what a program at a terminal tells, whether or not a turn of it is open."""

import hmac
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from outlast.adapters.shapes import as_object
from outlast.groups import task_group
from outlast.serving import Server, read_body

BODY_BYTES: Final = 64 * 1024 * 1024
CLOSE_S: Final = 1.0

Heard: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers what is told: its event, the last part of the address, and its payload."""


@asynccontextmanager
async def hearing(
    heard: Heard, token: str, *, refusal: Mapping[str, Any] | None = None
) -> AsyncGenerator[str]:
    """Hear what is posted, as JSON with `token` as its bearer, to the URL that this gives and `/EVENT`.

    Args:
        heard: answers.
        token: without it the answer is `refusal`, with status 403.
    """

    async def answer(request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), token.encode()):
            return JSONResponse(dict(refusal or {}), 403)
        body = await read_body(request, BODY_BYTES)
        said = as_object(msgspec.json.decode(body or b"{}"))
        return JSONResponse(await heard(request.path_params["event"], said))

    app = Starlette(routes=[Route("/terminal/{event}", answer, methods=["POST"])])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(app, CLOSE_S)
        async with task_group() as tasks:
            tasks.start_soon(server.run_until_ended, [listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/terminal"
            finally:
                server.end()
