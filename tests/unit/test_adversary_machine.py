"""What somebody may do to files and names beneath a worker."""

import os
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast.cli.argv import worker_argv
from outlast.clock import SystemClock
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import WorldUnavailable
from outlast.worlds.sqlite import open_sqlite
from tests.unit.engine_desk import agent_of, opened, say


async def test_a_worker_that_is_started_again_under_its_name_is_another_worker(tmp_path: Path) -> None:
    """Under the id of a dead one its row would keep the dead one's leases alive, and their turns waiting for ever."""
    argv = worker_argv("--world", f"sqlite:{tmp_path}/world.db", "--name", "daily", "--until-idle", "--json")
    env = {**os.environ, "OUTLAST_DATA_DIR": str(tmp_path / "data")}
    ids: list[str] = []
    for _ in range(2):
        ran = await anyio.run_process(argv, env=env, cwd=tmp_path)
        ids.append(msgspec.json.decode(ran.stdout.splitlines()[0])["worker"])
    assert all(one.startswith("daily-") for one in ids)
    assert ids[0] != ids[1]


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
