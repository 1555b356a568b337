"""What a program in a box says of itself costs the worker no more than it is worth."""

from collections.abc import AsyncIterator
from typing import cast

import anyio.lowlevel

from outlast.adapters.program import past_proxies
from outlast.sandbox import Job
from outlast.workspaces.boxed.programs import BoxProcess, inside


class Loud:
    """A job that writes these lines."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines

    async def output(self, _stream: str, _offset: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        for line in self._lines:
            await anyio.lowlevel.checkpoint()
            yield 0, line + b"\n"


def at(port: int) -> bytes:
    return b"listening on http://127.0.0.1:%d" % port


def test_what_the_worker_reaches_past_its_proxy_is_not_what_a_box_does() -> None:
    worker = {
        "NO_PROXY": "corp.test",
        "HTTPS_PROXY": "http://proxy.corp.test",
        "LANG": "C",
        "KEY": "secret",
        "TERM": "x",
    }
    given = {**worker, **past_proxies(worker), "all_proxy": "http://other", "TOKEN": "t", "PATH": "/bin"}
    assert inside(given, worker, "") == {"LANG": "C", "TERM": "x", "TOKEN": "t"}
    assert inside({}, worker, "/own/bin") == {"PATH": "/own/bin"}


async def test_few_ports_are_carried_and_each_once() -> None:
    exposed: list[int] = []

    async def expose(port: int) -> int:
        await anyio.lowlevel.checkpoint()
        exposed.append(port)
        return port + 1000

    lines = [*map(at, range(1, 100)), at(1), b"x" * 1000 + b" " + at(2)]
    process = BoxProcess(cast("Job", Loud(*lines)), "program", expose)
    said = [line async for line in process.lines()]
    assert exposed == [1, 2, 3, 4]
    assert said[:5] == [*map(at, range(1001, 1005)), at(0)]
    assert said[-2:] == [at(1001), lines[-1]]
