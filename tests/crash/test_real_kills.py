"""Every point by a real SIGKILL: a worker under its supervisor dies there, one that lives beside it goes on.

On a file and in Postgres; there a sample that the seed draws, and every point in the full product.
"""

import random
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Literal, get_args

import pytest

from outlast.gate import OF_FAMILIES, OF_FILES, Point
from outlast.testing.faults import Spot
from tests.crash.real import LEASE_S, SCRIPT, STEERED, Yard, check, took_over_s, yard
from tests.servers.pooler import pooler_to
from tests.servers.postgres import PostgresServer
from tests.servers.relay import relay_to

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

DRAWN = 4
"""Pairs of deaths that are drawn."""
SAMPLED = 2
"""Deaths in Postgres that are drawn, for each way to it."""
Way = Literal["straight", "pooled", "slow"]
"""How a Postgres is reached: straight, through a pooler in transaction mode, or over a long line."""
WAYS: tuple[Way, ...] = get_args(Way)
DELAY_S = 0.01
"""On the long line, in either direction."""
LAST_CROSSING = 45
"""A turn crosses somewhat more points than that."""
MODEL_POINTS = (
    Point.BEFORE_INTENT,
    Point.AFTER_INTENT,
    Point.IN_EFFECT,
    Point.AFTER_EFFECT,
    Point.OUTCOME_QUEUED,
    Point.AFTER_OUTCOME,
)
TOOL_SPOTS = [
    Spot(point, policy) for point in MODEL_POINTS for policy in ("never", "verify", "keyed", "safe")
]
FIRST = [
    *(Spot(point) for point in (Point.CLAIMED, Point.TURN_OPENED, Point.BEFORE_SETTLE, Point.AFTER_SETTLE)),
    *(Spot(point) for point in (Point.BEFORE_TELLING, Point.AFTER_TELLING, Point.RELEASED)),
    *(Spot(point, "model", nth) for point in MODEL_POINTS for nth in (1, 2)),
    Spot(Point.DELIVERED, "model", 2),
    *TOOL_SPOTS,
    Spot(Point.BEFORE_START, "never"),
    Spot(Point.AFTER_START, "never"),
    Spot(Point.STEER_TAKEN, "model"),
]
"""Where a worker can be struck that opens the turn."""
RECOVERY = [
    (Spot(Point.IN_EFFECT, "never"), Spot(Point.FOLDED)),
    (Spot(Point.BEFORE_INTENT, "never", 2), Spot(Point.FOLDED)),
    (Spot(Point.AFTER_EFFECT, "verify"), Spot(Point.BEFORE_VERIFY, "verify")),
    (Spot(Point.AFTER_EFFECT, "verify"), Spot(Point.AFTER_VERDICT, "verify")),
    (Spot(Point.IN_EFFECT, "verify"), Spot(Point.AFTER_VERDICT, "verify")),
    (Spot(Point.AFTER_EFFECT, "never"), Spot(Point.DOUBT_SETTLED, "never")),
    (Spot(Point.AFTER_EFFECT, "keyed"), Spot(Point.IN_EFFECT, "keyed")),
    (Spot(Point.AFTER_EFFECT, "model", 2), Spot(Point.RETRACTED)),
]
"""Where a worker can be struck that takes a turn over, and after which death."""


EVERYWHERE: list[tuple[Spot, ...]] = [*((spot,) for spot in FIRST), *RECOVERY]


def once_each() -> list[tuple[Spot, ...]]:
    """Every point once: the first spot of each, then the rest in the full product."""
    seen: set[Point] = set()
    chosen: list[tuple[Spot, ...]] = []
    for death in EVERYWHERE:
        if death[-1].point not in seen:
            seen.add(death[-1].point)
            chosen.append(death)
    assert seen == set(Point) - OF_FAMILIES - OF_FILES
    return chosen


def named(deaths: tuple[Spot, ...]) -> str:
    return "+".join(map(str, deaths))


ONCE = once_each()
REST = [death for death in EVERYWHERE if death not in ONCE]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Yard]:
    async with yard(tmp_path_factory.mktemp("yard"), tells=True) as found:
        yield found


