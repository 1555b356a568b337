import os
import signal
import sys

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from outlast.clock import boottime
from outlast.engine.processes import SupervisedProcess, start_supervised
from outlast.engine.proof import Holder, host_id, prove_dead, watch_death
from outlast.engine.supervisor import EXIT_DEADLINE
from outlast.errors import HarnessError
from tests.crash.trees import LIMIT_S, Grove, Member

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

OWNER = """
import os, socket, sys, anyio
from pathlib import Path
from outlast.engine.processes import start_supervised
async def own():
    async with await start_supervised(sys.argv[3:], lock=Path(sys.argv[1]), ttl_s=60):
        if sys.argv[2] == "forks" and os.fork() == 0:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(sys.argv[-2])
            connection.sendall(b"fork")
            connection.recv(1)
            os._exit(0)
        await anyio.sleep_forever()
anyio.run(own)
"""


def proved(grove: Grove) -> bool:
    return prove_dead(grove.locks, Holder(host_id(), "worker-1"))


async def start(grove: Grove, *argv: str, ttl_s: float = 60) -> SupervisedProcess:
    return await start_supervised(argv or grove.program(), lock=grove.lock, ttl_s=ttl_s)


async def gather(grove: Grove) -> list[Member]:
    return await anyio.to_thread.run_sync(grove.gather, "child", "detached", "orphan")


async def read_all(stream: ByteReceiveStream) -> bytes:
    return b"".join([data async for data in stream])


async def test_bytes_pass_through_exactly(grove: Grove) -> None:
    sent = bytes(range(256)) * 8192
    received = b""
    with anyio.fail_after(LIMIT_S):
        async with await start(grove, "sh", "-c", "cat; echo done >&2; exit 3") as process:

            async def send() -> None:
                await process.stdin.send(sent)
                await process.stdin.aclose()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                received = await read_all(process.stdout)
            assert await read_all(process.stderr) == b"done\n"
            assert await process.wait() == 3
    assert received == sent
    assert proved(grove)


async def test_an_output_ends_when_the_program_ends_it(grove: Grove) -> None:
    with anyio.fail_after(LIMIT_S):
        async with await start(grove, "sh", "-c", "echo last; exec >&-; read line; exit 4") as process:
            assert await read_all(process.stdout) == b"last\n"
            await process.stdin.send(b"go\n")
            assert await process.wait() == 4


async def test_leaving_the_block_kills_the_whole_tree(grove: Grove) -> None:
    async with await start(grove) as process:
        members = await gather(grove)
        assert not proved(grove)
    assert proved(grove)
    assert all(member.is_gone() for member in members)
    assert await process.wait() == 128 + signal.SIGKILL


async def test_cancelling_kills_the_whole_tree(grove: Grove) -> None:
    members: list[Member] = []
    with anyio.CancelScope() as scope:
        async with await start(grove):
            members += await gather(grove)
            scope.cancel()
            await anyio.sleep_forever()
    assert proved(grove)
    assert all(member.is_gone() for member in members)


async def test_many_can_wait_and_kill_at_once(grove: Grove) -> None:
    with anyio.fail_after(LIMIT_S):
        async with await start(grove) as process, anyio.create_task_group() as tasks:
            await gather(grove)
            for _ in range(5):
                tasks.start_soon(process.wait)
            tasks.start_soon(process.kill)
            tasks.start_soon(process.kill)
    assert proved(grove)


async def test_a_deadline_that_passes_kills_and_a_later_one_keeps(grove: Grove) -> None:
    with anyio.fail_after(LIMIT_S):
        async with await start(grove, ttl_s=0.5) as process:
            process.deadline(int((boottime() + 3600) * 1e9))
            await gather(grove)
            with anyio.move_on_after(0.7) as scope:
                await process.wait()
            assert scope.cancelled_caught
            process.deadline(1)
            assert await process.wait() == EXIT_DEADLINE
            process.deadline(int((boottime() + 3600) * 1e9))
    assert proved(grove)


@pytest.mark.parametrize("forks", ["", "forks"])
async def test_a_tree_dies_with_its_owner_even_if_a_fork_of_it_lives(grove: Grove, forks: str) -> None:
    owner = grove.start([sys.executable, "-c", OWNER, str(grove.lock), forks, *grove.program()])
    members = await gather(grove)
    if forks:
        await anyio.to_thread.run_sync(grove.gather, "fork")
    os.kill(owner.pid, signal.SIGKILL)
    assert all(member.dies() for member in members)
    with anyio.fail_after(LIMIT_S):
        await watch_death(grove.locks, Holder(host_id(), "worker-1"))


async def test_a_program_of_a_killed_supervisor_is_not_called_dead(grove: Grove) -> None:
    process = await start(grove)
    await gather(grove)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(HarnessError, match="may be alive"):
        await process.wait()
    assert not proved(grove)
    with pytest.raises(HarnessError, match="may be alive"):
        await process.__aexit__(None, None, None)


async def test_a_program_that_was_never_started_is_an_error(grove: Grove) -> None:
    grove.lock.write_text('{"pid": 1, "start": 1, "dead": true}')
    process = await start(grove, "true")
    assert b"exists" in await read_all(process.stderr)
    with pytest.raises(HarnessError, match="did not start it"):
        await process.__aexit__(None, None, None)


async def test_a_program_sees_nothing_of_its_supervision(
    grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_DEADLINE_FD", "5")
    monkeypatch.setenv("OUTLAST_SUPERVISOR_PID", "6")
    async with await start(
        grove, "sh", "-c", "env | grep -E 'OUTLAST_(DEADLINE|SUPERVISOR)'; ls /proc/self/fd"
    ) as process:
        assert await read_all(process.stdout) == b"0\n1\n2\n3\n"  # 3 is the directory that ls reads
