"""Hints that start a worker where none is resident: each waker, by its URL; what a lost hint costs."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.asgi import advance_route
from outlast.cli.main import main
from outlast.cli.options import Setup
from outlast.cli.starter import Starter
from outlast.cli.wishes import WorkerWish
from outlast.cli.worker import serve
from outlast.errors import BadInput, BadSettings
from outlast.opening import make_waker, open_world, waker_of
from outlast.session import Session
from outlast.settings import Settings, read_settings
from outlast.waker import Hint, hint_of, read_hint
from outlast.wakers import sqs
from outlast.wakers.http import HttpWaker
from outlast.wakers.postgres import CHANNEL, PostgresWaker, read_place
from outlast.wakers.sqs import SqsWaker, region_of
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import opened

TOKEN = "let me in"
PLACE = "sqs+http://127.0.0.1:{port}/123456789012/{name}?region=eu-west-1"


class Queue(BaseHTTPRequestHandler):
    """Speaks as much of the JSON protocol of SQS (AWS JSON 1.0) as sending a message takes."""

    def do_POST(self) -> None:
        asked = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        assert isinstance(server, QueueServer)
        server.asked.append((self.headers["x-amz-target"], asked))
        answer: dict[str, str] = {"MessageId": "m-1"}
        if server.refuses:
            answer = {
                "__type": "com.amazonaws.sqs#QueueDoesNotExist",
                "message": "none of account 123456789012",
            }
        body = msgspec.json.encode(answer)
        self.send_response(400 if server.refuses else 200)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing."""


class QueueServer(ThreadingHTTPServer):
    refuses = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Queue)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def url(self, name: str = "wake") -> str:
        return PLACE.format(port=self.server_port, name=name)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[QueueServer]:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    with QueueServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_a_hint_is_one_message_in_the_queue(queue: QueueServer) -> None:
    waker = make_waker(queue.url())
    await waker.wake("acme", "s-1")
    await waker.wake("acme", "")
    url = queue.url().removeprefix("sqs+").partition("?")[0]
    assert [target for target, _ in queue.asked] == ["AmazonSQS.SendMessage"] * 2
    assert [asked["QueueUrl"] for _, asked in queue.asked] == [url] * 2
    assert [read_hint(asked["MessageBody"]) for _, asked in queue.asked] == [
        Hint("s-1", "acme"),
        Hint("", "acme"),
    ]


async def test_hints_of_one_session_are_a_group_and_none_repeats_another(queue: QueueServer) -> None:
    waker = make_waker(queue.url("wake.fifo"))
    for session in ("s-1", "s-1", "s-2"):
        await waker.wake("acme", session)
    groups = [asked["MessageGroupId"] for _, asked in queue.asked]
    assert groups[0] == groups[1] != groups[2]
    assert len({asked["MessageDeduplicationId"] for _, asked in queue.asked}) == 3


async def test_a_queue_that_refuses_is_logged_and_harms_nobody(
    queue: QueueServer, caplog: pytest.LogCaptureFixture
) -> None:
    queue.refuses = True
    await make_waker(queue.url()).wake("acme", "s-1")
    assert "nobody could be woken for session s-1: QueueDoesNotExist" in caplog.text
    assert "123456789012" not in caplog.text


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("us-gov-east-1.queue.amazonaws.com", "us-gov-east-1"),
        ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("queue.example.org", ""),
    ],
)
def test_the_region_is_read_from_the_address_of_the_queue(host: str, region: str) -> None:
    assert region_of(host) == region


async def test_without_its_driver_a_waker_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("boto3", "asyncpg"):
        monkeypatch.setitem(sys.modules, name, None)
    await SqsWaker("https://sqs.eu-west-1.amazonaws.com/1/wake").wake("acme", "s-1")
    await PostgresWaker("postgres://127.0.0.1:9/none").wake("acme", "s-1")
    assert sqs.MISSING in caplog.text
    assert "pip install 'outlast[postgres]'" in caplog.text


async def test_a_database_that_is_away_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    await PostgresWaker("postgres://u:hidden@127.0.0.1:9/none", timeout_s=0.5).wake("acme", "s-1")
    assert "nobody could be woken for session s-1" in caplog.text
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:9/advance", HttpWaker),
        ("https://example.org/advance", HttpWaker),
        ("sqs://sqs.eu-west-1.amazonaws.com/123456789012/wake", SqsWaker),
        ("postgres://u@h/d?channel=mine", PostgresWaker),
        ("postgresql://u@h/d", PostgresWaker),
    ],
)
def test_a_waker_is_chosen_by_its_url(url: str, kind: type) -> None:
    assert isinstance(make_waker(url, "token"), kind)
    assert isinstance(waker_of(Settings(waker_url=url)), kind)


