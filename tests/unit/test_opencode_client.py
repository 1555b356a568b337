"""OpenCode's own server is asked where it says that it listens, here alone, and answers no more than fits."""

import gzip
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

import anyio.lowlevel
import httpx
import pytest

from outlast.adapters.opencode import client as client_
from outlast.adapters.opencode.client import Client
from outlast.adapters.opencode.listening import base_url_of
from outlast.errors import HarnessError
from outlast.processes import Process


class Said:
    """A process that has said these lines."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            await anyio.lowlevel.checkpoint()
            yield line

    def errors(self) -> str:
        return ""


LIES = [
    b"listening on http://169.254.169.254/",
    b"listening on http://127.0.0.1.evil.test:80",
    b"listening on http://127.0.0.1:80@evil.test",
    b"listening on http://127.0.0.1:5432{",
    b'{"text": "listening on http://127.0.0.1:5432"}',
    b"x" * 600 + b" listening on http://127.0.0.1:5432",
    b"listening on http://127.0.0.1:5432/ and more",
]


async def test_no_other_address_is_asked_than_a_port_of_the_loopback() -> None:
    said = Said(
        *LIES, b"opencode server listening on http://127.0.0.1:4096\r", b"listening on http://localhost:1"
    )
    process = cast("Process", said)
    assert await base_url_of(process, said.lines()) == "http://127.0.0.1:4096"
    with pytest.raises(HarnessError, match="ended before it listened"):
        await base_url_of(process, Said(*LIES).lines())


def asked(answer: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://127.0.0.1:1"))


LONG: list[tuple[bytes, dict[str, str]]] = [
    (bytes(2000), {}),
    (gzip.compress(bytes(10_000)), {"content-encoding": "gzip"}),
]


@pytest.mark.parametrize(("content", "headers"), LONG, ids=["plain", "packed"])
async def test_answers_without_end_are_errors(
    monkeypatch: pytest.MonkeyPatch, content: bytes, headers: Mapping[str, str]
) -> None:
    monkeypatch.setattr(client_, "ANSWER_BYTES", 1000)
    client = asked(lambda _: httpx.Response(200, content=content, headers=headers))
    with pytest.raises(HarnessError, match="more than 1,000 bytes"):
        await client.history({})
    with pytest.raises(HarnessError, match="more than 1,000 bytes"):
        await anext(aiter(client.events()))


async def test_events_come_line_by_line() -> None:
    lines = b'data:{"n": 1}\r\n\r\n: ping\ndata: {"n": 2}\n\ndata: {"n": 3'
    client = asked(lambda _: httpx.Response(200, content=lines))
    assert [event async for event in client.events()] == [{"n": 1}, {"n": 2}]
