"""Whose session a worker claims next: turns of tenants and agents, bounds on waiting, tenants that come later."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import anyio
import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.engine.batch import Batcher
from outlast.engine.claiming import CYCLE, Claiming, Desk, Terms
from outlast.session import Session
from outlast.testing.world_contract.blocks import TAKEOVER, commit, renew
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Claim, Limits, WorkerOffer, World
from outlast.world.line import by_priority, woken_first
from outlast.worlds.memory import MemoryStore, MemoryWorld

NO_GATEWAY = cast("Gateway", None)
AGENTS = ("few", "many", "none")


async def _ready(world: World, agent: str, count: int, priority: int = 0) -> None:
    for number in range(count):
        await world.create(f"{agent}-{number}", commit(1, 0), agent=agent, priority=priority)


class Bench:
    """Claims until it has seen enough; what it claims is never given back."""

    def __init__(self, worlds: Sequence[World], *, at_once: int = 1, limits: Limits | None = None) -> None:
        self.claiming = Claiming(ManualClock(), lease_s=10.0)
        for world in worlds:
            self.claiming.add(world, AGENTS)
        self.at_once = at_once
        self.terms = Terms(WorkerOffer("w1", frozenset(AGENTS), 1), lambda: TAKEOVER, limits or Limits())
        self.given: list[tuple[str, str]] = []
        self.free = 0
        renew(worlds[0], "w1")

    async def claim(self, rounds: int) -> list[tuple[str, str]]:
        """Have so many places become free, one round after the other; the sessions that were claimed, in order."""
        for _ in range(rounds):
            self.free = self.at_once
            self.claiming.tell_all()
            await self.claiming.fill(self.terms, lambda: self.free, self.begin)
        return self.given

    def begin(self, desk: Desk, claim: Claim) -> None:
        self.free -= 1
        self.given.append((desk.world.tenant, claim.lease.session))


@pytest.mark.parametrize("at_once", [1, 4, 16])
async def test_five_sessions_of_an_agent_wait_for_no_thousand_of_another(at_once: int) -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    await _ready(world, "many", 1_000, priority=100)
    await _ready(world, "few", 5)
    given = await Bench([world], at_once=at_once).claim(32 // at_once)
    last = max(place for place, (_, session) in enumerate(given) if session.startswith("few"))
    assert sum(session.startswith("few") for _, session in given) == 5
    # One place at a time, both agents that have something get every other claim; in a round each is in front once in 3.
    assert last < (10 if at_once == 1 else 5 * len(AGENTS) + at_once)


@pytest.mark.parametrize("at_once", [1, 4, 16])
async def test_five_sessions_of_a_tenant_wait_for_no_thousand_of_another(at_once: int) -> None:
    store = MemoryStore(ManualClock())
    crowd, small, idle = (MemoryWorld(store, tenant) for tenant in ("crowd", "small", "idle"))
    await _ready(crowd, "many", 1_000, priority=100)
    await _ready(small, "few", 5, priority=-100)
    given = await Bench([crowd, idle, small], at_once=at_once).claim(32 // at_once)
    places = [place for place, (tenant, _) in enumerate(given) if tenant == "small"]
    assert len(places) == 5
    assert max(places) < 10 + at_once


@pytest.mark.parametrize("at_once", [1, 3, 16])
async def test_a_session_of_the_lowest_priority_waits_for_no_endless_stream_of_higher_ones(
    at_once: int,
) -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    await _ready(world, "few", 1, priority=-100)
    await world.create("sleeper", commit(1, 0, wake_at_s=1.0), agent="many", priority=-100)
    await world.create("low", commit(1, 0), agent="many", priority=-99)
    await _ready(world, "many", 200, priority=100)
    given = [session for _, session in await Bench([world], at_once=at_once).claim(96 // at_once)]
    assert {"few-0", "sleeper", "low"} <= set(given)


async def test_among_claims_of_an_agent_each_eighth_goes_against_priorities_and_each_third_to_the_woken() -> (
    None
):
    desk = Desk(MemoryWorld(MemoryStore(ManualClock())), cast("Batcher", None), dict.fromkeys(AGENTS, 0))
    numbers: list[int] = []
    for _ in range(CYCLE):
        asked = desk.asked(0)
        numbers.append(asked["many"])
        desk.served([("many", asked["many"])])
    assert numbers == list(range(CYCLE))
    assert desk.turns["many"] == 0
    kinds = [(by_priority(number), woken_first(number)) for number in numbers]
    assert (kinds.count((False, False)), kinds.count((False, True))) == (2, 1)


async def test_no_number_is_left_out_though_a_round_asks_with_several() -> None:
    desk = Desk(MemoryWorld(MemoryStore(ManualClock())), cast("Batcher", None), dict.fromkeys(AGENTS, 0))
    seen: list[int] = []
    while len(seen) < 3 * CYCLE:
        asks = [desk.asked(before) for before in range(4)]
        won = [("many", asks[0]["many"]), ("few", asks[1]["few"]), ("many", asks[2]["many"])]
        seen += sorted({number % CYCLE for agent, number in won if agent == "many"})
        desk.served(won)
    assert set(seen) == set(range(CYCLE))


async def test_a_worker_keeps_its_limits(tmp_path: Path) -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    await _ready(world, "many", 5)
    await _ready(world, "few", 5)
    bench = Bench([world], at_once=16, limits=Limits({"many": 1}, whole=3))
    given = [session for _, session in await bench.claim(3)]
    assert sorted(given) == ["few-0", "few-1", "many-0"]


def _agent() -> Agent:
    return Agent("tester", Scripted(script=[{"do": "model", "text": "hello"}]))


async def _sent(world: World, session: str = "s") -> Session:
    opened = await Session.open(world, session, agent=_agent())
    await opened.send("go")
    return opened


async def test_one_worker_advances_sessions_of_one_name_of_several_tenants(tmp_path: Path) -> None:
    store = MemoryStore()
    sessions = [await _sent(MemoryWorld(store, tenant)) for tenant in ("a", "b", "other")]
    config = WorkerConfig(tmp_path, tenants=("a", "b"))
    async with open_worker(MemoryWorld(store), {"tester": _agent()}, NO_GATEWAY, config) as worker:
        with anyio.fail_after(20):
            await worker.work(until_idle=True)
    assert [(await session.head()).seq > 1 for session in sessions] == [True, True, False]
    assert [(await session.result(1)).status for session in sessions[:2]] == ["done", "done"]


async def test_a_worker_of_all_tenants_finds_those_that_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.worker.POLL_S", 0.01)
    store = MemoryStore()
    first = await _sent(MemoryWorld(store, "first"))
    config = WorkerConfig(tmp_path, all_tenants=True)
    async with (
        open_worker(MemoryWorld(store), {"tester": _agent()}, NO_GATEWAY, config) as worker,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(worker.work)
        with anyio.fail_after(20):
            assert (await first.result(1)).status == "done"
            later = await _sent(MemoryWorld(store, "later"))
            assert (await later.result(1)).status == "done"
        worker.drain()
    assert worker.running == 0
