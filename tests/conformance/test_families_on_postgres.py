"""Sessions that a loop spawns, in Postgres: two workers carry a family between them, and one of them dies."""

import random

import anyio
import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import SystemClock
from outlast.errors import ChildFailed
from outlast.fold import fold
from outlast.records import CallOutcome, InputDropped
from outlast.session import Session
from outlast.testing.faults import DeathGate, MortalWorld, RecordingGate, Spot, spots
from outlast.world import World
from outlast.worlds.postgres import open_postgres
from tests.servers.postgres import PostgresServer
from tests.unit.engine_desk import records
from tests.unit.family_desk import Family

pytestmark = pytest.mark.server

DRAWN = 6
SOON_S = 20.0


async def boss(io: IO, prompt: str) -> object:
    """Spawns one after the other, begins again, and spawns two at once."""
    if io.state is None:
        await io.continue_as_new(await io.spawn("helper", "one"))

    async def fails(lane: IO) -> object:
        try:
            return await lane.spawn("helper", "fail")
        except ChildFailed as error:
            return str(error)

    return [io.state, *await io.gather(fails, lambda lane: lane.spawn("helper", "two " * 5_000))]


async def helper(io: IO, prompt: str) -> object:
    if prompt == "fail":
        raise ValueError("half a thought")
    return len(prompt)


AGENTS = [Agent("boss", Loop(boss)), Agent("helper", Loop(helper))]
ENDS = [3, "The turn that helper was spawned for ended as failed: ValueError: half a thought", 20_000]


async def begin(world: World, name: str) -> Session:
    session = await Session.open(world, name, agent="boss")
    await session.send("go", id="in-1")
    return session


async def check(world: World, session: Session) -> None:
    with anyio.fail_after(SOON_S):
        assert (await session.result(1)).value == ENDS
    found = await records(world, session.id)
    assert [one.status for one in found if isinstance(one, CallOutcome)].count("error") == 1
    assert not any(isinstance(one, InputDropped) for one in found)
    names = [one.session for one in (await world.list()).sessions if one.session.startswith(f"{session.id}.")]
    assert len(names) == 3
    for name in names:
        state = fold(name, await world.commits(name))
        assert (state.turn, state.errands, state.next_turn) == (None, [], 2)


async def test_a_family_in_postgres_outlives_its_worker_at_points_drawn_by_the_seed(
    postgres: PostgresServer, seed: int
) -> None:
    async with open_postgres(postgres.new_url()) as world:
        clock, record = SystemClock(), RecordingGate()
        session = await begin(world, "uncut")
        await Family(world, clock, AGENTS, record, "w-uncut").work()
        await check(world, session)
        for at, spot in enumerate(random.Random(seed).sample(spots(record.crossings), DRAWN)):
            await die_and_be_survived(world, f"cut-{at}", spot)


async def die_and_be_survived(world: World, name: str, spot: Spot) -> None:
    session, mortal = await begin(world, name), MortalWorld(world)
    victim = Family(mortal, SystemClock(), AGENTS, DeathGate(spot, mortal), f"{name}-victim")
    assert not await victim.work(), str(spot)
    heir = Family(world, SystemClock(), AGENTS, name=f"{name}-heir", dead=frozenset({f"{name}-victim"}))
    await heir.work()
    await check(world, session)


async def test_two_workers_carry_a_family_in_postgres_between_them(postgres: PostgresServer) -> None:
    async with open_postgres(postgres.new_url()) as world:
        sessions = [await begin(world, f"boss-{number}") for number in range(3)]
        async with anyio.create_task_group() as both:
            for agent in AGENTS:
                both.start_soon(_work_until_done, world, agent, sessions)
        for session in sessions:
            await check(world, session)


async def _work_until_done(world: World, agent: Agent, sessions: list[Session]) -> None:
    worker = Family(world, SystemClock(), [agent], name=f"of-{agent.name}")
    with anyio.fail_after(SOON_S):
        while not all([await _is_over(session) for session in sessions]):
            await worker.work()
            async with world.subscribe(sessions[0].id) as hints:
                await hints.wait(0.05)
        await worker.work()


async def _is_over(session: Session) -> bool:
    state = await session.state()
    return state.last is not None