def test_without_a_setting_nobody_is_woken() -> None:
    assert waker_of(Settings()) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://u:hidden@h/", "one of http, https, postgres, postgresql, sqs"),
        ("hidden", "one of http"),
        ("sqs://hidden", "looks like https://sqs"),
        ("sqs://h/1/n?hidden=1", "no option"),
        ("postgres://u:hidden@h/d?channel=A-B", "1 to 63 of a-z"),
        ("postgres://u:hidden@[h/d", "is no URL"),
    ],
)
def test_a_url_that_cannot_be_used_is_said_and_not_shown(url: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make_waker(url)
    with pytest.raises(BadSettings, match=words) as caught:
        waker_of(Settings(waker_url=url))
    assert "u:hidden" not in str(caught.value)


def test_the_url_of_a_world_will_do_to_wake_by() -> None:
    url = "postgres://u:p@pool:6432/d?schema=s&pooler=transaction&direct=db:5432&sslmode=require"
    place = read_place(url)
    assert place.dsn == "postgres://u:p@pool:6432/d?sslmode=require"
    assert place.direct == "postgres://u:p@db:5432/d?sslmode=require"
    assert place.channel == CHANNEL


@pytest.mark.parametrize("text", ["", "go", "[]", '{"session": 7}', "\ud800", b"\xff"])
def test_what_is_no_hint_is_read_as_none(text: str | bytes) -> None:
    assert read_hint(text) is None
    assert read_hint(hint_of("acme", "s-1")) == Hint("s-1", "acme")


def test_commands_that_make_a_session_ready_send_a_hint(
    queue: QueueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = f"sqlite:{tmp_path / 'world.db'}"
    monkeypatch.setenv("OUTLAST_WORLD", world)
    monkeypatch.setenv("OUTLAST_WAKER_URL", queue.url())

    async def begin() -> None:
        async with open_world(world) as opened_world:
            await Session.open(opened_world, "s-1", agent="nobody")

    def outlast(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == status, done.output
        return done.output

    anyio.run(begin)
    outlast("send", "s-1", "hello")
    outlast("signal", "s-1", "ci")
    outlast("wake")
    monkeypatch.setenv("OUTLAST_TENANT", "acme")
    outlast("wake", "s-1")
    monkeypatch.delenv("OUTLAST_TENANT")
    hints = [read_hint(asked["MessageBody"]) for _, asked in queue.asked]
    assert hints == [Hint("s-1"), Hint("s-1"), Hint(""), Hint("s-1", "acme")]
    assert "in Postgres only" in outlast("wake", "--listen", status=2)
    monkeypatch.setenv("OUTLAST_WAKER_URL", "ftp://nowhere")
    assert "must be one of http" in outlast("wake", "s-1", status=2)
    monkeypatch.delenv("OUTLAST_WAKER_URL")
    assert "No waker is set" in outlast("wake", "s-1", status=2)
    outlast("send", "s-1", "and so on")
    assert len(queue.asked) == 4


async def test_a_worker_that_ends_sends_a_hint_for_each_tenant_that_it_served(
    queue: QueueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_WORLD", f"sqlite:{tmp_path / 'world.db'}")
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("OUTLAST_WAKER_URL", queue.url())
    wish = WorkerWish(
        (), None, "", 1, until_idle=False, until_eof=False, until_s=0.1, tenants=("acme", "umbrella")
    )
    assert await serve(Setup(read_settings(), json=True), wish) == 0
    hints = [read_hint(asked["MessageBody"]) for _, asked in queue.asked]
    assert hints == [Hint("", "umbrella"), Hint("", "acme")]


class Deaf:
    """A waker whose hints are all lost."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def wake(self, tenant: str, session: str) -> None:
        self.asked.append(session)


async def test_a_lost_hint_costs_no_more_than_the_way_to_the_next_sweep(tmp_path: Path) -> None:
    async def steps(io: IO, prompt: str) -> object:
        await asyncio.sleep(0.3)
        return await io.once("done", lambda: "done")

    async with open_memory() as world:

        @asynccontextmanager
        async def open_it() -> AsyncGenerator[World]:
            yield world

        waker, agent = Deaf(), Agent("tester", Loop(steps))
        route = advance_route(
            [agent], token=TOKEN, limit_s=0.25, waker=waker, world=open_it, data=tmp_path / "data"
        )
        enough = advance_route([agent], token=TOKEN, limit_s=9.0, path="/sweep", world=open_it, data=tmp_path)
        session = await opened(world, agent)
        transport = httpx.ASGITransport(Starlette(routes=[route, enough]))
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
            first = await client.post("/outlast/advance", json={"session": "s-1"})
            assert first.json()["again"]
            assert waker.asked == ["s-1"], "a hint was sent, and nobody came"
            assert (await session.head()).worker is None
            await client.post("/sweep")  # the scheduled one, without a session
        assert (await session.result(1)).value == "done"


async def test_a_starter_runs_its_command_on_a_hint_and_without_one_when_the_time_has_come(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"

    def runs() -> int:
        return len(told.read_text().split()) if told.exists() else 0

    async def until(count: int) -> None:
        with anyio.fail_after(20):
            while runs() < count:  # noqa: ASYNC110 - a file tells nobody
                await anyio.sleep(0.005)

    command = ["/bin/sh", "-c", f"echo ran >> {told}"]
    hinted, swept = Starter(command, every_s=3600.0), Starter(command, every_s=0.05)
    for starter, hints in ((hinted, 2), (swept, 0)):
        before = runs()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starter.run)
            for count in range(1, 4):
                await until(before + count)
                if hints:
                    starter.hear(Hint("s-1"))
            tasks.cancel_scope.cancel()


async def test_a_starter_passes_on_each_signal_and_ends_with_its_command(tmp_path: Path) -> None:
    told = tmp_path / "told"
    tell = f"n=0; i=0; trap 'n=$((n+1)); echo told >> {told}' TERM; echo up >> {told}"
    script = f"{tell}; while [ $n -lt 2 ] && [ $i -lt 500 ]; do i=$((i+1)); sleep 0.02; done"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Starter(["/bin/sh", "-c", script], every_s=3600.0).run)
            for count in (1, 2):
                while not told.exists() or len(told.read_text().split()) < count:  # noqa: ASYNC110 - a file tells nobody
                    await anyio.sleep(0.005)
                os.kill(os.getpid(), signal.SIGTERM)
    assert told.read_text().split() == ["up", "told", "told"]
