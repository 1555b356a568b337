"""A stage for front ends' own clients: real workers that are killed, servers that come and go, a line that is cut."""

import asyncio
import os
import random
import signal
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.clock import SystemClock
from outlast.engine.processes import supervisor_argv
from outlast.opening import open_world
from outlast.server.access import Identity
from outlast.server.app import build_app
from outlast.server.hub import open_hub
from outlast.server.limits import Limits, Rate
from outlast.server.operations import Services
from outlast.server.tokens import Tokens
from outlast.serving import TRANSPORT, Server
from outlast.world import World
from tests.node import NODE

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".cache" / "clients"
WORKER = Path(__file__).with_name("worker.py")
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
MISSING = "The clients are not installed: run `make clients`."
"""What `ai` 7 itself asks for is Node 22; all that is used here runs on 20."""


class Line:
    """Between clients and servers: cuts connections without a word, each after some bytes of what it brings.

    So many in a row, then it lets one through. Servers close a connection after each answer.
    """

    def __init__(self, draw: random.Random) -> None:
        self.ports: list[int] = []
        """Servers: each connection goes to one of them."""
        self.port = 0
        self.left = 0
        self.row = 1
        self.most = [100]
        self.cut = 0
        self._row = 0
        self._spare = 0
        self._draw = draw
        self._open: set[anyio.CancelScope] = set()

    def drop(self) -> None:
        """Cut what is open now."""
        for scope in self._open:
            scope.cancel()

    def cuts(self, cuts: int, *, row: int, most: Sequence[int], spare: int = 0) -> None:
        """Cut so many connections, so many in a row, each after up to so many bytes as one of `most`.

        Args:
            spare: so many are let through first.
        """
        self.left, self.row, self.most, self.cut, self._row = cuts, row, list(most), 0, 0
        self._spare = spare

    async def serve(self, client: SocketStream) -> None:
        try:
            server = await anyio.connect_tcp("127.0.0.1", self._draw.choice(self.ports))
        except OSError:
            await client.aclose()
            return
        async with server, client, anyio.create_task_group() as tasks:
            self._open.add(tasks.cancel_scope)
            tasks.start_soon(self._up, client, server, tasks.cancel_scope)
            tasks.start_soon(self._down, client, server, tasks.cancel_scope)
        self._open.discard(tasks.cancel_scope)

    async def _up(self, client: SocketStream, server: SocketStream, scope: anyio.CancelScope) -> None:
        with suppress(*GONE):
            while True:
                await server.send(await client.receive())
        scope.cancel()

    async def _down(self, client: SocketStream, server: SocketStream, scope: anyio.CancelScope) -> None:
        left = self._draw.randrange(self._draw.choice(self.most))
        if self._spare:
            left, self._spare = 1 << 40, self._spare - 1
        elif self._row == self.row:
            left, self._row = 1 << 40, 0
        with suppress(*GONE):
            while True:
                data = await server.receive()
                if self.left and len(data) > left:
                    self.left, self.cut, self._row = self.left - 1, self.cut + 1, self._row + 1
                    await client.send(data[:left])
                    raw: socket.socket = client.extra(SocketAttribute.raw_socket)
                    if self._draw.random() < 0.5:  # a reset, else an orderly end in the middle
                        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                left -= len(data)
                await client.send(data)
        scope.cancel()


