"""A worker that is suspended beyond its lease: another one finishes, and it does nothing more when it wakes.

On a file and in Postgres; there one case of each kind, that the seed draws, and all of them in the full product.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from outlast.engine.supervisor import EXIT_DEADLINE
from outlast.gate import Point
from outlast.testing.faults import Spot
from tests.crash.plays import read_from
from tests.crash.real import LIMIT_S, Yard, act, check, read_ledger, took_over_s, yard
from tests.servers.postgres import PostgresServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

LEASE_S = 1.0
GRACE_S = 0.2
MOMENTS = 3
CALLS = 150
SPOTS = [
    Spot(Point.AFTER_INTENT, "never"),
    Spot(Point.IN_EFFECT, "safe"),
    Spot(Point.OUTCOME_QUEUED, "keyed"),
    Spot(Point.AFTER_INTENT, "model", 2),
    Spot(Point.BEFORE_INTENT, "model", 2),
]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard"), lease_s=LEASE_S, kill_grace_s=GRACE_S) as found:
        yield found


@pytest.fixture(scope="module")
async def in_postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> AsyncGenerator[Yard]:
    leases = {"lease_s": LEASE_S, "kill_grace_s": GRACE_S}
    async with yard(tmp_path_factory.mktemp("yard"), postgres.new_url(), **leases) as found:
        yield found


async def stop_supervised(place: Yard, spot: Spot, strike: str, name: str = "") -> None:
    """Suspend a worker under its supervisor: whatever it held hinders nobody, and its lease's end is its own."""
    name = name or f"{strike.lower()}-{SPOTS.index(spot)}"
    place.hold.touch()
    victim = await place.victim(name, 0, spot, strike=strike, lease_s=LEASE_S)
    session = await place.opened(name)
    await place.send(victim)
    await victim.says("struck")
    other = await place.opened(f"{name}-other")  # it hinders nobody: not even from inside its write
    died_s = await victim.dies()
    assert victim.process.returncode == EXIT_DEADLINE
    await check(place, session)
    await check(place, other)
    assert await took_over_s(place, name, "heir", died_s) < LEASE_S


SUPERVISED = [(spot, strike) for spot in SPOTS[:3] for strike in ("SIGSTOP", "write")]


@pytest.mark.parametrize(("spot", "strike"), SUPERVISED, ids=str)
async def test_a_supervised_worker_that_is_suspended_is_dead_when_its_lease_ends(
    place: Yard, spot: Spot, strike: str
) -> None:
    await stop_supervised(place, spot, strike)


@pytest.mark.server
async def test_a_supervised_worker_on_postgres_suspended_at_a_point_drawn_by_the_seed_hinders_nobody(
    in_postgres: Yard, seed: int
) -> None:
    await stop_supervised(in_postgres, random.Random(seed).choice(SPOTS[:3]), "write", "drawn")


@pytest.mark.full
@pytest.mark.server
@pytest.mark.parametrize(("spot", "strike"), SUPERVISED, ids=str)
async def test_a_supervised_worker_on_postgres_that_is_suspended_is_dead_when_its_lease_ends(
    in_postgres: Yard, spot: Spot, strike: str
) -> None:
    await stop_supervised(in_postgres, spot, strike)


async def stop_embedded(place: Yard, spot: Spot, name: str) -> None:
    """Suspend a worker that nobody supervises, and let it wake when another one has done its work."""
    place.hold.touch()
    victim = await place.victim(name, 0, spot, strike="SIGSTOP", lease_s=LEASE_S, supervised=False)
    session = await place.opened(name)
    await place.send(victim)
    await victim.says("struck")
    await check(place, session)
    before = await place.world.get(name)
    seen = await read_from(place.world, name, "0.0")
    done = read_ledger(place.ledger, name)
    victim.process.send_signal(signal.SIGCONT)
    await victim.says("lost")
    await victim.dies()
    assert victim.process.returncode == 0
    assert (await place.world.get(name)).seq == before.seq, "it committed something"
    assert await read_from(place.world, name, "0.0") == seen, "it showed something"
    assert read_ledger(place.ledger, name) == done, "it did something outside"


@pytest.mark.parametrize("spot", SPOTS, ids=str)
async def test_an_embedded_worker_that_wakes_after_its_lease_does_nothing_more(
    place: Yard, spot: Spot
) -> None:
    await stop_embedded(place, spot, f"embedded-{SPOTS.index(spot)}")


@pytest.mark.server
async def test_an_embedded_worker_on_postgres_suspended_at_a_point_drawn_by_the_seed_does_nothing_more(
    in_postgres: Yard, seed: int
) -> None:
    await stop_embedded(in_postgres, random.Random(seed).choice(SPOTS), "embedded")


@pytest.mark.full
@pytest.mark.server
@pytest.mark.parametrize("spot", SPOTS, ids=str)
async def test_an_embedded_worker_on_postgres_that_wakes_after_its_lease_does_nothing_more(
    in_postgres: Yard, spot: Spot
) -> None:
    await stop_embedded(in_postgres, spot, f"embedded-{SPOTS.index(spot)}")


async def stop_at_moments(place: Yard, draw: random.Random, count: int) -> None:
    """Suspend a worker that writes all the time, at moments that are drawn."""
    for number in range(count):
        name = f"moment-{number}"
        place.hold.touch()
        nowhere = Spot(Point.RELEASED, nth=99)
        victim = await place.victim(name, 0, nowhere, strike="SIGSTOP", lease_s=LEASE_S)
        session = await place.opened(name, [act("never", f"never-{call}") for call in range(CALLS)])
        await place.send(victim)
        await asyncio.sleep(draw.uniform(0.0, 0.2))  # no condition: the moment is what is drawn
        os.kill(child_of(victim.process.pid), signal.SIGSTOP)
        other = await place.opened(f"{name}-other")
        await check(place, other)
        async with asyncio.timeout(LIMIT_S):
            assert (await session.result(1)).status == "done"
        told = read_ledger(place.ledger, name)
        assert not told.wrongs
        assert max(told.effects.values()) == 1
        assert len(told.effects) >= CALLS - 1
        await victim.dies()


async def test_a_worker_suspended_at_any_moment_of_its_writes_hinders_nobody(place: Yard, seed: int) -> None:
    await stop_at_moments(place, random.Random(seed), MOMENTS)


@pytest.mark.full
@pytest.mark.server
async def test_a_worker_on_postgres_suspended_at_any_moment_of_its_writes_hinders_nobody(
    in_postgres: Yard, seed: int
) -> None:
    await stop_at_moments(in_postgres, random.Random(seed), 10)


def child_of(pid: int) -> int:
    """The worker beneath a supervisor."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
