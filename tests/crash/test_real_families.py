"""Loops that spawn sessions and begin again, under real workers and SIGKILL: each child once, each end told once."""

import asyncio
import sys
from collections.abc import AsyncGenerator

import pytest

from outlast.fold import fold
from outlast.gate import Point
from outlast.records import CallIntent, CallOutcome, ErrandDone, InputDropped, TurnContinued
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Spot
from tests.crash.loops import family
from tests.crash.real import LEASE_S, LIMIT_S, Yard, read_ledger, yard

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

DEATHS: list[tuple[Spot, ...]] = [
    (Spot(Point.AFTER_INTENT, "spawn"), Spot(Point.CHILD_OPENED, "spawn")),
    (Spot(Point.AFTER_EFFECT, "spawn", 2), Spot(Point.BEFORE_ERRAND)),
    (Spot(Point.AFTER_ERRAND), Spot(Point.BEFORE_CONTINUE), Spot(Point.AFTER_CONTINUE)),
    (Spot(Point.AFTER_EFFECT, "verify"), Spot(Point.AFTER_ERRAND, nth=2)),
]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard"), family=True) as found:
        yield found


def named(deaths: tuple[Spot, ...]) -> str:
    return "+".join(map(str, deaths))


@pytest.mark.parametrize("deaths", DEATHS, ids=named)
async def test_a_family_outlives_a_sigkill_of_whoever_carries_it(
    place: Yard, deaths: tuple[Spot, ...]
) -> None:
    name = f"family-{DEATHS.index(deaths)}"
    place.hold.touch()
    session = await Session.open(place.world, name, agent="tester")
    await session.send("go", id="in-1")
    for number, spot in enumerate(deaths):
        victim = await place.start(
            f"{name}-victim-{number}",
            spot=(str(spot.point), spot.policy, spot.nth),
            strike="SIGKILL",
            lease_s=LEASE_S,
            family=True,
        )
        victim.tell()
        await victim.says("claimed")
        victim.tell()
        await victim.says("struck")
        await victim.dies()
    place.hold.unlink()
    await check(place, session)


async def check(place: Yard, session: Session) -> None:
    """Wait for the end of the turn; then every promise that holds whatever dies when."""
    async with asyncio.timeout(LIMIT_S):
        outcome = await session.result(1)
    assert outcome.status == "done", outcome
    records = await place.records(session.id)
    intents = [one for one in records if isinstance(one, CallIntent)]
    children = (await family(place.world, session.id))[1:]
    assert sorted(one.child for one in intents) == sorted(children)
    assert [one.status for one in records if isinstance(one, CallOutcome)] == ["ok"] * 3
    assert sum(isinstance(one, TurnContinued) for one in records) == 1
    assert not any(isinstance(one, InputDropped) for one in records), "a report came twice"
    for intent, text in zip(intents, outcome.value, strict=True):
        told = read_ledger(place.ledger, intent.child)
        policy = intent.arguments.value()["prompt"]
        assert not told.wrongs
        assert text == f"{policy}-1 done" or (policy == "never" and IN_DOUBT in text)
        assert told.effects[f"{policy}-1"] == 1 or policy == "keyed"
        await told_all(place, intent.child)


async def told_all(place: Yard, child: str) -> None:
    """The child's errand is done, or will be as soon as whoever carries it has written that down."""
    async with asyncio.timeout(LIMIT_S), place.world.subscribe(child) as hints:
        while not any(isinstance(one, ErrandDone) for one in await place.records(child)):
            await hints.wait(0.1)
    state = fold(child, await place.world.commits(child))
    assert (state.turn, state.errands, state.next_turn) == (None, [], 2)
