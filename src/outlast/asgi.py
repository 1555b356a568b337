"""What is mounted in other applications: the whole server, and a route that advances sessions.

    from outlast.asgi import app
    from outlast.server.tokens import Tokens

    outlast = app(Tokens(Path("tokens.json")), agents=[support])

    @asynccontextmanager
    async def lifespan(_: FastAPI):
        async with outlast.open():
            yield

    api = FastAPI(lifespan=lifespan)
    api.mount("/outlast", outlast)

The route is for where processes live for a request only.

    from starlette.applications import Starlette
    from outlast.asgi import advance_route

    app = Starlette(routes=[advance_route(agents=[support], token=…, limit_s=50, waker=HttpWaker(…))])

Each request is a worker of its own, which is through in time: it claims, advances, hands over what does not fit, and
holds nothing when it answers. A process that is frozen between requests freezes no lease with it.
"""

import hmac
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.adapter import Agent, Gateway
from outlast.answers import failure, json_answer
from outlast.errors import BadInput, OutlastError
from outlast.links import links_of
from outlast.notify import Notifier, notifier_of
from outlast.opening import open_world, waker_of
from outlast.server.access import Doorkeeper
from outlast.server.limits import Limits
from outlast.server.serving import App, Offer
from outlast.serving import read_body
from outlast.settings import read_settings
from outlast.telemetry.wishes import open_collector
from outlast.waker import Waker
from outlast.worker import WorkerConfig, open_worker
from outlast.workspace import Workspace
from outlast.world import World

BODY_BYTES: Final = 16 * 1024


class _Asked(msgspec.Struct):
    """The body of a request: all of it may be missing."""

    session: str = ""
    """Advance this one; empty: whatever is ready, a sweep."""
    tenant: str = "default"


def app(
    doorkeeper: Doorkeeper,
    *,
    agents: Sequence[Agent] = (),
    workspaces: Mapping[str, Workspace] | None = None,
    world: Callable[[], AbstractAsyncContextManager[World]] = open_world,
    waker: Waker | None = None,
    limits: Limits | None = None,
) -> App:
    """The server that `outlast serve` serves, to mount in Starlette or FastAPI, at any path.

    Args:
        doorkeeper: knows who asks; `outlast.server.tokens.Tokens` reads a file of tokens.
        agents: sessions of these are opened with their settings and workspaces.
        workspaces: where who opens a session may let it work, by name.
        world: opens the World, once.
        waker: told of sessions that are ready; by default as the settings have it.
        limits: what it bears of one who asks.
    """
    settings = read_settings()
    hint = waker_of(settings) if waker is None else waker
    offer = Offer(
        doorkeeper,
        agents,
        workspaces or {},
        hint,
        limits or Limits(),
        settings.data,
        links_of(settings),
        settings.public_url.rstrip("/"),
    )
    return App(world, offer)


def advance_route(  # noqa: PLR0913 - each keyword is a choice of its own
    agents: Sequence[Agent],
    *,
    token: str,
    limit_s: float,
    path: str = "/outlast/advance",
    world: Callable[[], AbstractAsyncContextManager[World]] = open_world,
    gateway: Callable[[], AbstractAsyncContextManager[Gateway]] | None = None,
    waker: Waker | None = None,
    notifier: Notifier | None = None,
    data: Path | None = None,
) -> Route:
    """A route to mount in Starlette or FastAPI: `POST {"session": …}` advances one session, `POST {}` what is ready.

    It answers `{"again": …, "wake_at_s": …, "status": …}`: whether there is more to do at once, when there will be
    (Unix time, or null), and how the session stands. Where there is more to do at once, `waker` is told before it
    answers.

    Args:
        token: who calls must send `authorization: Bearer <token>`.
        limit_s: seconds after which the process may be ended: everything is handed over before.
        world: opens the World, for each request anew.
        gateway: opens the gateway that agent programs need; a loop of one's own needs none.
        waker: by default as the settings have it.
        notifier: told how the turns stand; by default as the settings have it.
        data: directory of homes, workspaces and locks; by default that of the settings.
    """
    named = {agent.name: agent for agent in agents}
    if not token or limit_s <= 0:
        raise BadInput(detail="advance_route needs a token, and some time (limit_s).")

    async def advance(request: Request) -> Response:
        end_s = time.monotonic() + limit_s  # to open a World takes time too
        if not _may(request, token):
            return json_answer(401, {"error": "The bearer token is missing or wrong."})
        try:
            body = await read_body(request, BODY_BYTES)
            asked = msgspec.json.decode(b"too long" if body is None else body or b"{}", type=_Asked)
        except msgspec.MsgspecError as error:
            return json_answer(400, {"error": f"The body is no request to advance: {error}"})
        try:
            told = notifier_of(read_settings()) if notifier is None else notifier
            hint = waker_of(read_settings()) if waker is None else waker
            config = WorkerConfig(data or read_settings().data, only=asked.session or None, notifier=told)
            async with world() as whole, open_collector(os.environ, config.clock, "") as collector:
                store = whole.for_tenant(asked.tenant)
                opened = nullcontext(cast("Gateway", None)) if gateway is None else gateway()
                config = replace(config, collector=collector)
                async with opened as doors, open_worker(store, named, doors, config) as worker:
                    left = await worker.advance(
                        asked.session or None, limit_s=max(0.0, end_s - time.monotonic())
                    )
                if left.again and hint is not None:
                    await hint.wake(asked.tenant, asked.session)
        except OutlastError as error:
            return failure(error)
        return json_answer(200, msgspec.structs.asdict(left))

    return Route(path, advance, methods=["POST"])


def _may(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())