@contextmanager
def way_to(server: PostgresServer, way: Way) -> Generator[str]:
    """A World's URL by which the server is reached in that way."""
    match way:
        case "straight":
            yield server.new_url()
        case "pooled":
            with pooler_to(server.port) as port:
                yield f"{server.url_at(port)}?schema={server.new_schema()}&pooler=transaction"
        case "slow":
            with relay_to(server.port) as relay:
                relay.delay_s = DELAY_S
                yield f"{server.url_at(relay.port)}?schema={server.new_schema()}"


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(scope="module")
async def in_postgres(
    way: Way, tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> AsyncGenerator[Yard]:
    with way_to(postgres, way) as url:
        async with yard(tmp_path_factory.mktemp("yard"), url, tells=True) as found:
            yield found


async def die_and_be_survived(place: Yard, name: str, deaths: tuple[Spot, ...]) -> None:
    place.hold.touch()
    steered = any(spot.point is Point.STEER_TAKEN for spot in deaths)
    victims = [await place.victim(name, number, spot, tells=True) for number, spot in enumerate(deaths)]
    session = await place.opened(name, STEERED if steered else SCRIPT)
    died_s = 0.0
    for victim in victims:
        await place.send(victim, last=victim is victims[-1])
        await victim.says("struck")
        died_s = await victim.dies()
    await check(place, session)
    if deaths[-1].point is not Point.RELEASED:  # else nothing was left to be done
        assert await took_over_s(place, name, "heir", died_s) < LEASE_S / 4, "it waited for the lease"


@pytest.mark.parametrize("deaths", ONCE, ids=named)
async def test_a_turn_outlives_a_sigkill_at_every_point(place: Yard, deaths: tuple[Spot, ...]) -> None:
    await die_and_be_survived(place, f"once-{ONCE.index(deaths)}", deaths)


@pytest.mark.full
@pytest.mark.parametrize("deaths", REST, ids=named)
async def test_a_turn_outlives_a_sigkill_at_every_point_for_every_policy(
    place: Yard, deaths: tuple[Spot, ...]
) -> None:
    await die_and_be_survived(place, f"rest-{REST.index(deaths)}", deaths)


@pytest.mark.server
@pytest.mark.parametrize("number", range(SAMPLED))
async def test_a_turn_in_postgres_outlives_a_sigkill_at_points_drawn_by_the_seed(
    in_postgres: Yard, way: Way, number: int, seed: int
) -> None:
    deaths = random.Random(f"{seed} {way}").sample(EVERYWHERE, SAMPLED)[number]
    await die_and_be_survived(in_postgres, f"sampled-{number}", deaths)


@pytest.mark.full
@pytest.mark.server
@pytest.mark.parametrize("deaths", EVERYWHERE, ids=named)
async def test_a_turn_in_postgres_outlives_a_sigkill_at_every_point_for_every_policy(
    in_postgres: Yard, deaths: tuple[Spot, ...]
) -> None:
    await die_and_be_survived(in_postgres, f"every-{EVERYWHERE.index(deaths)}", deaths)


async def die_twice(place: Yard, name: str, draw: random.Random) -> None:
    """Let two workers die, each at a crossing that is drawn, whatever it is."""
    moments = (draw.randrange(LAST_CROSSING), draw.randrange(LAST_CROSSING))
    place.hold.touch()
    victims = [await place.victim(name, number, moment, tells=True) for number, moment in enumerate(moments)]
    session = await place.opened(name)
    for victim in victims:
        await place.send(victim, last=victim is victims[-1])
        if victim is not victims[-1]:
            await victim.dies()
    try:
        await check(place, session)
    except AssertionError as wrong:
        wrong.add_note(f"after SIGKILL at crossings {moments}")
        raise


@pytest.mark.parametrize("number", range(DRAWN))
async def test_a_turn_outlives_two_sigkills_drawn_by_the_seed(place: Yard, number: int, seed: int) -> None:
    await die_twice(place, f"drawn-{number}", random.Random(seed + number))


@pytest.mark.server
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 10))])
async def test_a_turn_in_postgres_outlives_two_sigkills_drawn_by_the_seed(
    in_postgres: Yard, way: Way, number: int, seed: int
) -> None:
    await die_twice(in_postgres, f"drawn-{number}", random.Random(f"{seed} {way} {number}"))
