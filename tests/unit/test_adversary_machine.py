"""What somebody may do to files and names beneath a worker."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from outlast.adapter import Gateway
from outlast.clock import SystemClock
from outlast.codec import encode_records
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import WorldUnavailable
from outlast.records import FORMAT, AttemptOpened
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Takeover, WorkerOffer, WorkerRow
from outlast.worlds.memory import open_memory
from outlast.worlds.sqlite import open_sqlite
from tests.unit.engine_desk import LIMIT_S, agent_of, opened, say

NO_GATEWAY = cast("Gateway", None)


async def test_a_worker_that_is_started_again_under_its_name_takes_over_what_it_held(tmp_path: Path) -> None:
    agent = agent_of([say("hi")])
    async with open_memory() as world:
        session = await opened(world, agent)
        world.open_liveness().renew(WorkerRow("daily", "", 0.0), 0.2)
        offer = WorkerOffer("daily", frozenset({agent.name}), FORMAT)
        first = AttemptOpened("daily", "here", {}, 0.0)
        assert await world.claim(offer, Takeover(encode_records([first]), 1, FORMAT)) is not None
        # The first one is dead now, and its lease runs out.
        config = WorkerConfig(tmp_path, lease_s=2.0, kill_grace_s=0.0, name="daily")
        async with open_worker(world, {agent.name: agent}, NO_GATEWAY, config) as worker:
            assert worker.id.startswith("daily-")
            task = asyncio.get_running_loop().create_task(worker.work())
            async with asyncio.timeout(LIMIT_S):
                assert (await session.result(1)).status == "done"
            worker.drain()
            await task


@pytest.mark.parametrize("replaced", [False, True])
async def test_what_is_written_to_a_file_that_was_taken_away_is_not_acknowledged(
    tmp_path: Path, *, replaced: bool
) -> None:
    agent = agent_of([say("hi")])
    database = tmp_path / "world.db"
    async with open_sqlite(database) as world:
        session = await opened(world, agent)
        for file in tmp_path.glob("world.db*"):
            if file.is_file():
                file.unlink()
        if replaced:
            database.write_bytes(b"")
        with pytest.raises(WorldUnavailable, match="removed or replaced"):
            await session.send("again", id="in-9")
        with pytest.raises(WorldUnavailable, match="removed or replaced"):
            await session.head()


async def test_a_harness_starts_also_where_the_directory_of_locks_was_removed(tmp_path: Path) -> None:
    async def no_namespace() -> bool:
        return False

    keeper = Keeper(lambda: 10.0, ttl_s=10.0, on_lost=lambda _: None, clock=SystemClock())
    async with keeper:
        processes = SupervisedProcesses(tmp_path / "gone", keeper, 10.0, no_namespace)
        async with processes.start(["true"], env={"PATH": "/bin:/usr/bin"}, cwd=tmp_path) as process:
            assert await process.wait() == 0
