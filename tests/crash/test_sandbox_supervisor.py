"""The supervisor inside a box and its client, without a box: over streams that break, at the limits of what is kept."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import pytest
from anyio.abc import ByteStream, SocketStream

from outlast.errors import BoxError, BoxGone, Fenced
from outlast.sandbox import JobAsk, Limits, Spec, Way
from outlast.workspaces.sandbox import inside
from outlast.workspaces.sandbox.client import HeldBox, hold
from outlast.workspaces.sandbox.inside.wire import Unpacker, pack

pytestmark = [pytest.mark.crash, pytest.mark.skipif(sys.platform != "linux", reason="a box is of Linux")]
PROGRAM = [sys.executable, "-I", "-S", str(Path(inside.__file__).parent)]


@contextmanager
def serving(files: int = 0) -> Generator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A supervisor by itself, and where it listens; `files`: how many descriptors it may have at most."""
    with TemporaryDirectory() as directory:
        path = f"{directory}/socket"
        words = [*PROGRAM, "serve", "--socket", path, "--directory", f"{directory}/kept", "--first-s", "20"]
        words = [*(["prlimit", f"--nofile={files // 2}:{files}"] if files else []), *words]
        with subprocess.Popen(words) as process:
            try:
                while not Path(path).exists():
                    assert process.poll() is None
                yield path, process
            finally:
                process.kill()


class Frail(SocketStream):
    """A stream that breaks after so many bytes, read and written together."""

    def __init__(self, inner: ByteStream, lives: int) -> None:
        self._inner = inner
        self._lives = lives

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        await self._wear(len(data))
        return data

    async def send(self, item: bytes) -> None:
        half = item[: max(1, self._lives)]
        await self._inner.send(half)
        await self._wear(len(item))

    async def _wear(self, size: int) -> None:
        self._lives -= size
        if self._lives <= 0:
            await self._inner.aclose()
            raise anyio.BrokenResourceError

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def _raw_socket(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride] - nobody asks for it
        raise NotImplementedError


@dataclass
class Dialer:
    path: str
    seed: int | None = None
    dials: int = 0
    random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self.random.seed(self.seed)

    async def __call__(self) -> ByteStream:
        self.dials += 1
        try:
            stream = await anyio.connect_unix(self.path)
        except OSError as refused:
            raise BoxGone(box="box", reason="it is gone") from refused
        return stream if self.seed is None else Frail(stream, self.random.randrange(300_000, 900_000))


@asynccontextmanager
async def holding(dial: Dialer, fence: int = 1, spec: Spec | None = None) -> AsyncGenerator[HeldBox]:
    wanted = spec or Spec("box", cwd="/tmp", idle_s=5)
    async with hold(dial, wanted, fence, {"name": "box"}) as box:
        yield box


async def test_over_streams_that_break_nothing_is_begun_twice_nor_lost(seed: int, tmp_path: Path) -> None:
    with serving() as (path, _):
        dial = Dialer(path, seed)
        async with holding(dial, spec=Spec("box", cwd=str(tmp_path), idle_s=5)) as box:
            line = "echo begun >> count; cat; seq 1 400000; exit 9"
            job = await box.begin(JobAsk("one", ["sh", "-c", line], stdin=True))
            given = b"".join(b"%d\n" % number for number in range(200_000))
            for begin in range(0, len(given), 50_000):
                await job.write(given[begin : begin + 50_000])
            await job.close_stdin()
            said = b"".join([piece async for _, piece in job.output("stdout")])
            assert said == given + b"".join(b"%d\n" % number for number in range(1, 400_001))
            assert await job.wait() == 9
            await box.write("file", given)
            assert await box.read("file") == given
            assert await box.read("count") == b"begun\n"
        assert dial.dials > 5


async def test_a_killed_supervisor_is_noticed_by_all_who_wait() -> None:
    with serving() as (path, process):
        gone: list[str] = []

        async def wait(box: HeldBox, name: str) -> None:
            job = await box.begin(JobAsk(name, ["sleep", "60"]))
            with pytest.raises(BoxGone):
                await job.wait()
            gone.append(name)

        async with holding(Dialer(path)) as box, anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(wait, box, name)
            while not all([await box.find(name) for name in ("a", "b", "c")]):
                await anyio.lowlevel.checkpoint()
            process.kill()
        assert sorted(gone) == ["a", "b", "c"]


async def test_a_supervisor_in_anothers_place_is_not_taken_for_the_first() -> None:
    with serving() as (first, process), serving() as (second, _):
        dial = Dialer(first)
        async with holding(dial) as box:
            await box.beat(30)
            dial.path = second
            process.kill()
            with pytest.raises(BoxGone, match="another one"):
                await box.beat(30)


async def test_an_older_fence_gets_nothing_over_any_stream() -> None:
    with serving() as (path, _):
        async with holding(Dialer(path), 2), await anyio.connect_unix(path) as raw:
            await raw.send(pack({"id": 1, "op": "begin", "job": "x", "argv": ["true"]}))
            assert (await _answer(raw))["kind"] == "fenced"
            with pytest.raises(Fenced):
                async with holding(Dialer(path), 1):
                    pass
            async with await anyio.connect_unix(path) as carried:
                await carried.send(pack({"id": 0, "op": "carry", "carry": 1, "fence": 1}))
                with pytest.raises(anyio.EndOfStream):
                    await carried.receive()


def hello(client: str, fence: int) -> bytes:
    lists: dict[str, object] = {"versions": [1], "ways": [], "env": {}, "limits": {}}
    times: dict[str, object] = {"for_ms": 30_000, "idle_ms": 5_000, "output_bytes": 1000}
    return pack({"id": 0, "op": "hello", "client": client, "fence": fence, "cwd": "/tmp", **lists, **times})


