"""What a worker leaves, and what it does not: locks, leases, troubles."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import anyio
import pytest

from outlast.adapter import Adapter, Agent, Gateway
from outlast.adapters.codex import Codex
from outlast.adapters.opencode import OpenCode
from outlast.adapters.pi import Pi
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock, SystemClock
from outlast.engine.able import LOOK_S, Able
from outlast.engine.peers import LOCKS_KEPT_S
from outlast.engine.proof import host_id
from outlast.errors import WorldFull
from outlast.testing.world_contract.blocks import opened
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Claim, Commit, Takeover, WorkerOffer, WorkerRow
from outlast.worlds.memory import MemoryStore, MemoryWorld, open_memory
from tests.unit.engine_desk import agent_of
from tests.unit.engine_desk import opened as waiting

NO_GATEWAY = cast("Gateway", None)


def _dead_lock(locks: Path, name: str, age_s: float) -> Path:
    lock = locks / name
    lock.write_text('{"pid": 1, "start": 1, "within": "", "dead": true}')
    died = time.time_ns() - int(age_s * 1e9)
    os.utime(lock, ns=(died, died))
    return lock


async def test_the_locks_of_the_long_dead_are_removed_unless_a_worker_is_known_by_them(
    tmp_path: Path,
) -> None:
    config = WorkerConfig(tmp_path)
    config.locks.mkdir()
    long_dead = _dead_lock(config.locks, "attempt-a", LOCKS_KEPT_S + 60)
    just_dead = _dead_lock(config.locks, "attempt-b", 60)
    named = _dead_lock(config.locks, "worker-c", LOCKS_KEPT_S + 60)
    async with open_memory() as world:
        world.open_liveness().renew(WorkerRow("c", f"{host_id()}/worker-c", 0.0), 60.0)
        async with open_worker(world, {}, NO_GATEWAY, config):
            assert (long_dead.exists(), just_dead.exists(), named.exists()) == (False, True, True)


async def test_a_worker_that_is_cancelled_gives_its_leases_back(tmp_path: Path) -> None:
    async with open_memory() as world:
        with anyio.CancelScope() as scope:
            async with open_worker(world, {}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
                assert [row.worker for row in await world.workers()] == [worker.id]
                scope.cancel()
                await worker.work()
        assert await world.workers() == []


class FullWorld(MemoryWorld):
    """Can be read, and takes nothing, for very long."""

    def __init__(self, enough: int) -> None:
        super().__init__(MemoryStore(SystemClock()))
        self.left = enough
        self.asked_enough = anyio.Event()

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        self.left -= 1
        if self.left == 0:
            self.asked_enough.set()
        raise WorldFull(world=self.name, reason="the disk is full")


async def test_a_world_that_is_full_for_days_ends_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.worker.POLL_S", 0.0)
    world = FullWorld(enough=1_100)  # two cannot be raised to that and be a float
    await opened(world, "s")
    config = WorkerConfig(tmp_path)
    async with open_worker(world, {}, NO_GATEWAY, config) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(worker.work)
        with anyio.fail_after(20):
            await world.asked_enough.wait()
        worker.drain()
    assert not worker.lost


class IndiscreetWorld(MemoryWorld):
    """Fails with the words of whoever uses it."""

    words = "the order of Ann Smith"

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        raise ValueError(self.words)


async def test_a_log_line_of_a_session_that_fails_names_it_and_says_none_of_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = IndiscreetWorld(MemoryStore(SystemClock()))
    agent = agent_of([])
    await waiting(world, agent, "ticket-1")
    async with open_worker(world, {agent.name: agent}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
        with anyio.fail_after(20):
            await worker.work(until_idle=True)
    assert "session ticket-1 could not be advanced" in caplog.text
    assert "ValueError" in caplog.text
    assert "in commits" in caplog.text
    assert world.words not in caplog.text


@pytest.mark.parametrize("adapter", [Codex(), OpenCode(), Pi()], ids=lambda adapter: adapter.name)
async def test_an_agent_whose_program_is_not_here_is_not_offered_and_the_others_are(
    adapter: Adapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OUTLAST_HARNESS_DIR", str(tmp_path / "nothing"))
    there, missing = agent_of([{"say": "Done."}]), Agent("absent", adapter)
    agents = {agent.name: agent for agent in (there, missing)}
    async with open_memory() as world:
        await waiting(world, there, "s")
        await waiting(world, missing, "m")
        async with open_worker(world, agents, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
            with anyio.fail_after(20):
                await worker.work(until_idle=True)
        assert not (await world.get("s")).is_ready(SystemClock().now())
        left = await world.get("m")
        assert (left.is_ready(SystemClock().now()), left.fence) == (True, 0)
    said = [line.getMessage() for line in caplog.records if "not offered" in line.getMessage()]
    assert len(said) == 1
    assert f"outlast install {adapter.name}" in said[0]


class Counted(Scripted):
    """A harness of which it is told how often its versions were read, and on which thread."""

    def __init__(self) -> None:
        super().__init__(script=[])
        self.threads: list[int] = []

    def versions(self) -> Mapping[str, str]:
        self.threads.append(threading.get_ident())
        return super().versions()


async def test_installed_harnesses_are_looked_at_now_and_then_and_beside_the_event_loop() -> None:
    clock, counted = ManualClock(), Counted()
    able = Able({"counted": Agent("counted", counted)}, clock)
    for _ in range(100):
        assert await able.versions() == {"counted": Scripted(script=[]).versions()}
    assert len(counted.threads) == 1
    assert counted.threads[0] != threading.get_ident()
    clock.turn(LOOK_S)
    await able.versions()
    assert len(counted.threads) == 2
