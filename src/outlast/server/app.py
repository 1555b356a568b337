"""The server as an ASGI application: routes from the table of operations, and nothing beside it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.answers import json_answer
from outlast.clock import Clock, SystemClock
from outlast.server.access import Doorkeeper
from outlast.server.asking import Desk
from outlast.server.limits import Limits
from outlast.server.openapi import openapi
from outlast.server.operations import Operation, Services
from outlast.server.table import OPERATIONS

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What the page may load: nothing from elsewhere, nothing inline."""
HEADERS: Final[Sequence[tuple[str, str]]] = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("cache-control", "no-store"),
)
"""Of every answer that does not say otherwise itself."""
_RAW: Final = tuple((name.encode(), value.encode()) for name, value in HEADERS)
NOWHERE: Final = "There is nothing at this address. /openapi.json lists what there is."
OTHERWISE: Final = "This address does not take {method}. It takes {known}."


def build_app(
    services: Services,
    doorkeeper: Doorkeeper,
    *,
    limits: Limits | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    beside: Sequence[BaseRoute] = (),
    clock: Clock | None = None,
) -> Starlette:
    """The application, over services that are open for as long as it is used.

    Args:
        beside: routes that are no operations: static files, which hold nothing of anybody.
        clock: for rates.
    """
    desk = Desk.of(services, doorkeeper, limits or Limits(), clock or SystemClock())
    document = json_answer(200, openapi(operations)).body
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes: list[BaseRoute] = [_route(desk, path, methods) for path, methods in by_path.items()]

    async def described(_request: Request) -> Response:
        return Response(document, media_type="application/json")

    routes.append(Route("/openapi.json", described, methods=["GET"]))
    app = Starlette(routes=[*routes, *beside], exception_handlers={404: _nowhere, 405: _otherwise})
    app.add_middleware(Guarded)
    return app


def _route(desk: Desk, path: str, methods: dict[str, Operation]) -> Route:
    async def endpoint(request: Request) -> Response:
        operation = methods.get(request.method)
        if operation is None:
            known = ", ".join(sorted(methods))
            answer = json_answer(405, {"error": OTHERWISE.format(method=request.method, known=known)})
            answer.headers["allow"] = known
            return answer
        return await desk.answer(request, operation)

    # Starlette would answer another method in words of its own.
    return Route(path, _Any(endpoint), include_in_schema=False)


class _Any:
    """An endpoint that is given every method."""

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


async def _nowhere(_request: Request, _error: Exception) -> Response:
    return json_answer(404, {"error": NOWHERE})


async def _otherwise(request: Request, _error: Exception) -> Response:
    return json_answer(405, {"error": OTHERWISE.format(method=request.method, known="GET")})


class Guarded:
    """Puts our headers on every answer that does not have them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in _RAW if name not in there),
                ]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