async def test_who_says_hello_again_is_told_the_same() -> None:
    with serving() as (path, _):
        for client, fence, lived in (("a", 1, 0), ("a", 1, 0), ("b", 2, 1), ("b", 2, 1), ("a", 3, 1)):
            async with await anyio.connect_unix(path) as raw:
                await raw.send(hello(client, fence))
                assert (await _answer(raw))["lived"] == lived


async def test_who_says_hello_again_waits_for_the_dead_as_well() -> None:
    with serving() as (path, _):
        async with holding(Dialer(path), 1) as box:
            job = await box.begin(JobAsk("tied", ["sleep", "60"], tied=True))
            for _ in range(2):  # the first one's answer goes to nobody
                async with await anyio.connect_unix(path) as raw:
                    await raw.send(hello("b", 2))
            async with await anyio.connect_unix(path) as raw:
                await raw.send(hello("b", 2))
                assert (await _answer(raw))["lived"] == 1
                await raw.send(pack({"id": 1, "op": "wait", "job": "tied"}))
                assert (await _answer(raw))["status"] == 137
            del job


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02i;",
        b"\0\0\0\x03i1;",
        b"\0\0\0\x05s9:ab",
        b"\0\0\0\x08llllllll",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_nonsense_ends_its_stream_and_nothing_else(nonsense: bytes) -> None:
    with serving() as (path, _):
        async with holding(Dialer(path)) as box:
            async with await anyio.connect_unix(path) as raw:
                await raw.send(nonsense)
                await raw.send_eof()
                with pytest.raises(anyio.EndOfStream):
                    await raw.receive()
            assert await (await box.begin(JobAsk("one", ["true"]))).wait() == 0


@pytest.mark.parametrize(
    "asked", [{"op": "hello"}, {"op": "none"}, {"op": "begin"}, {"op": "output", "job": 5}, {}]
)
async def test_what_is_asked_wrongly_is_refused(asked: dict[str, object]) -> None:
    with serving() as (path, _):
        async with holding(Dialer(path), 0) as box, await anyio.connect_unix(path) as raw:
            await raw.send(pack({"id": 7, **asked}))
            answer = await _answer(raw)
            assert answer["id"] == 7
            assert "error" in answer
            assert await (await box.begin(JobAsk("one", ["true"]))).wait() == 0


async def test_a_worker_of_another_protocol_is_told_so() -> None:
    with serving() as (path, _):
        async with await anyio.connect_unix(path) as raw:
            await raw.send(pack({"id": 1, "op": "hello", "versions": [99], "fence": 1}))
            assert (await _answer(raw))["kind"] == "version"


async def test_a_taken_port_of_a_way_is_an_error(tmp_path: Path) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
        port = int(str(taken.extra(anyio.abc.SocketAttribute.local_port)))
        spec = Spec("box", cwd="/tmp", idle_s=5, ways=[Way(port, tmp_path / "none")])
        with serving() as (path, _):
            held = holding(Dialer(path), spec=spec)
            with pytest.raises(BoxError, match=f"port {port}"):
                await held.__aenter__()


async def test_output_that_finds_no_room_is_lost_and_says_so() -> None:
    limits = Limits(output_bytes=64 * 1024)
    with serving() as (path, _):
        async with holding(Dialer(path), spec=Spec("box", cwd="/tmp", idle_s=5, limits=limits)) as box:
            job = await box.begin(JobAsk("loud", ["sh", "-c", "yes | head -c 3000000; echo; echo end"]))
            assert await job.wait() == 0
            pieces = [(at, piece) async for at, piece in job.output("stdout")]
            assert pieces[-1][1].endswith(b"\nend\n")
            assert 3_000_005 - 200_000 < pieces[0][0] < 3_000_005 - 64 * 1024
            assert pieces[-1][0] + len(pieces[-1][1]) == 3_000_005


async def test_commands_without_end_are_begun_though_descriptors_have_one() -> None:
    with serving(files=64) as (path, _):
        async with holding(Dialer(path)) as box:
            for number in range(60):
                job = await box.begin(JobAsk(f"job-{number}", ["sh", "-c", "ulimit -n; echo >&2 x"]))
                assert await job.wait() == 0
                assert [piece async for piece in job.output("stdout")] == [(0, b"32\n")]
            last = await box.find("job-59")
            assert last is not None
            assert [piece async for piece in last.output("stderr")] == [(0, b"x\n")]


async def test_the_relay_of_standard_streams_carries_the_protocol() -> None:
    with serving() as (path, _):
        async with await anyio.open_process([*PROGRAM, "dial", "--socket", path]) as relay:
            assert relay.stdin is not None
            assert relay.stdout is not None
            await relay.stdin.send(pack({"id": 3, "op": "none"}))
            assert (await _answer(relay.stdout))["id"] == 3
            await relay.stdin.aclose()
            assert await relay.wait() == 0
        refused = await anyio.run_process([*PROGRAM, "dial", "--socket", f"{path}.none"], check=False)
        assert refused.returncode == 1
        assert b"no supervisor listens" in refused.stderr


def test_a_wrong_command_line_says_how() -> None:
    for words in ([], ["serve"], ["dial"], ["serve", "--fd", "x", "--directory", "/tmp"]):
        ran = subprocess.run([*PROGRAM, *words], capture_output=True, check=False)
        assert ran.returncode == 2
        assert b"usage:" in ran.stderr


async def _answer(stream: anyio.abc.ByteReceiveStream) -> dict[str, object]:
    unpacker = Unpacker()
    with anyio.fail_after(10):
        while (message := unpacker.next()) is None:
            unpacker.feed(await stream.receive())
    return message
