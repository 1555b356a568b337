"""Any loop, any deaths: whatever it does and wherever its workers die, it ends as if nobody had."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, get_args

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.clock import ManualClock
from outlast.records.kinds import Ruling
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
    Fail,
    Lanes,
    Manner,
    Note,
    Program,
    Sleep,
    Spawn,
    Step,
    Take,
    Think,
    Try,
    Valued,
    check_loop,
    play_loop,
)
from tests.servers.postgres import PostgresServer

OpenWorld: TypeAlias = Callable[[ManualClock], AbstractAsyncContextManager[World]]
DAY_S = 86_400.0

works = st.builds(Act, st.sampled_from(get_args(Manner)), st.just(""))
fails = st.one_of(
    st.builds(
        Act, st.sampled_from(["never", "ask", "safe", "keyed"]), st.just(""), fails=st.just(value=True)
    ),
    st.builds(
        Await, st.just(""), st.sampled_from([1.0, 3 * DAY_S]), given=st.booleans(), early=st.booleans()
    ),
    st.builds(Spawn, st.just(""), st.booleans(), st.booleans()),
    st.builds(Fail, st.just("no more")),
)
"""What may raise something: every other program would end at its first."""
# A step of another kind is one more leaf here, which every program may then hold, and a case in `loops.Walker.step`.
leaves: st.SearchStrategy[Step] = st.one_of(
    works,
    works,
    works,
    st.builds(Think, st.just(""), st.sampled_from([0, 0, 0, 1])),
    st.builds(Take, st.sampled_from(get_args(Valued))),
    st.builds(Sleep, st.sampled_from([0.0, 0.5, 30 * DAY_S])),
    st.builds(Await, st.sampled_from(["ci", "paid", "big"]), early=st.booleans()),
    st.builds(Ask, st.just("")),
    st.builds(Spawn, st.just("")),
    st.builds(Note, st.just(""), st.sampled_from([False, False, True])),
    st.builds(Change, st.just("")),
    st.builds(Try, st.tuples(fails)),
)


def _nested(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    programs = st.lists(inner, min_size=1, max_size=3).map(tuple)
    caught = st.tuples(inner, fails, inner) | st.tuples(inner, inner)
    return st.builds(Lanes, st.lists(programs, max_size=3).map(tuple)) | st.builds(Try, caught)


steps: st.SearchStrategy[Step] = st.recursive(leaves, _nested, max_leaves=8)
begun_again: st.SearchStrategy[Step] = st.just(Again())
programs: st.SearchStrategy[Program] = (
    st.lists(steps, min_size=2, max_size=6).map(tuple)
    | st.lists(steps | begun_again, min_size=2, max_size=6).map(tuple)
    | st.tuples(steps, steps, fails)
)
longer: st.SearchStrategy[Program] = st.lists(steps | begun_again, min_size=6, max_size=16).map(tuple)
deaths = st.lists(st.integers(0, 25), min_size=1, max_size=5)
"""At which crossing each of the workers dies; the last one lives."""
more_deaths = st.lists(st.integers(0, 60), min_size=2, max_size=8)
rulings = st.lists(st.sampled_from(get_args(Ruling)), max_size=4)


def named(program: Program, numbers: "count[int]") -> Program:
    """The program with a name of its own for everything that is counted outside."""
    return tuple(_named(step, numbers) for step in program)


def _named(step: Step, numbers: "count[int]") -> Step:
    match step:
        case Note():
            return replace(step, tag=f"note <{next(numbers)}>")
        case Spawn():
            return replace(step, tag=f"spawn-{next(numbers)}", lasts=step.lasts and not step.fails)
        case _:
            return _other(step, numbers)


def _other(step: Step, numbers: "count[int]") -> Step:
    match step:
        case Act(manner=manner):
            return replace(step, tag=f"{manner} <{next(numbers)}>")
        case Think():
            return replace(step, text=f"thought <{next(numbers)}>")
        case Await(signal=""):
            return replace(step, signal=f"timed <{next(numbers)}>")
        case Ask():
            return Ask(f"question <{next(numbers)}>")
        case Change():
            return Change(f"change <{next(numbers)}>")
        case Lanes(programs=inner):
            return Lanes(tuple(named(one, numbers) for one in inner))
        case Try(steps=inner):
            return Try(named(inner, numbers))
        case _:
            return step


@asynccontextmanager
async def _memory(clock: ManualClock) -> AsyncGenerator[World]:
    async with open_memory(MemoryStore(clock)) as world:
        yield world


@asynccontextmanager
async def _sqlite(clock: ManualClock) -> AsyncGenerator[World]:
    with TemporaryDirectory() as directory:
        async with open_sqlite(Path(directory) / "world.db", clock=clock) as world:
            yield world


def _postgres(server: PostgresServer) -> OpenWorld:
    return lambda clock: open_postgres(server.new_url(), clock=clock)


def carry(open_world: OpenWorld, program: Program, where: Sequence[int], said: Sequence[Ruling]) -> None:
    """Play a program with and without deaths, and compare."""
    program = named(program, count())

    async def both() -> None:
        clock = ManualClock()
        async with open_world(clock) as world:
            uncut = await play_loop(world, clock, "uncut", program)
            await check_loop(uncut)
            assert not uncut.doubts()
            cut = await play_loop(world, clock, "cut", program, where, said)
            await check_loop(cut)
            assert cut.doubts() or cut.ended == uncut.ended

    anyio.run(both)


@given(programs, deaths, rulings)
def test_whatever_a_loop_does_and_wherever_its_workers_die(
    program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_memory, program, where, said)


@settings(max_examples=min(6, settings().max_examples // 5))
@given(programs, deaths, rulings)
def test_whatever_a_loop_does_on_sqlite_and_wherever_its_workers_die(
    program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_sqlite, program, where, said)


@pytest.mark.server
@settings(max_examples=6)
@given(programs, deaths, rulings)
def test_whatever_a_loop_does_on_postgres_and_wherever_its_workers_die(
    postgres: PostgresServer, program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_postgres(postgres), program, where, said)


@pytest.mark.full
@pytest.mark.server
@pytest.mark.timeout(600)
@settings(max_examples=150)
@given(longer, more_deaths, rulings)
def test_whatever_a_longer_loop_does_on_postgres_and_wherever_its_workers_die(
    postgres: PostgresServer, program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_postgres(postgres), program, where, said)


@pytest.mark.full
@pytest.mark.timeout(600)
@settings(max_examples=150)
@given(longer, more_deaths, rulings)
def test_whatever_a_longer_loop_does_on_sqlite_and_wherever_its_workers_die(
    program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_sqlite, program, where, said)


@pytest.mark.full
@pytest.mark.timeout(600)
@settings(max_examples=1_000)
@given(longer, more_deaths, rulings)
def test_whatever_a_longer_loop_does_and_wherever_its_workers_die(
    program: Program, where: Sequence[int], said: Sequence[Ruling]
) -> None:
    carry(_memory, program, where, said)
