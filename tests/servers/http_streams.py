"""HTTP for stand-ins of APIs that upgrade connections to raw bytes, which ASGI servers do not let through."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11


@dataclass
class Asked:
    """A request, whole."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Said:
    """An answer. `upgrade`: what carries the connection on after it, given what came with the request already."""

    status: int
    body: object = b""
    headers: Mapping[str, str] | None = None
    upgrade: "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None" = None

    @property
    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answer = Callable[[Asked], Awaitable[Said]]


@asynccontextmanager
async def serving(answer: Answer, socket: str) -> AsyncGenerator[None]:
    """Serve on a unix socket."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await _serve(answer, reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_unix_server(connected, socket)
    try:
        yield
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _serve(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    http = h11.Connection(h11.SERVER)
    while True:
        asked = await _request(http, reader)
        if asked is None:
            return
        said = await answer(asked)
        if said.upgrade is not None and asked.headers.get("upgrade") == "tcp":
            kind = dict(said.headers or {}).get("Content-Type", "application/vnd.docker.raw-stream")
            writer.write(f"HTTP/1.1 101 UPGRADED\r\nContent-Type: {kind}\r\n".encode())
            writer.write(b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            await said.upgrade(reader, writer)
            return
        headers = {
            "Content-Type": "application/json",
            **(said.headers or {}),
            "Content-Length": str(len(said.bytes)),
        }
        if said.status in {204, 304}:
            headers.pop("Content-Type")
            headers["Content-Length"] = "0"
        pairs = list(headers.items())
        for event in (
            h11.Response(status_code=said.status, headers=pairs),
            *([h11.Data(data=said.bytes)] if said.bytes and said.status not in {204, 304} else []),
            h11.EndOfMessage(),
        ):
            writer.write(http.send(event) or b"")
        await writer.drain()
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return
        http.start_next_cycle()


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> Asked | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            parts = urlsplit(head.target.decode())
            headers = {name.decode().lower(): value.decode() for name, value in head.headers}
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            return Asked(head.method.decode(), unquote(parts.path), query, headers, bytes(body))
        else:
            return None
