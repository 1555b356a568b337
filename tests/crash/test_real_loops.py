"""A loop of one's own under real workers: SIGKILL in calls and in waits, SIGSTOP beyond the lease while it waits."""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest

from outlast.fold import fold
from outlast.gate import Point
from outlast.records import AnyRecord, CallIntent, CallOutcome, SignalKept, TurnSettled
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Spot
from tests.crash.real import LIMIT_S, Yard, read_ledger, yard
from tests.servers.postgres import PostgresServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

LEASE_S = 1.0
GRACE_S = 0.2
TAGS = ("never-1", "verify-1", "keyed-1", "safe-1", "never-2")
EARLY: list[tuple[Spot, ...]] = [
    (Spot(Point.OUTCOME_QUEUED, "wait"),),
    (Spot(Point.AFTER_OUTCOME, "wait"),),
]
"""Where a wait ends, which in a victim it does only if its signal is there before."""
LATE: list[tuple[Spot, ...]] = [
    (Spot(Point.AFTER_INTENT, "wait"),),
    (Spot(Point.BEFORE_INTENT, "wait", 2), Spot(Point.FOLDED)),
    (Spot(Point.RELEASED),),
    (Spot(Point.IN_EFFECT, "keyed"), Spot(Point.AFTER_INTENT, "wait", 2)),
    (Spot(Point.AFTER_EFFECT, "verify"), Spot(Point.AFTER_VERDICT, "verify")),
]
"""In waits, behind the suspension of a turn that only waits, and in effects before them."""


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard"), loop=True) as found:
        yield found


@pytest.fixture(scope="module")
async def in_postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard"), postgres.new_url(), loop=True) as found:
        yield found


@pytest.fixture(scope="module")
async def short_in_postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> AsyncGenerator[Yard]:
    leases = {"lease_s": LEASE_S, "kill_grace_s": GRACE_S}
    async with yard(tmp_path_factory.mktemp("short"), postgres.new_url(), loop=True, **leases) as found:
        yield found


@pytest.fixture(scope="module")
async def short(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(
        tmp_path_factory.mktemp("short"), loop=True, lease_s=LEASE_S, kill_grace_s=GRACE_S
    ) as found:
        yield found


async def begin(place: Yard, name: str) -> Session:
    session = await Session.open(place.world, name, agent="tester")
    await session.send("go", id="in-1")
    return session


async def until(place: Yard, name: str, holds: Callable[[Sequence[AnyRecord]], bool]) -> None:
    """Wait until the log says so."""
    async with asyncio.timeout(LIMIT_S), place.world.subscribe(name) as hints:
        while not holds(await place.records(name)):
            await hints.wait(0.1)


def waits_for_ci(records: Sequence[AnyRecord]) -> bool:
    return any(isinstance(record, CallIntent) and record.name == "signal" for record in records)


async def check(place: Yard, session: Session) -> None:
    """Wait for the end of the turn; then every promise that holds whatever dies when."""
    async with asyncio.timeout(LIMIT_S):
        outcome = await session.result(1)
    told = read_ledger(place.ledger, session.id)
    assert not told.wrongs
    assert outcome.status == "done", outcome
    assert fold(session.id, await place.world.commits(session.id)).turn is None
    first, _, *plain, (safe, ci), (slept,), again, last = outcome.value
    assert (first, again, last, ci) == ("think about it", "look again", "all is well", {"run": 1})
    for tag, text in zip(TAGS, [*plain, safe, slept], strict=True):
        times = told.effects[tag]
        if text == f"{tag} done":
            assert times >= 1, tag
        else:
            assert IN_DOUBT in text, text
            assert tag.startswith("never"), f"there was no reason for doubt about {tag}"
        assert times <= 1 or tag.startswith(("safe", "keyed")), f"{tag} happened {times} times"
        assert len(told.keys[tag]) <= 1 or tag.startswith("safe"), f"{tag} had several keys"
    records = await place.records(session.id)
    kept = [record.input for record in records if isinstance(record, SignalKept)]
    taken = [record.signal for record in records if isinstance(record, CallOutcome) and record.signal]
    assert kept == taken == ["sig-1"]


async def die_and_be_survived(place: Yard, name: str, deaths: tuple[Spot, ...], *, early: bool) -> None:
    place.hold.touch()
    victims = [await place.victim(name, number, spot, loop=True) for number, spot in enumerate(deaths)]
    session = await begin(place, name)
    if early:
        await session.signal("ci", {"run": 1}, id="sig-1")
    for victim in victims:
        await place.send(victim, last=victim is victims[-1])
        await victim.says("struck")
        await victim.dies()
    if not early:
        await until(place, name, waits_for_ci)
        await session.signal("ci", {"run": 1}, id="sig-1")
    await check(place, session)


def named(deaths: tuple[Spot, ...]) -> str:
    return "+".join(map(str, deaths))


@pytest.mark.parametrize("deaths", EARLY, ids=named)
async def test_a_loop_outlives_a_sigkill_where_its_wait_ends(place: Yard, deaths: tuple[Spot, ...]) -> None:
    await die_and_be_survived(place, f"early-{EARLY.index(deaths)}", deaths, early=True)


@pytest.mark.parametrize("deaths", LATE, ids=named)
async def test_a_loop_outlives_a_sigkill_while_it_waits_and_before(
    place: Yard, deaths: tuple[Spot, ...]
) -> None:
    await die_and_be_survived(place, f"late-{LATE.index(deaths)}", deaths, early=False)


@pytest.mark.server
async def test_a_loop_in_postgres_outlives_a_sigkill_at_a_point_drawn_by_the_seed(
    in_postgres: Yard, seed: int
) -> None:
    deaths = random.Random(seed).choice([*EARLY, *LATE])
    await die_and_be_survived(in_postgres, "drawn", deaths, early=deaths in EARLY)


@pytest.mark.full
@pytest.mark.server
@pytest.mark.parametrize("deaths", [*EARLY, *LATE], ids=named)
async def test_a_loop_in_postgres_outlives_a_sigkill_in_its_waits_and_before(
    in_postgres: Yard, deaths: tuple[Spot, ...]
) -> None:
    name = f"every-{[*EARLY, *LATE].index(deaths)}"
    await die_and_be_survived(in_postgres, name, deaths, early=deaths in EARLY)


async def suspend_beyond_the_lease(short: Yard) -> None:
    name = "suspended"
    short.hold.touch()
    spot = Spot(Point.AFTER_INTENT, "wait")
    victim = await short.victim(name, 0, spot, strike="SIGSTOP", lease_s=LEASE_S, supervised=False, loop=True)
    session = await begin(short, name)
    await short.send(victim)
    await victim.says("struck")
    await session.signal("ci", {"run": 1}, id="sig-1")
    await check(short, session)
    before = await short.world.get(name)
    done = read_ledger(short.ledger, name)
    victim.process.send_signal(signal.SIGCONT)
    await victim.says("lost")
    await victim.dies()
    assert victim.process.returncode == 0
    assert (await short.world.get(name)).seq == before.seq, "it committed something"
    assert read_ledger(short.ledger, name) == done, "it did something outside"
    assert isinstance((await short.records(name))[-1], TurnSettled)


async def test_a_worker_suspended_beyond_its_lease_while_its_loop_waits_commits_nothing(short: Yard) -> None:
    await suspend_beyond_the_lease(short)


@pytest.mark.server
async def test_a_worker_suspended_beyond_its_lease_in_postgres_while_its_loop_waits_commits_nothing(
    short_in_postgres: Yard,
) -> None:
    await suspend_beyond_the_lease(short_in_postgres)
