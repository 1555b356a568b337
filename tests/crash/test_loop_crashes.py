"""A loop of one's own whose worker dies, or is suspended beyond its lease: in calls of each policy, waits and lanes."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.errors import NothingCame
from outlast.fold import CallState
from outlast.gate import OF_FAMILIES, OF_FILES, OF_TELLING, Point
from outlast.records.kinds import Ruling
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.crash.loops import (
    Act,
    Again,
    Ask,
    Await,
    Change,
    Lanes,
    LoopPlay,
    Note,
    Program,
    Sleep,
    Spawn,
    Take,
    Think,
    Try,
    check_loop,
    play_loop,
)
from tests.servers.postgres import PostgresServer
from tests.unit.engine_desk import Desk, opened, until

DAY_S = 86_400.0
DRAWN = 10
"""Deaths, or pairs of them, that are drawn."""
FEW = 3
"""As many of them as the fast set has time for."""
PARTS = 8
"""What the full product is cut into, for several processes."""
LOOP: Program = (
    Think("what is there to do <1>"),
    Take("uuid"),
    Note("note-1"),
    Try((Note("note-2", rejected=True),)),
    Try((Act("never", "never-1"),)),
    Lanes(
        (
            (Act("verify", "verify-1"), Await("ci", early=True)),
            (Act("keyed", "keyed-1"), Note("note-3"), Try((Act("safe", "safe-1", fails=True),))),
            (Await("ci"), Take("random"), Think("look again <2>", failures=1)),
        )
    ),
    Try((Await("late", timeout_s=DAY_S, given=False),)),
    Ask("May I?"),
    Sleep(30 * DAY_S),
    Try((Act("ask", "ask-1"),)),
    Try((Act("asked", "asked-1"),)),
    Try((Act("verify-unsure", "unsure-1"),)),
    Change("later"),
    Think("all is well <3>"),
)
"""Everything that a loop can do by itself."""
FAMILY: Program = (
    Take("uuid"),
    Lanes(((Spawn("spawn-1"), Act("keyed", "keyed-1")), (Try((Spawn("spawn-2", fails=True),)),))),
    Again(),
    Take("random"),
    Try((Spawn("spawn-3", lasts=True),)),
)
"""What it does with others, and beginning again."""
NOT_OF_LOOPS = {Point.BEFORE_START, Point.AFTER_START, Point.STEER_TAKEN}
"""The worker itself begins a loop's tools; and a loop takes no steers."""
OF_WAITS = {Point.BEFORE_INTENT, Point.AFTER_INTENT, Point.OUTCOME_QUEUED, Point.AFTER_OUTCOME}
OF_EFFECTS = {Point.IN_EFFECT, Point.AFTER_EFFECT}
OF_SPAWNS = {Point.BEFORE_INTENT, Point.AFTER_INTENT, Point.CHILD_OPENED, *OF_EFFECTS}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(clock: ManualClock) -> AsyncGenerator[World]:
    async with open_memory(MemoryStore(clock)) as opened:
        yield opened


async def carried(
    world: World, clock: ManualClock, name: str, *deaths: Spot, loop: Program = LOOP
) -> LoopPlay:
    again: list[Ruling] = ["run_again", "run_again", "run_again"]
    played = await play_loop(world, clock, name, loop, deaths, again)
    try:
        await check_loop(played)
        assert len(played.lives) == len(deaths) + 1
        assert played.outcome.status == "done"
    except AssertionError as wrong:
        wrong.add_note(f"after deaths at {[str(spot) for spot in deaths]}")
        raise
    return played


def differs_by_doubt(cut: LoopPlay, uncut: LoopPlay) -> bool:
    """Whether it ended otherwise than if nobody had died, and not only by what is said about a call in doubt."""
    pairs = zip(cut.outcome.value, uncut.outcome.value, strict=True)
    return any(mine != other and IN_DOUBT not in str(mine) for mine, other in pairs)


async def die_at(
    world: World,
    clock: ManualClock,
    where: Callable[[list[Spot]], list[Spot]],
    loop: Program = LOOP,
) -> None:
    """Compare lives that are cut at some of their spots with one that is not."""
    uncut = await carried(world, clock, "uncut", loop=loop)
    assert not uncut.doubts()
    for number, spot in enumerate(where(uncut.crossed)):
        cut = await carried(world, clock, f"cut-{number}", spot, loop=loop)
        assert not differs_by_doubt(cut, uncut), str(spot)
        assert cut.ended == uncut.ended or cut.doubts(), str(spot)


