"""What runs in a box does its worst to whoever keeps it: the supervisor stays, and says what cannot be done."""

import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from outlast.errors import BoxError
from outlast.sandbox import Box, JobAsk, Limits, Way
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from outlast.workspaces.sandbox.bubblewrap.system import Sizes
from tests.sandboxes.grounds import OnBubblewrap, first_of, on_bubblewrap

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]
PYTHON = str(Path(sys.base_prefix).resolve() / "bin/python3")
DEEP = """
import os
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
"""
LINKS = """
import os
for number in range(2000):
    os.symlink("x" * 4000, "l%04d" % number)
"""
BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
SLOW = """
import socket, struct, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"x")
s.shutdown(socket.SHUT_WR)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
s.close()
print("gone")
"""
SQUAT = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try: s.bind(("127.0.0.1", int(sys.argv[1]))); break
    except OSError: time.sleep(0.01)
s.listen()
time.sleep(600)
"""


@pytest.fixture
async def ground() -> AsyncGenerator[OnBubblewrap]:
    async with on_bubblewrap() as there:
        assert isinstance(there, OnBubblewrap)
        yield there


async def said(box: Box, name: str, *argv: str, timeout_s: float = 0.0) -> tuple[int, bytes]:
    job = await box.begin(JobAsk(name, argv, timeout_s=timeout_s))
    out = b"".join([piece async for _, piece in job.output("stdout")])
    return await job.wait(), out


async def test_directories_and_paths_without_end_are_made_and_removed(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(ground.spec, 1) as box:
        assert (await said(box, "deep", PYTHON, "-c", DEEP))[0] == 0
        await box.remove("d")
        assert await box.stat("d") is None
        await box.write("/".join(["e"] * 1500) + "/f", b"x")
        with pytest.raises(BoxError):
            await box.write("/".join(["e"] * 5000) + "/f", b"x")
        await box.remove("e")
        assert await said(box, "after", "echo", "alive") == (0, b"alive\n")


async def test_a_directory_of_long_links_is_listed(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(ground.spec, 1) as box:
        assert (await said(box, "links", PYTHON, "-c", LINKS))[0] == 0
        found = await box.list(".")
        assert [len(one.target) for one in found] == [4000] * 2000


async def test_a_file_that_says_it_is_endless_is_not_read(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(ground.spec, 1) as box:
        await said(box, "sparse", "truncate", "-s", "10T", "s")
        await said(box, "pipe", "mkfifo", "p")
        with anyio.fail_after(5):
            for name in ("s", "p"):
                with pytest.raises(BoxError):
                    await box.read(name)


@pytest.mark.timeout(120)
async def test_a_fork_bomb_ends_when_its_time_is_over(ground: OnBubblewrap) -> None:
    spec = replace(ground.spec, limits=Limits(processes=200))
    async with ground.provider().attach(spec, 1) as box:
        assert (await said(box, "bomb", PYTHON, "-c", BOMB, timeout_s=1))[0] == 124
        assert await said(box, "after", "echo", "alive") == (0, b"alive\n")


async def test_a_sandbox_without_limits_has_a_number_of_processes_all_the_same(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(ground.spec, 1) as box:
        assert await said(box, "most", "bash", "-c", "ulimit -u") == (0, b"4096\n")
    spec = replace(ground.spec, limits=Limits(memory_bytes=1 << 30), name=f"{ground.spec.name}-2")
    async with ground.provider().attach(spec, 1) as box:
        assert await said(box, "most", "bash", "-c", "ulimit -u") == (0, b"4096\n")


async def test_where_what_jobs_wrote_has_no_room_the_oldest_gives_way(ground: OnBubblewrap) -> None:
    provider = Bubblewrap(ground.data, sizes=Sizes(state=4 << 20))
    async with provider.attach(ground.spec, 1) as box:
        for number in range(4):
            status, out = await said(box, f"loud-{number}", "head", "-c", "2000000", "/dev/zero")
            assert (status, len(out)) == (0, 2_000_000)
        first = await box.find("loud-0")
        assert first is not None
        assert [piece async for piece in first.output("stdout")] == []
        filled = "dd if=/dev/zero of=/run/outlast/x bs=1M; echo lost; echo more"
        assert (await said(box, "filled", "sh", "-c", filled))[0] == 0
        assert (await said(box, "after", "true"))[0] == 0


async def test_a_way_whose_program_is_gone_costs_no_processor(ground: OnBubblewrap, tmp_path: Path) -> None:
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as free,
        await anyio.create_unix_listener(tmp_path / "s") as outer,
        anyio.create_task_group() as tasks,
    ):
        port = int(free.extra(SocketAttribute.local_port))
        spec = replace(ground.spec, ways=[Way(port, tmp_path / "s")])
        tasks.start_soon(outer.serve, _say_nothing)
        async with ground.provider().attach(spec, 1) as box:
            assert await said(box, "slow", PYTHON, "-c", SLOW, str(port)) == (0, b"gone\n")
            first = first_of(ground.data, box.ref)
            before = _ticks(first)
            await anyio.sleep(1)  # time is what is measured
            assert _ticks(first) - before < 30
        tasks.cancel_scope.cancel()


async def test_a_box_in_which_a_port_is_taken_is_made_anew(ground: OnBubblewrap, tmp_path: Path) -> None:
    spec = replace(ground.spec, idle_s=60, ways=[Way(3128, tmp_path / "none")])
    async with ground.provider().attach(spec, 1) as box:
        await box.begin(JobAsk("squat", [PYTHON, "-c", SQUAT, "3128"]))
    await anyio.sleep(0.2)  # between two holders its ports are free to whoever runs in it
    async with ground.provider().attach(spec, 2) as box:
        assert not box.lived
        assert (await said(box, "after", "true"))[0] == 0


async def _say_nothing(stream: ByteStream) -> None:
    async with stream:
        await anyio.sleep_forever()


def _ticks(pid: int) -> int:
    """Of the processor, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])
