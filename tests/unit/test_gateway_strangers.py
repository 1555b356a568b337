"""Connections to the gateway on which no token opens a door: few, short, and in nobody's way."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from outlast.gateway import Limits
from tests.gateway.messages import end, request, says, stream, user
from tests.gateway.reference import MemoryAttempt, PlainDialogue
from tests.gateway.stage import RawProvider, Reply, Stage, stage

HELLO = request(user("hello"))
SOON_S = 5.0


def provider() -> RawProvider:
    return RawProvider(Reply(stream(says(0, "done"), end())))


class Stranger:
    """A bare connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, words: str) -> None:
        self._writer.write(words.replace("\n", "\r\n").encode())
        await self._writer.drain()

    async def is_closed(self) -> bytes:
        """Wait for it; returns what was said before."""
        async with asyncio.timeout(SOON_S):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    async def hears(self, words: bytes) -> None:
        """Wait until it is told that."""
        async with asyncio.timeout(SOON_S):
            await self._reader.readuntil(words)

    async def drip(self, words: str) -> None:
        """Say the same again and again."""
        async with asyncio.timeout(SOON_S):
            while True:
                await self.say(words)
                await asyncio.sleep(0.01)  # no condition: it is slow on purpose


@asynccontextmanager
async def stranger(on: Stage) -> AsyncGenerator[Stranger]:
    host, port = on.door.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "POST /v1/messages HTTP/1.1\n",
        "POST /v1/messages HTTP/1.1\nhost: here\nx-api-key: none\ncontent-length: 1000\n\n{",
        "POST /outlast/hooks/before HTTP/1.1\nhost: here\ncontent-length: 1000\n\n{",
    ],
    ids=["silence", "half a head", "half a body", "half a hook"],
)
async def test_a_connection_without_a_token_does_not_stand_for_long(words: str) -> None:
    async with stage(provider(), limits=Limits(stranger_s=0.1)) as on, stranger(on) as there:
        await there.say(words)
        await there.is_closed()


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ("GET / HTTP/1.1\n", "x-header: 1\n"),
        ("POST /v1/messages HTTP/1.1\nhost: here\ntransfer-encoding: chunked\n\n", "1\nx\n"),
    ],
    ids=["a head", "a body"],
)
async def test_not_even_if_it_goes_on_saying_something(words: str, piece: str) -> None:
    async with stage(provider(), limits=Limits(stranger_s=0.1)) as on, stranger(on) as there:
        await there.say(words)
        with pytest.raises(ConnectionError):
            await there.drip(piece)


async def test_many_of_them_keep_no_harness_out_and_the_oldest_has_to_go() -> None:
    async with stage(provider(), limits=Limits(strangers=3)) as on, AsyncExitStack() as crowd:
        standing = [await crowd.enter_async_context(stranger(on)) for _ in range(3)]
        assert (await on.ask(HELLO)).status_code == 200
        await standing[0].is_closed()
        last = await crowd.enter_async_context(stranger(on))  # the harness stands in nobody's place any more
        for there in (*standing[1:], last):
            await there.say("GET /v1/models HTTP/1.1\nhost: here\n\n")
            assert (await there.is_closed()).startswith(b"HTTP/1.1 403")


async def test_a_harness_stays_connected_for_longer() -> None:
    async with stage(provider(), limits=Limits(stranger_s=0.3, strangers=1)) as on, stranger(on) as harness:
        for _ in range(2):
            await harness.say(f"DELETE /nothing HTTP/1.1\nhost: here\nx-api-key: {on.door.token}\n\n")
            await harness.hears(b"lets no DELETE /nothing through")
            async with stranger(on) as there:
                await there.is_closed()


async def test_a_token_that_opens_nothing_any_more_is_answered_whatever_it_sends() -> None:
    async with stage(provider()) as on:
        async with on.gateway.admit(MemoryAttempt(), PlainDialogue()) as door:
            headers = {"x-api-key": door.token}
            assert (await on.ask(HELLO, **headers)).status_code == 200
        refused = await on.ask(request(user("x" * 10_000_000)), **headers)
        assert refused.status_code == 403
        assert refused.headers["connection"] == "close"


async def test_of_a_body_over_the_limit_nothing_is_waited_for() -> None:
    async with stage(provider(), limits=Limits(request_bytes=1000)) as on, stranger(on) as there:
        await there.say("POST /v1/messages HTTP/1.1\nhost: here\ncontent-length: 50000000\n\n")
        assert (await there.is_closed()).startswith(b"HTTP/1.1 403")
