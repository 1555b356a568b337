"""Opens what a server stands on, and the application over it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from outlast.adapter import Agent
from outlast.answers import json_answer
from outlast.clock import Clock, SystemClock
from outlast.links import Links
from outlast.server.access import Doorkeeper
from outlast.server.app import build_app
from outlast.server.audit import Audit
from outlast.server.hub import open_hub
from outlast.server.limits import Limits
from outlast.server.operations import Hook, Services
from outlast.server.routes.page import page_routes
from outlast.waker import Waker
from outlast.workspace import Workspace
from outlast.world import World

NOT_OPEN = (
    "The server is not open. Where it is mounted in another application, that one's lifespan opens it: "
    "`async with app.open(): …`."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server is set up with."""

    doorkeeper: Doorkeeper
    agents: Sequence[Agent] = ()
    workspaces: Mapping[str, Workspace] = field(default_factory=dict[str, Workspace])
    waker: Waker | None = None
    limits: Limits = field(default_factory=Limits)
    data: Path | None = None
    links: Links | None = None
    public_url: str = ""
    webhook: Hook | None = None
    """These four as in `Services`."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class Served:
    """An application that is open."""

    app: Starlette
    end: Callable[[], None]
    """Lets the streams end in order: whoever reads them comes back with its cursor, to the next process."""


class App:
    """The server, to be served or mounted: an ASGI application.

    Served by itself, its lifespan opens it. Mounted in another application, that one opens it (`open`), since nobody
    calls the lifespan of what is mounted.
    """

    def __init__(self, world: Callable[[], AbstractAsyncContextManager[World]], offer: Offer) -> None:
        self._world = world
        self._offer = offer
        self._inner: Starlette | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Open the World, and answer requests while it is open."""
        async with open_app(self._world, self._offer) as served:
            self._inner = served.app
            try:
                yield
            finally:
                self._inner = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._inner is not None:
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            await json_answer(503, {"error": NOT_OPEN})(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.open():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            kind = "startup" if self._inner is None else "shutdown"
            await send({"type": f"lifespan.{kind}.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


@asynccontextmanager
async def open_app(
    world: Callable[[], AbstractAsyncContextManager[World]], offer: Offer
) -> AsyncGenerator[Served]:
    """The application over a World that is open for as long."""
    async with world() as whole, open_hub(whole) as hub:
        services = Services(
            whole,
            hub,
            offer.clock,
            _woken(offer.waker),
            Audit(offer.clock),
            {agent.name: agent for agent in offer.agents},
            offer.workspaces,
            offer.data,
            links=offer.links,
            public_url=offer.public_url,
            webhook=offer.webhook,
            doorkeeper=offer.doorkeeper,
        )
        app = build_app(
            services, offer.doorkeeper, limits=offer.limits, beside=page_routes(), clock=offer.clock
        )
        yield Served(app, hub.end)


def _woken(waker: Waker | None) -> Callable[[str, str], Awaitable[None]]:
    async def woken(tenant: str, session: str) -> None:
        if waker is not None:
            await waker.wake(tenant, session)

    return woken