@pytest.mark.parametrize("loop", [LOOP, FAMILY], ids=["alone", "with others"])
async def test_a_loop_outlives_its_worker_at_points_drawn_by_the_seed(
    clock: ManualClock, world: World, seed: int, loop: Program
) -> None:
    await die_at(world, clock, lambda crossed: random.Random(seed).sample(crossed, DRAWN), loop)


@pytest.mark.crash
async def test_a_loop_outlives_its_worker_at_every_point(clock: ManualClock, world: World) -> None:
    await die_at(world, clock, lambda crossed: crossed)


@pytest.mark.crash
async def test_a_loop_and_what_it_spawns_outlive_their_worker_at_every_point(
    clock: ManualClock, world: World
) -> None:
    await die_at(world, clock, lambda crossed: crossed, FAMILY)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_loop_and_what_it_spawns_outlive_their_worker_at_every_point_on_sqlite(
    clock: ManualClock, tmp_path: Path
) -> None:
    async with open_sqlite(tmp_path / "world.db", clock=clock) as world:
        await die_at(world, clock, lambda crossed: crossed, FAMILY)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_loop_and_what_it_spawns_outlive_a_second_death_at_every_point_of_the_recovery(
    clock: ManualClock, part: int
) -> None:
    async with open_memory(MemoryStore(clock)) as world:
        uncut = await carried(world, clock, "uncut", loop=FAMILY)
        recoveries = [
            (first, (await carried(world, clock, f"cut-{at}", first, loop=FAMILY)).crossed)
            for at, first in enumerate(uncut.crossed)
            if at % PARTS == part
        ]
    for first, crossed in recoveries:
        async with open_memory(
            MemoryStore(clock)
        ) as world:  # a World of its own, since families are looked for
            for at, second in enumerate(crossed):
                cut = await carried(world, clock, f"cut-{at}", first, second, loop=FAMILY)
                assert cut.ended == uncut.ended, f"{first}, {second}"


