"""Hints by notifications of a real Postgres, and workers that are started on them."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteStream, SocketAttribute

from outlast.cli.argv import SELF
from outlast.opening import make_waker
from outlast.session import Session
from outlast.waker import Hint
from outlast.wakers.postgres import listen
from outlast.worlds.postgres import open_postgres
from tests.servers.postgres import PostgresServer, run_sql

pytestmark = pytest.mark.server
LIMIT_S = 30.0
EVERY_S = 0.5
START_S = 10.0
"""Of a worker process, on a loaded machine."""
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %'"
AGENTS = """
from outlast import Agent
from outlast.adapters.python import IO, Loop


async def answer(io: IO, prompt: str) -> str:
    return f"You said: {prompt}"


agent = Agent("answer", Loop(answer))
"""


@asynccontextmanager
async def hearing(url: str) -> AsyncGenerator["asyncio.Queue[Hint | None]"]:
    """What a listener is told meanwhile."""
    heard: asyncio.Queue[Hint | None] = asyncio.Queue()
    task = asyncio.get_running_loop().create_task(listen(url, heard.put_nowait))
    try:
        async with asyncio.timeout(LIMIT_S):
            yield heard
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_hint_is_heard_on_its_channel_and_a_lost_connection_is_told_of(
    postgres: PostgresServer,
) -> None:
    url = f"{postgres.url}?channel=mine_{os.getpid()}"
    waker, other = make_waker(url), make_waker(postgres.url)
    async with hearing(url) as heard:
        assert await heard.get() is None, "what came before was missed"
        await other.wake("acme", "s-0")
        await waker.wake("acme", "s-1")
        assert await heard.get() == Hint("s-1", "acme")
        await run_sql(postgres.url, CUT)
        assert await heard.get() is None, "something may have been missed"
        assert await heard.get() is None, "it listens again"
        await waker.wake("acme", "")
        assert await heard.get() == Hint("", "acme")


async def test_a_listener_that_may_not_listen_asks_less_and_less_often(postgres: PostgresServer) -> None:
    came: asyncio.Queue[float] = asyncio.Queue()

    async def pump(source: ByteReceiveStream, sink: ByteStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in source:
                if b"LISTEN" in data:
                    return
                await sink.send(data)

    async def serve(client: ByteStream) -> None:
        came.put_nowait(time.monotonic())
        async with (
            client,
            await anyio.connect_tcp("127.0.0.1", postgres.port) as behind,
            anyio.create_task_group() as pumps,
        ):
            pumps.start_soon(pump, behind, client)
            await pump(client, behind)
            pumps.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        async with hearing(postgres.url_at(listener.extra(SocketAttribute.local_port))) as heard:
            times = [await came.get() for _ in range(4)]
            assert times[-1] - times[0] >= 0.2 + 0.4 + 0.8
            assert heard.empty(), "nothing was missed by somebody who never listened"
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def starter(url: str, directory: Path, every: str) -> AsyncGenerator["subprocess.Popen[bytes]"]:
    """`outlast wake --listen`, which starts a worker for each hint."""
    (directory / "served.py").write_text(AGENTS)
    environ = {
        **os.environ,
        "OUTLAST_WORLD": url,
        "OUTLAST_WAKER_URL": url,
        "OUTLAST_DATA_DIR": str(directory / "data"),
        "PYTHONPATH": str(directory),
    }
    command = [*SELF, "wake", "--listen", "--every", every, "--", *SELF, "work", "--once", "served:agent"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - it runs beside the test
            command, cwd=directory, env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(LIMIT_S):
            assert await anyio.to_thread.run_sync(process.wait) == 0, (directory / "log").read_text()
    finally:
        process.kill()
        process.wait()


def runs(directory: Path) -> int:
    """How many workers have been there."""
    return (directory / "log").read_text().count("worker ")


async def until_runs(directory: Path, count: int) -> None:
    with anyio.fail_after(LIMIT_S):
        while runs(directory) < count:  # noqa: ASYNC110 - a file tells nobody
            await anyio.sleep(0.02)


@pytest.mark.crash
async def test_a_worker_is_started_on_a_hint_and_without_one_by_the_next_sweep(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        session = await Session.open(world, "s-1", agent="answer")
        async with starter(url, tmp_path, "1h"):
            await until_runs(tmp_path, 2)  # the first sweep, and one when it listened
            await session.send("hello")
            await make_waker(url).wake("default", "s-1")
            async with asyncio.timeout(LIMIT_S):
                assert (await session.result(1)).value == "You said: hello"
        async with starter(url, tmp_path, f"{EVERY_S}s"):
            await until_runs(tmp_path, 2)
            sent_s = time.monotonic()
            await session.send("again")  # and its hint is lost
            async with asyncio.timeout(LIMIT_S):
                assert (await session.result(2)).value == "You said: again"
            assert time.monotonic() - sent_s < EVERY_S + START_S
