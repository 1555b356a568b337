"""The SQLite World under SIGKILL and SIGSTOP of real processes."""

import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.errors import WorldUnavailable
from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    held,
    opened,
    pieces,
    put,
    read,
    renew,
    whole,
)
from outlast.world import START, Cursor, Gap
from outlast.worlds.sqlite import Pace, open_sqlite
from outlast.worlds.sqlite.database import connect

pytestmark = pytest.mark.crash

KILLS = 30
SOON_S = 20.0

WRITER = """
import sys, anyio
from outlast.testing.world_contract.blocks import claimed, commit, published
from outlast.worlds.sqlite import open_sqlite

async def write(world, claim):
    lease, seq = claim.lease, claim.seq
    while True:
        await published(world, lease, seq, b"%d.0" % seq, b"%d.1" % seq)
        body = b"%d of %s" % (seq + 1, lease.session.encode())
        [refused] = await world.commit_many([(lease, commit(seq + 1, lease.fence, body, sealed=2))])
        if refused is not None:
            raise refused
        seq += 1
        print(lease.session, seq, flush=True)

async def main():
    async with open_sqlite(sys.argv[1]) as world:
        claims = [await claimed(world, sys.argv[2], session, dead=sys.argv[3:4]) for session in "abcd"]
        async with anyio.create_task_group() as writers:
            for claim in claims:
                writers.start_soon(write, world, claim)

anyio.run(main)
"""

STOPPER = """
import os, signal, sys, anyio
from outlast.testing.world_contract.blocks import commit
from outlast.world import Lease
from outlast.worlds.sqlite import open_sqlite, writes

async def main():
    async with open_sqlite(sys.argv[1]) as world:
        lease = Lease("s", 1, "w1")

        def stop(transaction):
            os.kill(os.getpid(), signal.SIGSTOP)
            return writes.commit_many(transaction, "default", [(lease, commit(3, 1, b"after the stop"))])

        print("ready", flush=True)
        print(await world.store.writer.write(stop), flush=True)

anyio.run(main)
"""


class Child:
    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._output = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        with anyio.fail_after(SOON_S):
            return (await self._output.receive_until(b"\n", 10_000)).decode()

    async def rest(self) -> list[str]:
        """What it still said, whole lines only."""
        text = bytearray()
        try:
            while True:
                text += await self._output.receive()
        except anyio.EndOfStream:
            return text.decode().split("\n")[:-1]


@asynccontextmanager
async def child(program: str, *words: str) -> AsyncGenerator[Child]:
    async with await anyio.open_process([sys.executable, "-c", program, *words], stderr=None) as process:
        try:
            yield Child(process)
        finally:
            if process.returncode is None:
                process.kill()


async def test_what_was_acknowledged_outlives_sigkill_at_any_moment(seed: int) -> None:
    draw = random.Random(seed)
    acknowledged: dict[str, int] = {}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "world.db"
        async with open_sqlite(path) as world:
            for session in "abcd":
                await opened(world, session)
        for kill in range(KILLS):
            async with child(WRITER, str(path), f"w{kill}", f"w{kill - 1}") as writer:
                lines = [await writer.line()]
                with anyio.move_on_after(draw.uniform(0.0, 0.15)):
                    while True:
                        lines.append(await writer.line())
                writer.process.send_signal(signal.SIGKILL)
                lines += await writer.rest()
            for line in lines:
                session, seq = line.split()
                acknowledged[session] = int(seq)
            if kill % 5 == 4:
                await check(path, acknowledged)
        await check(path, acknowledged)


async def check(path: Path, acknowledged: dict[str, int]) -> None:
    async with open_sqlite(path) as world:
        for session, seq in acknowledged.items():
            commits = await whole(world, session)
            assert len(commits) >= seq
            assert [there.header.seq for there in commits] == list(range(1, len(commits) + 1))
            for there in commits:
                expected = {b"first", b"takeover", b"%d of %s" % (there.header.seq, session.encode())}
                assert there.body in expected
            items = await read(world, session, len(commits))
            assert not any(isinstance(item.what, Gap) for item in items)
            assert pieces(items)[0] == (Cursor(1, 0), b"first")
    database = connect(str(path))
    [[verdict]] = database.execute("pragma integrity_check").fetchall()
    database.close()
    assert verdict == "ok"


async def test_a_process_stopped_inside_a_write_hinders_nobody_for_ever() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "world.db"
        async with open_sqlite(path, pace=Pace(patience_s=1.0)) as world:
            await held(world)
            other = await held(world, "other", "w2")
            async with child(STOPPER, str(path)) as stopped:
                assert (await stopped.line()).strip() == "ready"
                await until_stopped(stopped.process.pid)
                new = commit(3, 1, b"of another")
                with pytest.raises(
                    WorldUnavailable, match=rf"process {stopped.process.pid} .*stopped.* write lock"
                ):
                    await put(world, other, new)
                # Whoever reads, watches or keeps its lease goes on meanwhile.
                renew(world, "w2")
                assert (await world.get("s")).seq == 2
                assert len(await read(world, "other", 2, START)) == 2
                stopped.process.send_signal(signal.SIGKILL)
                with anyio.fail_after(SOON_S):
                    assert await put(world, other, new) is None
            assert (await world.get("s")).seq == 2
            assert (await claimed(world, "w3", "s", dead=["w1"])).seq == 3


async def test_a_process_that_goes_on_after_a_stop_inside_a_write_has_written_it_whole() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "world.db"
        async with open_sqlite(path) as world:
            await held(world)
            other = await held(world, "other", "w2")
            async with child(STOPPER, str(path)) as stopped:
                await stopped.line()
                await until_stopped(stopped.process.pid)
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(put, world, other, commit(3, 1))
                    await world.get("other")
                    stopped.process.send_signal(signal.SIGCONT)
                assert (await stopped.line()).strip() == "[None]"
            assert [there.body for there in await whole(world, "s")][2:] == [b"after the stop"]
            assert (await world.get("other")).seq == 3


async def until_stopped(pid: int) -> None:
    with anyio.fail_after(SOON_S):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            await anyio.lowlevel.checkpoint()