@dataclass
class Stage:
    """Everything that stands behind the clients."""

    directory: Path
    world: World
    url: str
    line: Line
    draw: random.Random
    token: str
    program: Path = WORKER
    """Of its workers."""
    workers: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )
    born: int = 0
    killed: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.line.port}"

    async def hire(self) -> None:
        """One more worker."""
        self.born += 1
        name = f"worker-{self.born}"
        locks = self.directory / "data" / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, str(self.program), self.url, str(self.directory / "data"), name]
        process = await asyncio.create_subprocess_exec(
            *supervisor_argv(argv, lock=locks / name, ttl_s=30.0),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.workers[name] = process
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"

    async def kill(self, name: str = "") -> None:
        """Kill the supervisor of a worker, and so that too; by default the oldest, once another is there for it."""
        if not name:
            await self.hire()
        victim = self.workers.pop(name or next(iter(self.workers)))
        victim.send_signal(signal.SIGKILL)
        await victim.communicate()  # to the end of what it says: then nobody of it is left
        self.killed += 1

    async def strike(self, every_s: float) -> None:
        """Kill one after the other."""
        while True:
            await asyncio.sleep(every_s * (0.5 + self.draw.random()))
            with anyio.CancelScope(shield=True):  # whoever was hired is known here, or would be left behind
                await self.kill()


@asynccontextmanager
async def stage(
    directory: Path, *, seed: int, beside: Sequence[BaseRoute] = (), program: Path = WORKER
) -> AsyncGenerator[Stage]:
    """Two workers, two servers and a line to them."""
    url, draw = f"sqlite:{directory / 'world.db'}", random.Random(seed)
    tokens = Tokens(directory / "tokens.json")
    token = tokens.add("tester", SystemClock())
    line = Line(draw)
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(open_world(url))
        for _ in range(2):
            line.ports.append(await stack.enter_async_context(_server(world, tokens, beside)))
        listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        line.port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, line.serve)
        place = Stage(directory, world, url, line, draw, token, program)
        try:
            await place.hire()
            await place.hire()
            yield place
        finally:
            for worker in place.workers.values():
                if worker.returncode is None:
                    worker.kill()
            with anyio.CancelScope(shield=True):
                for worker in place.workers.values():
                    await worker.communicate()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _server(world: World, tokens: Tokens, beside: Sequence[BaseRoute]) -> AsyncGenerator[int]:
    """A server of its own hub, as another process would have."""

    async def woken(_tenant: str, _session: str) -> None:
        return

    def audit(_identity: Identity, _what: str, _facts: Mapping[str, Any]) -> None:
        return

    async with open_hub(world) as hub:
        services = Services(world, hub, SystemClock(), woken, audit)
        limits = Limits(known=Rate(10_000, 10_000), unknown=Rate(10_000, 10_000))
        app = build_app(services, tokens, limits=limits, beside=beside)
        listener = socket.create_server(("127.0.0.1", 0))
        server = Server(closing(app), close_s=1.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run_until_ended, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                hub.end()
                server.end()


def closing(app: ASGIApp) -> ASGIApp:
    """The application, with a connection for each answer.

    It is not said: of a connection that is to be closed, Node takes one that was cut for one that has ended.
    """

    async def closed(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        transport: asyncio.Transport = scope["state"][TRANSPORT]
        transport.close()

    return closed


async def bundled(script: str) -> bytes:
    """One of the scripts here with everything that it imports, for a browser."""
    argv = [
        NODE,
        "node_modules/.bin/esbuild",
        _placed(script).name,
        "--bundle",
        "--jsx=automatic",
        "--log-level=error",
    ]
    defined = '--define:process.env.NODE_ENV="production"'
    process = await asyncio.create_subprocess_exec(
        *argv, defined, cwd=CLIENTS, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said


def _placed(script: str) -> Path:
    """A script where the modules that it imports are found."""
    if not (CLIENTS / "node_modules").exists():
        raise AssertionError(MISSING)
    source = (Path(__file__).parent / script).read_text()
    target = CLIENTS / script
    if not target.exists() or target.read_text() != source:
        target.write_text(source)
    return target


async def run_client(script: str, told: dict[str, Any], *, limit_s: float = 300.0) -> Any:
    """Run one of the clients here by Node, and return what it prints."""
    target = _placed(script)
    process = await asyncio.create_subprocess_exec(
        NODE, str(target), msgspec.json.encode(told).decode(), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(limit_s):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return msgspec.json.decode(said)
