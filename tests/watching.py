"""The real server in this process, over a World of the test's, for tests of what is watched."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx

from outlast.clock import SystemClock
from outlast.server.app import build_app
from outlast.server.feed import Bounds
from outlast.server.feeds import Hub
from outlast.server.hub import open_hub
from outlast.server.limits import Limits, Rate
from outlast.server.operations import Services
from outlast.server.tokens import Tokens
from outlast.serving import Server
from outlast.world import World


@dataclass
class Watched:
    """A server that runs, and somebody who may ask it."""

    url: str
    hub: Hub
    client: httpx.AsyncClient
    port: int
    connections: Callable[[], int]
    """How many there are."""


@asynccontextmanager
async def watched(
    world: World, directory: Path, *, bounds: Bounds | None = None, send_s: float = 60.0
) -> AsyncGenerator[Watched]:
    """Serve a World on loopback."""
    tokens = Tokens(directory / "tokens.json")
    clock = SystemClock()
    headers = {"authorization": f"Bearer {tokens.add('tests', clock)}"}
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    async with open_hub(world, bounds or Bounds()) as hub:
        services = Services(world, hub, clock, _woken, lambda _who, _what, _ids: None, doorkeeper=tokens)
        app = build_app(services, tokens, limits=Limits(known=Rate(0.0, 1.0), send_s=send_s))
        server = Server(app, close_s=2.0)
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(headers=headers, timeout=10.0, base_url=url, trust_env=False) as client,
        ):
            tasks.start_soon(server.run_until_ended, [listener])
            try:
                yield Watched(url, hub, client, port, lambda: len(server.server_state.connections))
            finally:
                hub.end()
                server.end()


async def _woken(_tenant: str, _session: str) -> None:
    pass