@pytest.mark.crash
async def test_a_loop_on_sqlite_outlives_its_worker_at_points_drawn_by_the_seed(
    clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    async with open_sqlite(tmp_path / "world.db", clock=clock) as world:
        await die_at(world, clock, lambda crossed: random.Random(seed).sample(crossed, DRAWN))


@pytest.mark.full
async def test_a_loop_on_sqlite_outlives_its_worker_at_every_point(
    clock: ManualClock, tmp_path: Path
) -> None:
    async with open_sqlite(tmp_path / "world.db", clock=clock) as world:
        await die_at(world, clock, lambda crossed: crossed)


@pytest.mark.server
async def test_a_loop_on_postgres_outlives_its_worker_at_points_drawn_by_the_seed(
    clock: ManualClock, postgres: PostgresServer, seed: int
) -> None:
    async with open_postgres(postgres.new_url(), clock=clock) as world:
        await die_at(world, clock, lambda crossed: random.Random(seed).sample(crossed, DRAWN))


@pytest.mark.full
@pytest.mark.server
async def test_a_loop_on_postgres_outlives_its_worker_at_every_point(
    clock: ManualClock, postgres: PostgresServer
) -> None:
    async with open_postgres(postgres.new_url(), clock=clock) as world:
        await die_at(world, clock, lambda crossed: crossed)


@pytest.mark.crash
async def test_a_loop_crosses_every_point_that_concerns_it(clock: ManualClock, world: World) -> None:
    uncut = await carried(world, clock, "uncut")
    effects = [spot for spot in uncut.crossed if spot.point is Point.IN_EFFECT]
    cut = [await carried(world, clock, f"cut-{at}", spot) for at, spot in enumerate(effects)]
    crossed = {(spot.point, spot.policy) for played in (uncut, *cut) for spot in played.crossed}
    assert {point for point, _ in crossed} == set(Point) - NOT_OF_LOOPS - OF_TELLING - OF_FAMILIES - OF_FILES
    for policy in ("model", "never", "keyed", "safe", "verify"):
        assert {point for point, of in crossed if of == policy} >= {*OF_WAITS, *OF_EFFECTS}
    assert {point for point, of in crossed if of == "wait"} == OF_WAITS
    family = (await carried(world, clock, "family", loop=FAMILY)).crossed
    assert {spot.point for spot in family} >= OF_FAMILIES
    assert {spot.point for spot in family if spot.policy == "spawn"} == OF_SPAWNS


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_loop_outlives_a_second_death_at_every_point_of_the_recovery(
    clock: ManualClock, world: World, part: int
) -> None:
    uncut = await carried(world, clock, "uncut")
    for number, first in enumerate(uncut.crossed):
        if number % PARTS == part:
            recovery = await carried(world, clock, f"cut-{number}", first)
            for again, second in enumerate(recovery.crossed):
                cut = await carried(world, clock, f"cut-{number}-{again}", first, second)
                assert not differs_by_doubt(cut, uncut), f"{first}, {second}"


@pytest.mark.parametrize("pairs", [FEW, pytest.param(DRAWN, marks=pytest.mark.crash)])
async def test_a_loop_outlives_pairs_of_deaths_drawn_by_the_seed(
    clock: ManualClock, world: World, seed: int, pairs: int
) -> None:
    draw = random.Random(seed)
    uncut = await carried(world, clock, "uncut")
    for number in range(pairs):
        first = draw.choice(uncut.crossed)
        recovery = await carried(world, clock, f"cut-{number}", first)
        second = draw.sample(recovery.crossed, min(1, len(recovery.crossed)))  # none: nothing was left
        cut = await carried(world, clock, f"again-{number}", first, *second)
        assert not differs_by_doubt(cut, uncut), f"{first}, {second}"


class Held:
    """A loop in two lanes: one waits, the other has a tool that does not end in its first attempt."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.paid = 0
        self._first = 0

    def agent(self) -> Agent:
        @tool(replay="safe")
        async def slow(io: ToolIO) -> str:
            """Take some time."""
            self._first = self._first or io.attempt
            self.begun.set()
            if io.attempt == self._first:
                await self.go_on.wait()
            return "slow"

        @tool
        async def pay(io: ToolIO) -> str:
            """Pay once."""
            self.paid += 1
            return "paid"

        async def waits(lane: IO) -> object:
            with suppress(NothingCame):
                await lane.wait_for("ci", timeout_s=DAY_S)
            return await lane.tool(pay)

        async def run(io: IO, prompt: str) -> object:
            return await io.gather(waits, lambda lane: lane.tool(slow))

        return Agent("tester", Loop(run), tools=[slow, pay])


@asynccontextmanager
async def victim_that_waits(world: World, clock: ManualClock, held: Held) -> AsyncGenerator[Desk]:
    """A worker whose attempt waits for a signal and holds a tool."""
    desk = Desk(world, clock)
    async with desk.working(held.agent(), once=True):
        await held.begun.wait()
        await until(lambda: desk.control.writer is not None and len(_waits(desk)) == 1)
        yield desk


def _waits(desk: Desk) -> list[CallState]:
    writer = desk.control.writer
    assert writer is not None
    assert writer.state.turn is not None
    return [call for call in writer.state.turn.open_calls() if call.intent.kind == "wait"]


@pytest.mark.parametrize("ends_by", ["signal", "time"])
async def test_an_attempt_whose_lease_another_has_commits_nothing_when_its_wait_ends(
    clock: ManualClock, world: World, ends_by: str
) -> None:
    """As after SIGSTOP: it learns of nothing, and wakes when the turn is over."""
    held = Held()
    session = await opened(world, held.agent())
    async with victim_that_waits(world, clock, held) as victim:
        heir = Desk(world, clock, name="worker-2", dead=frozenset({"worker-1"}))
        await heir.work(held.agent())
        assert (await session.head()).status.startswith("turn 1 waiting")
        if ends_by == "signal":
            await session.signal("ci", "green")
        else:
            clock.turn(DAY_S)
        await heir.work(held.agent())
        assert (await session.result(1)).value == ["paid", "slow"]
        seq = (await session.head()).seq
        held.go_on.set()
        await until(lambda: victim.control.writer is not None and victim.control.writer.lost is not None)
    assert (await session.head()).seq == seq
    assert held.paid == 1
    fences = [commit.header.fence for commit in await world.commits("s-1")]
    assert fences == sorted(fences)


async def test_an_attempt_that_loses_its_lease_while_it_waits_commits_nothing(
    clock: ManualClock, world: World
) -> None:
    held = Held()
    session = await opened(world, held.agent())
    async with victim_that_waits(world, clock, held) as victim:
        await until(lambda: victim.control.writer is not None and victim.control.writer.unlanded == {})
        seq = await settled_seq(session)
        victim.control.lose("a test took it away")
        await session.signal("ci", "green")
        held.go_on.set()
        await until(lambda: victim.control.context is None or victim.control.context.closed)
    assert (await session.head()).seq == seq
    assert held.paid == 0
    await Desk(world, clock, name="worker-2", dead=frozenset({"worker-1"})).work(held.agent())
    assert (await session.result(1)).value == ["paid", "slow"]
    assert held.paid == 1


async def settled_seq(session: Session) -> int:
    """The newest commit, once what was under way has landed: the intent of the wait and of the tool."""
    async with asyncio.timeout(5.0):
        while True:
            state = await session.state()
            if state.turn is not None and len(state.turn.calls) == 2:
                return state.seq
            await asyncio.sleep(0.005)
