"""What somebody may do to files and names beneath a worker."""

from pathlib import Path

import msgspec
import pytest

from outlast.cli.options import Setup
from outlast.cli.wishes import WorkerWish
from outlast.cli.worker import serve
from outlast.clock import SystemClock
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import WorldUnavailable
from outlast.settings import Settings
from outlast.worlds.sqlite import open_sqlite
from tests.unit.engine_desk import agent_of, opened, say


async def test_a_worker_that_is_started_again_under_its_name_is_another_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the id of a dead one its row would keep the dead one's leases alive, and their turns waiting for ever."""
    settings = Settings(world=f"sqlite:{tmp_path}/world.db", data_dir=str(tmp_path / "data"))
    wish = WorkerWish((), None, "daily", None, until_idle=True, until_eof=False)
    ids: list[str] = []
    for _ in range(2):
        assert await serve(Setup(settings, json=True), wish) == 0
        ids.append(msgspec.json.decode(capsys.readouterr().out)["worker"])
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
