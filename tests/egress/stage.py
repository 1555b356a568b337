"""A way out with a client before it and hosts behind it, all in one process: every byte of both sides is seen."""

import asyncio
import re
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from outlast.clock import SystemClock
from outlast.workspaces.egress import (
    Allow,
    Credential,
    Event,
    Limits,
    Network,
    Outside,
    Who,
    WorkerSecrets,
    from_env,
    open_egress,
)
from outlast.workspaces.egress.authority import Authority, open_authority
from outlast.workspaces.egress.upstream import Upstreams
from outlast.workspaces.unix import UnixStream

SOON_S = 5.0
SECRET = "s3cret-0f-the-f0rge"
WHO = Who("default", "ticket-1")
TOKEN = from_env("FORGE_TOKEN")
QUICK = Limits(linger_s=0.2)
Speak = Callable[["Line"], Awaitable[None]]


class Line:
    """One end of a connection."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.got = b""

    async def say(self, data: bytes | str) -> None:
        await self.stream.send(data.encode() if isinstance(data, str) else data)

    async def until(self, words: bytes) -> bytes:
        """All that has come, once `words` are in it."""
        with anyio.fail_after(SOON_S):
            while words not in self.got:
                self.got += await self.stream.receive()
        return self.got

    async def all(self) -> bytes:
        """All that comes until the other end closes."""
        with anyio.fail_after(SOON_S):
            try:
                while True:
                    self.got += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return self.got

    async def head(self) -> bytes:
        """The head of the next message; what comes behind it stays."""
        await self.until(b"\r\n\r\n")
        head, _, self.got = self.got.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    async def exactly(self, count: int) -> bytes:
        """The next `count` bytes."""
        with anyio.fail_after(SOON_S):
            while len(self.got) < count:
                self.got += await self.stream.receive()
        found, self.got = self.got[:count], self.got[count:]
        return found


def answering(*answers: bytes) -> Speak:
    """A host that answers each request, of which it waits for head and counted body, with the next of `answers`."""

    async def speak(line: Line) -> None:
        for answer in answers:
            head = await line.head()
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            await line.exactly(int(length[1]) if length else 0)
            await line.say(answer)

    return speak


def ok(body: bytes = b"fine", *headers: str) -> bytes:
    """An answer."""
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def near(port: int) -> Allow:
    """`forge.test`, which is on this machine."""
    return Allow("forge.test", (port,), private=True)


def keyed(port: int, **more: Any) -> Credential:
    """A credential for it."""
    given: dict[str, Any] = {
        "host": "forge.test",
        "secret": TOKEN,
        "port": port,
        "private": True,
        "name": "forge",
    }
    return Credential(**{**given, **more})


@dataclass
class Host:
    """A server, and what it was told: each connection as one run of bytes."""

    port: int
    authority: Authority | None
    heard: list[bytearray] = field(default_factory=list[bytearray])

    @property
    def all(self) -> bytes:
        return b"".join(self.heard)


class Heard(ByteStream):
    """A stream of which all that comes is kept."""

    def __init__(self, inner: ByteStream, into: bytearray) -> None:
        self._inner = inner
        self._into = into

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        self._into += data
        return data

    async def send(self, item: bytes) -> None:
        await self._inner.send(item)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def host(
    speak: Speak, *, name: str = "", folder: Path | None = None, hears: bool = True
) -> AsyncGenerator[Host]:
    """A server on the loopback; with TLS, as `name`, if `folder` has room for its authority; `hears`: and remembers."""
    authority = open_authority(folder, [name], SystemClock()) if folder else None
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    found = Host(listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port), authority)

    async def one(stream: ByteStream) -> None:
        heard = bytearray()
        found.heard.append(heard)
        try:
            if authority is not None:
                context = authority.context(name)
                stream = await TLSStream.wrap(
                    stream, server_side=True, ssl_context=context, standard_compatible=False
                )
            await speak(Line(Heard(stream, heard) if hears else stream))
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            pass
        finally:
            await anyio.aclose_forcefully(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield found
        tasks.cancel_scope.cancel()


@dataclass
class Stage:
    """A way out."""

    directory: Path
    told: list[Event]
    env: Mapping[str, str]

    @asynccontextmanager
    async def client(self, way: str = "proxy") -> AsyncGenerator[Line]:
        path = self.directory / "way" / f"{way}.sock"
        stream = UnixStream(*await asyncio.open_unix_connection(path))
        try:
            yield Line(stream)
        finally:
            stream.abort()

    async def ask(self, data: bytes | str, way: str = "proxy") -> bytes:
        """All that a client hears that says `data` and waits."""
        async with self.client(way) as line:
            await line.say(data)
            return await line.all()

    @asynccontextmanager
    async def inside(
        self, target: str, name: str = "", alpn: Sequence[str] = ("http/1.1",)
    ) -> AsyncGenerator[Line]:
        """A client that trusts only the sandbox's authority, within a `CONNECT`."""
        context = ssl.create_default_context(cafile=str(self.directory / "way/public/authorities.pem"))
        context.set_alpn_protocols(alpn)
        async with self.client() as line:
            await line.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
            assert b" 200 " in await line.head()
            wanted = name or target.rpartition(":")[0].strip("[]")
            with anyio.fail_after(SOON_S):
                stream = await TLSStream.wrap(
                    line.stream, hostname=wanted, ssl_context=context, standard_compatible=False
                )
            yield Line(stream)


@asynccontextmanager
async def stage(
    network: Network,
    *hosts: Host,
    names: Mapping[str, Sequence[str]] | None = None,
    limits: Limits = QUICK,
    gateway: str = "",
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Stage]:
    """A way out for `network`, which trusts the authorities of `hosts`; names stand for this machine, or as given."""
    told: list[Event] = []

    async def resolve(name: str, _: int) -> Sequence[str]:
        return (names or {}).get(name, ["127.0.0.1"])

    def trust() -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=_pem(hosts) or None)
        context.set_alpn_protocols(["http/1.1"])
        return context

    outside = Outside(
        secrets=WorkerSecrets({"FORGE_TOKEN": SECRET}),
        resolve=resolve,
        trust=trust,
        roots=lambda: _pem(hosts).encode(),
        told=told.append,
        limits=limits,
        proxies=Upstreams(environ or {}),
    )
    with tempfile.TemporaryDirectory(prefix="way-") as directory:
        way = Path(directory, "way")
        async with open_egress(network, WHO, way, gateway=gateway, outside=outside) as egress:
            yield Stage(Path(directory), told, egress.env)


def _pem(hosts: Sequence[Host]) -> str:
    return "".join(each.authority.pem.decode() for each in hosts if each.authority)
