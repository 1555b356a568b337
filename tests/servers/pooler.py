"""A pooler in transaction mode before a Postgres: each transaction of a client may run in another of its sessions.

It does what makes pgbouncer hard to use, always: it goes round its connections, so that two transactions of a client
never run in the same session one after the other, it never resets a session, and it refuses settings in the opening
message.
"""

import struct
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.from_thread import start_blocking_portal
from anyio.streams.buffered import BufferedByteReceiveStream

ENCRYPTION = {80877103, 80877104}
CANCEL = 80877102
COLUMNS = b"T", b"n", b"E"
"""What the answer to a question for columns ends with: them, none, or an error."""
KNOWN = {"user", "database", "client_encoding", "application_name", "DateStyle", "TimeZone"}
SAID = {
    "server_version": "18.6",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
}
SIZE = 32
"""Connections to the server: more than a World and its liveness have together. The contract renews leases on the thread
of the event loop, whose own transactions, of several messages each, stand still meanwhile and must leave one free."""
GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, OSError)


class _Wire:
    """Messages of the protocol over a stream."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._buffered = BufferedByteReceiveStream(stream)

    async def opening(self) -> tuple[int, bytes]:
        size, code = struct.unpack("!ii", await self._buffered.receive_exactly(8))
        return code, await self._exactly(size - 8)

    async def receive(self) -> tuple[bytes, bytes]:
        """A message's kind, and all of it."""
        head = await self._buffered.receive_exactly(5)
        return head[:1], head + await self._exactly(int.from_bytes(head[1:], "big") - 4)

    async def _exactly(self, size: int) -> bytes:
        return await self._buffered.receive_exactly(size) if size else b""

    async def send(self, kind: bytes, payload: bytes) -> None:
        await self.stream.send(kind + struct.pack("!i", len(payload) + 4) + payload)


class _Pooler:
    def __init__(self, server_port: int, size: int, database: str) -> None:
        self._server_port = server_port
        self._database = database
        self._size = size
        self._give, self._take = anyio.create_memory_object_stream[_Wire](size)
        self.transactions = 0

    async def fill(self) -> None:
        for _ in range(self._size):
            self._give.send_nowait(await self._connect())

    async def _connect(self) -> _Wire:
        server = _Wire(await anyio.connect_tcp("127.0.0.1", self._server_port))
        facts = b"user\0postgres\0database\0" + self._database.encode() + b"\0\0"
        await server.stream.send(struct.pack("!ii", len(facts) + 8, 196608) + facts)
        while (await server.receive())[0] != b"Z":
            pass
        return server

    async def drain(self) -> None:
        with suppress(anyio.WouldBlock):
            while True:
                await self._take.receive_nowait().stream.aclose()
        self._give.close()
        self._take.close()

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            client = _Wire(stream)
            with suppress(*GONE):
                if await self._welcome(client):
                    while await self._transaction(client):
                        self.transactions += 1

    async def _welcome(self, client: _Wire) -> bool:
        code, facts = await client.opening()
        while code in ENCRYPTION:
            await client.stream.send(b"N")
            code, facts = await client.opening()
        if code == CANCEL:
            return False
        names = facts.rstrip(b"\0").decode().split("\0")[::2]
        if unknown := set(names) - KNOWN:
            text = f"unsupported startup parameter: {sorted(unknown)}"
            await client.send(b"E", b"SFATAL\0VFATAL\0C08P01\0M" + text.encode() + b"\0\0")
            return False
        await client.send(b"R", struct.pack("!i", 0))
        for name, value in SAID.items():
            await client.send(b"S", f"{name}\0{value}\0".encode())
        await client.send(b"K", struct.pack("!ii", 1, 1))
        await client.send(b"Z", b"I")
        return True

    async def _transaction(self, client: _Wire) -> bool:
        """Carry one transaction of a client; returns whether there may be more."""
        kind, message = await client.receive()
        if kind == b"X":
            return False
        server = await self._take.receive()
        sound = False
        try:
            while True:
                await server.stream.send(message)
                if kind == b"H":
                    await self._answer(server, client, *COLUMNS)
                elif kind in {b"S", b"Q"} and await self._answer(server, client, b"Z") == b"I":
                    sound = True
                    return True
                kind, message = await client.receive()
        finally:
            if not sound:
                # The client left in the middle: so does its session.
                with anyio.CancelScope(shield=True):
                    await server.stream.aclose()
                    server = await self._connect()
            self._give.send_nowait(server)

    async def _answer(self, server: _Wire, client: _Wire, *until: bytes) -> bytes:
        while True:
            kind, message = await server.receive()
            await client.stream.send(message)
            if kind in until:
                return message[5:6]


@asynccontextmanager
async def _open_pooler(server_port: int, size: int, database: str) -> AsyncGenerator[int]:
    pooler = _Pooler(server_port, size, database)
    await pooler.fill()
    try:
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, pooler.serve)
            try:
                yield listener.extra(SocketAttribute.local_port)
            finally:
                tasks.cancel_scope.cancel()
    finally:
        await pooler.drain()


@contextmanager
def pooler_to(server_port: int, size: int = SIZE, database: str = "postgres") -> Generator[int]:
    """A pooler before a database of the server at `server_port`, on a thread of its own; its port."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_open_pooler(server_port, size, database)) as port,
    ):
        yield port
