"""The SQLite World under SIGKILL and SIGSTOP of real processes."""

import random
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import pytest

from outlast.errors import WorldUnavailable
from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    held,
    opened,
    put,
    read,
    renew,
    whole,
)
from outlast.world import START
from outlast.worlds.sqlite import Pace, open_sqlite
from outlast.worlds.sqlite.database import connect
from tests.crash.writers import SESSIONS, SOON_S, child, kept, killed

pytestmark = pytest.mark.crash

KILLS = 30

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


async def test_what_was_acknowledged_outlives_sigkill_at_any_moment(seed: int) -> None:
    draw = random.Random(seed)
    acknowledged: dict[str, int] = {}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "world.db"
        async with open_sqlite(path) as world:
            for session in SESSIONS:
                await opened(world, session)
        for kill in range(KILLS):
            acknowledged |= await killed("sqlite", str(path), kill, draw)
            if kill % 5 == 4:
                await check(path, acknowledged)
        await check(path, acknowledged)


async def check(path: Path, acknowledged: dict[str, int]) -> None:
    async with open_sqlite(path) as world:
        await kept(world, acknowledged)
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
