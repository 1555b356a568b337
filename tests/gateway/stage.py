"""A gateway between a real HTTP client and a provider that says exactly the bytes it is told to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import httpx
import msgspec

from outlast.adapter import Door
from outlast.clock import SystemClock
from outlast.gateway import HttpGateway, Limits, Open, Upstream, open_gateway
from tests.gateway.reference import MemoryAttempt, PlainDialogue

STREAM = "text/event-stream"
Chunk = bytes | anyio.Event


@dataclass
class Said:
    """One request that reached the provider."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)


@dataclass
class Reply:
    """What the provider answers: chunks of the body, and events to wait for between them."""

    chunks: Iterable[Chunk] = ()
    kind: str = STREAM
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    broken: bool = False
    """The connection is closed where the body should go on."""


class RawProvider:
    """Answers request after request as it is told; the last reply is given again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Said] = []
        self.replies = list(replies)
        self.base_url = ""
        self._open: set[asyncio.StreamWriter] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while (said := await _read(reader)) is not None:
                self.requests.append(said)
                reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                await _say(writer, reply)
                if reply.broken:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self._open.discard(writer)
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0, limit=1 << 26)
        async with server:
            self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            try:
                yield
            finally:
                for writer in self._open:
                    writer.close()


async def _read(reader: asyncio.StreamReader) -> Said | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (header.partition(":") for header in rest)}
    return Said(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _say(writer: asyncio.StreamWriter, reply: Reply) -> None:
    headers = {"content-type": reply.kind, "transfer-encoding": "chunked", **reply.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {reply.status} OK\r\n{lines}\r\n".encode())
    for chunk in reply.chunks:
        if isinstance(chunk, anyio.Event):
            await chunk.wait()
        elif chunk:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
    if not reply.broken:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


@dataclass
class Stage:
    """Everything in its place."""

    attempt: MemoryAttempt
    dialogue: PlainDialogue
    gateway: HttpGateway
    door: Door
    client: httpx.AsyncClient
    path: str = "/v1/messages?beta=true"

    async def ask(self, request: object, **headers: str) -> httpx.Response:
        return await self.client.post(self.path, content=encoded(request), headers=headers)

    @asynccontextmanager
    async def asking(self, request: object, **headers: str) -> AsyncGenerator["Hearing"]:
        async with self.client.stream(
            "POST", self.path, content=encoded(request), headers=headers
        ) as response:
            yield Hearing(response)

    async def hook(self, event: str, payload: object, token: str | None = None) -> dict[str, Any]:
        bearer = {"authorization": f"Bearer {self.door.token if token is None else token}"}
        url = f"{self.door.hooks_url}/{event}"
        response = await self.client.post(url, content=encoded(payload), headers=bearer)
        assert response.status_code == 200
        return cast("dict[str, Any]", response.json())


class Hearing:
    """A response as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.heard = b""
        self._chunks: AsyncIterator[bytes] = response.aiter_raw()

    async def until(self, text: bytes) -> bytes:
        """Read until `text` has come; returns all that has."""
        while text not in self.heard:
            await self.more()
        return self.heard

    async def more(self) -> bytes:
        """Read what comes next; returns all that has come."""
        with anyio.fail_after(5):
            self.heard += await anext(self._chunks)
        return self.heard

    async def rest(self) -> bytes:
        with anyio.fail_after(5):
            async for chunk in self._chunks:
                self.heard += chunk
        return self.heard


def encoded(request: object) -> bytes:
    return request if isinstance(request, bytes) else msgspec.json.encode(request)


@asynccontextmanager
async def stage(
    provider: RawProvider | str | Upstream,
    *,
    attempt: MemoryAttempt | None = None,
    dialogue: PlainDialogue | None = None,
    limits: Limits | None = None,
    path: str = Stage.path,
) -> AsyncGenerator[Stage]:
    """A gateway before `provider`, one attempt admitted, and an HTTP client that is its harness."""
    attempt, dialogue = attempt or MemoryAttempt(), dialogue or PlainDialogue()
    async with AsyncExitStack() as stack:
        upstream: Upstream
        if isinstance(provider, RawProvider):
            await stack.enter_async_context(provider.serving())
            upstream = Open(provider.base_url)
        elif isinstance(provider, str):
            upstream = Open(provider)
        else:
            upstream = provider
        gateway = await stack.enter_async_context(
            open_gateway(upstream=upstream, clock=SystemClock(), limits=limits)
        )
        door = await stack.enter_async_context(gateway.admit(attempt, dialogue))
        client = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=door.base_url, headers={"x-api-key": door.token}, timeout=10, verify=False
            )
        )
        yield Stage(attempt, dialogue, gateway, door, client, path)
