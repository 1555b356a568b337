"""A harness with one of its gates broken: hooks that answer badly or not at all, a lost mirror, a fresh home."""

import asyncio
import shutil
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import anyio
import httpx

from outlast.adapter import (
    Adapter,
    Attempt,
    Dialogue,
    Door,
    Gateway,
    Resolved,
    TurnResult,
    Waiting,
)
from outlast.recovery import Abilities
from outlast.tool import Tool

Fault: TypeAlias = Literal["closed", "500", "empty", "garbage", "nonsense", "hang", "reset", "cut"]

_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: "
_ANSWERS: Mapping[str, bytes] = {
    "500": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "empty": _JSON + b"0\r\n\r\n",
    "garbage": _JSON + b"5\r\n\r\n{\xff\x00][",
    "nonsense": _JSON + b'9\r\n\r\n{"foo":1}',
    "cut": _JSON + b'500\r\n\r\n{"hookSpecific',
}


class HookServer:
    """Stands before the gateway's hooks, passes most calls on and spoils some.

    Args:
        event: the hook that is spoiled: `before`, `hello` …
        after: how many calls of it pass first.
    """

    def __init__(self, fault: Fault, *, event: str = "before", after: int = 0) -> None:
        self.fault = fault
        self.url = ""
        self.asked: list[str] = []
        """The hook events that came here, in order."""
        self._event = event
        self._left = after
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def before(self, hooks_url: str) -> AsyncGenerator[str]:
        """Serve in front of `hooks_url`; yields the address to give to the harness."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            try:
                await self._answer(reader, writer, hooks_url)
            except (ConnectionError, asyncio.IncompleteReadError):
                return
            finally:
                self._open.discard(writer)
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 26)
        async with server:
            try:
                yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            finally:
                for writer in self._open:
                    writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hooks_url: str
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        event = head.split(" ")[1].rsplit("/", 1)[-1]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(event)
        if event == self._event:
            self._left -= 1
            if self._left < 0:
                await self._spoil(writer)
                return
        async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
            passed = {name: headers[name] for name in ("authorization", "content-type") if name in headers}
            reply = await client.post(f"{hooks_url}/{event}", content=body, headers=passed)
        length = f"content-length: {len(reply.content)}\r\nconnection: close\r\n\r\n"
        writer.write(
            f"HTTP/1.1 {reply.status_code} OK\r\ncontent-type: application/json\r\n{length}".encode()
        )
        writer.write(reply.content)
        await writer.drain()

    async def _spoil(self, writer: asyncio.StreamWriter) -> None:
        match self.fault:
            case "hang":
                await anyio.sleep_forever()
            case "reset" | "closed":
                wire = cast("socket.socket", writer.get_extra_info("socket"))
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            case fault:
                writer.write(_ANSWERS[fault])
                await writer.drain()


class Around:
    """Everything of an attempt but what a subclass says otherwise."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.attempt, name)


class BadHooks(Around):
    """An attempt whose harness is sent to another hook server than the gateway's."""

    def __init__(self, attempt: Attempt, server: HookServer) -> None:
        super().__init__(attempt)
        self._server = server

    @property
    def gateway(self) -> Gateway:
        return cast("Gateway", self)

    @asynccontextmanager
    async def admit(self, attempt: Attempt, dialogue: Dialogue, token: str = "") -> AsyncGenerator[Door]:
        async with (
            self.attempt.gateway.admit(attempt, dialogue, token) as door,
            self._server.before(door.hooks_url) as url,
        ):
            gone = self._server.fault == "closed"
            yield replace(door, hooks_url="http://127.0.0.1:9" if gone else url)


class LostMirror(Around):
    """An attempt whose mirror reaches nobody."""

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        return


def in_a_fresh_home(attempt: Attempt) -> Attempt:
    """The attempt, once nothing of an earlier one is left in its home."""
    shutil.rmtree(attempt.places.home, ignore_errors=True)
    attempt.places.home.mkdir(mode=0o700)
    return attempt


class Spoiled:
    """An adapter that gives another the attempts that `spoil` makes of its own."""

    def __init__(self, inner: Adapter, spoil: Callable[[Attempt], object]) -> None:
        self._inner = inner
        self._spoil = spoil

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def abilities(self) -> Abilities:
        return self._inner.abilities

    def versions(self) -> Mapping[str, str]:
        return self._inner.versions()

    def settings(self) -> Mapping[str, Any]:
        return self._inner.settings()

    def check(self) -> Sequence[str]:
        return self._inner.check()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return self._inner.resolve(name, arguments, tools)

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        return await self._inner.advance(cast("Attempt", self._spoil(attempt)))
