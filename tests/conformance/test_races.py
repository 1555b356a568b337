"""Workers that race for one session, on a file and in Postgres: each time one of them wins."""

from pathlib import Path

import anyio
import pytest

from outlast.opening import open_world
from outlast.testing.world_contract.blocks import TAKEOVER, offer, opened, renew, whole
from outlast.world import Claim, World
from tests.crash.writers import child
from tests.servers.postgres import PostgresServer

FEW, MANY = 50, 10_000
WORLDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.server))
ROUNDS = (FEW, pytest.param(MANY, marks=[pytest.mark.full, pytest.mark.timeout(600)]))
RACER = """
import sys, anyio
from outlast.opening import open_world
from outlast.testing.world_contract.blocks import TAKEOVER, offer

async def main(url, name, rounds):
    async with open_world(url) as world:
        fences = []
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        while (await world.get("s")).fence < rounds:
            claim = await world.claim(offer(name), TAKEOVER)
            if claim is not None:
                assert claim.seq == claim.lease.fence + 1
                fences.append(claim.lease.fence)
                await world.release(claim.lease)
    print(*fences, flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""
"""One of the workers, in a process of its own: it claims and gives back, and tells at the end which fences it had."""


@pytest.fixture(params=WORLDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'world.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_url()


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_of_two_workers_who_race_for_a_session_one_wins_each_time(url: str, rounds: int) -> None:
    async with open_world(url) as one, open_world(url) as other:
        await opened(one)
        renew(one, "w1", 3600.0)
        renew(one, "w2", 3600.0)
        for number in range(rounds):
            won: list[Claim] = []

            async def claim(world: World, worker: str, won: list[Claim] = won) -> None:
                claim = await world.claim(offer(worker), TAKEOVER)
                if claim is not None:
                    won.append(claim)

            async with anyio.create_task_group() as racers:
                racers.start_soon(claim, one, "w1")
                racers.start_soon(claim, other, "w2")
            [winner] = won
            assert (winner.lease.fence, winner.seq) == (number + 1, number + 2)
            await one.release(winner.lease)
        fences = [there.header.fence for there in await whole(one, "s")]
        assert fences == list(range(rounds + 1))


@pytest.mark.crash
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_of_two_processes_who_race_for_a_session_each_fence_has_one(url: str, rounds: int) -> None:
    async with open_world(url) as world:
        await opened(world)
        for name in ("w1", "w2"):
            renew(world, name, 3600.0)
        async with child(RACER, url, "w1", str(rounds)) as one, child(RACER, url, "w2", str(rounds)) as other:
            for racer in (one, other):
                assert await racer.line() == "ready"
            for racer in (one, other):
                assert racer.process.stdin is not None
                await racer.process.stdin.send(b"go\n")
            said = [" ".join(await racer.rest()) for racer in (one, other)]
        won = [[int(fence) for fence in one.split()] for one in said]
        fences = [there.header.fence for there in await whole(world, "s")]
        assert sorted([*won[0], *won[1]]) == fences[1:] == list(range(1, len(fences)))
        assert len(fences) > rounds
        assert all(won), "only one of them ever won"
