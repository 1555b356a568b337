"""Every point, every policy, every shape of call: a worker dies there and another one carries the turn on."""

import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from outlast.gate import OF_FAMILIES, OF_FILES, Point
from outlast.testing.faults import Spot
from outlast.world import World
from outlast.worlds.memory import open_memory
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.at_once import at_once
from tests.crash.plays import Play, check, check_steer, play, read_from, screen_of
from tests.crash.stage import MANNERS, SHAPES, Manner, Shape, script_of
from tests.servers.postgres import PostgresServer

PAIRS = 40
"""Pairs of deaths that are drawn in memory; elsewhere the full product draws them."""
DRAWN = 5
"""Points of each scene at which the fast set kills."""
IN_FILE: tuple[tuple[Shape, Manner], ...] = (("batch", "never"), ("asked", "safe"), ("built-in", "never"))
"""Scenes that the fast set plays in a file too."""

T = TypeVar("T")


@asynccontextmanager
async def open_named(name: str, request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    """A fresh World by its name; a server is started when the first scene needs it."""
    match name:
        case "memory":
            opened: AbstractAsyncContextManager[World] = open_memory()
        case "sqlite":
            directory: Path = request.getfixturevalue("tmp_path")
            opened = open_sqlite(directory / "world.db")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            opened = open_postgres(server.new_url())
    async with opened as world:
        yield world


IN_POSTGRES = [pytest.mark.server]
Scene = tuple[Shape, Manner]


def scenes() -> list[Scene]:
    few: dict[Shape, tuple[Manner, ...]] = {
        "built-in": ("never", "safe"),
        "slow": ("never", "safe"),
        "steered": ("never",),
        "told": ("never", "safe"),
    }
    return [(shape, manner) for shape in SHAPES for manner in few.get(shape, MANNERS)]


def in_every_world() -> list[object]:
    """Every scene in memory; elsewhere those that differ in what they wait for, the rest in the full product."""
    small = {
        ("single", "never"),
        ("batch", "never"),
        ("asked", "safe"),
        ("built-in", "never"),
        ("told", "safe"),
    }
    return [
        *(pytest.param("memory", *scene) for scene in scenes()),
        *(
            pytest.param("sqlite", *scene, marks=() if scene in small else pytest.mark.full)
            for scene in scenes()
        ),
        *(
            pytest.param(
                "postgres", *scene, marks=IN_POSTGRES if scene in small else [*IN_POSTGRES, pytest.mark.full]
            )
            for scene in scenes()
        ),
    ]


async def play_scene(world: World, name: str, scene: Scene, *deaths: Spot) -> Play:
    shape, manner = scene
    script = script_of(shape, manner)
    return await play(world, name, script, deaths, slow=shape == "slow", told=shape == "told")


async def carried(world: World, name: str, scene: Scene, *deaths: Spot) -> Play:
    played = await play_scene(world, name, scene, *deaths)
    try:
        await (check_steer if scene[0] == "steered" else check)(played)
        assert len(played.lives) == len(deaths) + 1
    except AssertionError as wrong:
        wrong.add_note(f"after deaths at {[str(spot) for spot in deaths]}")
        raise
    return played


async def all_of(scene: Scene, plays: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Plays of one scene: at once where most of a play is waiting.

    Elsewhere one after the other, since a play that is repeated up to its second death has to take the same course: the
    steps of others between its own would let its timers come sooner.
    """
    if scene[0] in {"slow", "steered"}:
        return await at_once(plays)
    return [await play for play in plays]


def first_turn(played: Play) -> list[Spot]:
    """Where a worker can be struck up to the end of the first turn; a steer that nobody took makes another."""
    crossed = played.crossed
    ends = [place for place, spot in enumerate(crossed) if spot.point is Point.AFTER_SETTLE]
    return crossed if len(ends) < 2 else crossed[: ends[0] + 1]


def calm_lines(played: Play) -> list[str]:
    """The screen without the numbers of calls: two intents of one batch may come in either order."""
    return sorted(line.split(" ", 1)[1] for line in played.screen().lines())


async def die_at(world: World, scene: Scene, where: Callable[[list[Spot]], list[Spot]]) -> None:
    """Compare turns that are cut at some of their spots with one that is not."""
    uncut = await carried(world, "uncut", scene)

    async def cut(number: int, spot: Spot) -> None:
        played = await carried(world, f"cut-{number}", scene, spot)
        outcomes = played.outside.witness.finished[f"cut-{number}"].values()
        if scene[0] != "steered" and all(outcome.status == "ok" for outcome in outcomes):
            assert calm_lines(played) == calm_lines(uncut), str(spot)

    await all_of(scene, (cut(number, spot) for number, spot in enumerate(where(first_turn(uncut)))))


@pytest.mark.crash
@pytest.mark.parametrize(("world_name", "shape", "manner"), in_every_world())
async def test_a_turn_outlives_its_worker_at_every_point(
    world_name: str, shape: Shape, manner: Manner, request: pytest.FixtureRequest
) -> None:
    async with open_named(world_name, request) as world:
        await die_at(world, (shape, manner), lambda crossed: crossed)


@pytest.mark.parametrize(
    ("world_name", "shape", "manner"),
    [*(("memory", *scene) for scene in scenes()), *(("sqlite", *scene) for scene in IN_FILE)],
)
async def test_a_turn_outlives_its_worker_at_points_drawn_by_the_seed(
    world_name: str, shape: Shape, manner: Manner, request: pytest.FixtureRequest, seed: int
) -> None:
    draw = random.Random(f"{seed}-{shape}-{manner}")
    async with open_named(world_name, request) as world:
        await die_at(world, (shape, manner), lambda crossed: draw.sample(crossed, min(DRAWN, len(crossed))))


@pytest.mark.parametrize(
    ("shape", "manner"),
    [
        pytest.param(*scene, marks=() if scene == ("asked", "verify") else pytest.mark.full)
        for scene in scenes()
    ],
)
async def test_a_turn_with_a_snapshot_in_every_commit_outlives_its_worker_at_every_point(
    shape: Shape, manner: Manner
) -> None:
    scene = (shape, manner)
    async with open_memory() as world:
        uncut = await play_scene(world, "uncut", scene)
        for number, spot in enumerate(first_turn(uncut)):
            played = await play(
                world, f"cut-{number}", script_of(*scene), [spot], slow=shape == "slow", dense=True
            )
            await (check_steer if shape == "steered" else check)(played)
        assert (await world.get("cut-1")).snapshot_seq


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "manner"), scenes())
async def test_a_turn_outlives_a_second_death_at_every_point_of_the_recovery(
    shape: Shape, manner: Manner
) -> None:
    scene = (shape, manner)
    async with open_memory() as world:
        uncut = await carried(world, "uncut", scene)
        for number, first in enumerate(first_turn(uncut)):
            recovery = await carried(world, f"cut-{number}", scene, first)
            seconds = enumerate(first_turn(recovery))
            await all_of(
                scene,
                (carried(world, f"cut-{number}-{again}", scene, first, spot) for again, spot in seconds),
            )


@pytest.mark.parametrize(
    ("world_name", "pairs"),
    [
        ("memory", PAIRS // 4),
        pytest.param("memory", PAIRS, marks=pytest.mark.crash),
        pytest.param("sqlite", PAIRS, marks=pytest.mark.full),
        pytest.param("postgres", PAIRS, marks=[*IN_POSTGRES, pytest.mark.full]),
    ],
)
async def test_a_turn_outlives_pairs_of_deaths_drawn_by_the_seed(
    world_name: str, pairs: int, request: pytest.FixtureRequest, seed: int
) -> None:
    draw = random.Random(seed)
    drawn: dict[Scene, list[int]] = defaultdict(list)
    for number in range(pairs):
        drawn[draw.choice([scene for scene in scenes() if scene[0] != "steered"])].append(number)
    async with open_named(world_name, request) as world:

        async def twice_cut(scene: Scene, number: int) -> None:
            draw = random.Random(f"{seed}-{number}")
            uncut = await play_scene(world, f"uncut-{number}", scene)
            first = draw.choice(uncut.crossed)
            recovery = await play_scene(world, f"cut-{number}", scene, first)
            second = draw.sample(recovery.crossed, min(1, len(recovery.crossed)))  # none: nothing was left
            await carried(world, f"again-{number}", scene, first, *second)

        for scene, numbers in drawn.items():
            await all_of(scene, (twice_cut(scene, number) for number in numbers))


@pytest.mark.crash
async def test_every_point_is_crossed_by_some_turn_or_its_recovery() -> None:
    crossed: set[Point] = set()
    async with open_memory() as world:
        for number, scene in enumerate(scenes()):
            uncut = await play_scene(world, f"uncut-{number}", scene)
            spots = [spot for spot in uncut.crossed if spot.point is Point.IN_EFFECT]
            recoveries = await all_of(
                scene,
                (play_scene(world, f"cut-{number}-{again}", scene, spot) for again, spot in enumerate(spots)),
            )
            crossed.update(spot.point for played in (uncut, *recoveries) for spot in played.crossed)
    assert crossed == set(Point) - OF_FAMILIES - OF_FILES


@pytest.mark.parametrize(
    "world_name",
    [
        "memory",
        pytest.param("sqlite", marks=pytest.mark.full),
        pytest.param("postgres", marks=[*IN_POSTGRES, pytest.mark.full]),
    ],
)
async def test_a_watcher_cut_at_every_cursor_sees_what_an_uncut_one_sees(
    world_name: str, request: pytest.FixtureRequest
) -> None:
    scene: Scene = ("slow", "never")
    async with open_named(world_name, request) as world:
        uncut = await play_scene(world, "uncut", scene)
        cut = await at_once(
            play_scene(world, f"cut-{number}", scene, spot) for number, spot in enumerate(uncut.crossed)
        )
        for number, (spot, played) in enumerate(zip(uncut.crossed, cut, strict=True)):
            for at, event in enumerate(played.seen[:-1]):
                rest = await read_from(world, f"cut-{number}", event.cursor)
                screen = screen_of([*played.seen[: at + 1], *rest])
                assert screen.lines() == played.screen().lines(), f"{spot}, cut after {event.cursor}"
                cursors = [seen.cursor for seen in played.seen[at + 1 :]]
                assert [seen.cursor for seen in rest] == cursors, f"{spot}, cut after {event.cursor}"
        assert {"call.text", "call.output", "call.retracted"} <= {
            event.kind for played in cut for event in played.seen
        }
