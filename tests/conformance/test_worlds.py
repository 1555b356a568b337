"""Every World that ships, held to every case of the contract."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outlast.clock import ManualClock
from outlast.testing.world_contract import (
    CASES,
    Case,
    CaseResult,
    Recipe,
    Store,
    StoreFactory,
    lacking,
    run_contract,
)
from outlast.world import Capability, World
from outlast.worlds.memory import MemoryStore, open_memory
from outlast.worlds.sqlite import open_sqlite
from outlast.worlds.sqlite.world import CAPABILITIES


class _InMemory:
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._store = MemoryStore(self._clock)

    def open(self) -> AbstractAsyncContextManager[World]:
        return open_memory(self._store)

    async def turn(self, seconds: float) -> None:
        self._clock.turn(seconds)

    def recipe(self) -> Recipe | None:
        return None


class _InPostgres:
    def __init__(self, url: str, clock: ManualClock | None) -> None:
        self._clock = clock
        self._url = url
        deaf = "pooler=" in url and "direct=" not in url
        self.capabilities = postgres.DEAF if deaf else postgres.CAPABILITIES

    def open(self) -> AbstractAsyncContextManager[World]:
        return open_postgres(self._url, clock=self._clock)

    async def turn(self, seconds: float) -> None:
        if self._clock is None:
            await anyio.sleep(seconds)
        else:
            self._clock.turn(seconds)

    def recipe(self) -> Recipe | None:
        return Recipe("outlast.worlds.postgres:open_postgres", (self._url,))


class _InFile:
    capabilities = CAPABILITIES

    def __init__(self, path: Path) -> None:
        self._clock = ManualClock()
        self._path = path

    def open(self) -> AbstractAsyncContextManager[World]:
        return open_sqlite(self._path, clock=self._clock)

    async def turn(self, seconds: float) -> None:
        self._clock.turn(seconds)

    def recipe(self) -> Recipe | None:
        return Recipe("outlast.worlds.sqlite:open_sqlite", (str(self._path),))


@asynccontextmanager
async def _memory() -> AsyncGenerator[Store]:
    yield _InMemory()


@asynccontextmanager
async def _sqlite() -> AsyncGenerator[Store]:
    with TemporaryDirectory() as directory:
        yield _InFile(Path(directory) / "data" / "world.db")


FACTORIES: dict[str, StoreFactory] = {"memory": _memory, "sqlite": _sqlite}


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("world", FACTORIES)
async def test_the_world_keeps_the_promise(world: str, case: Case) -> None:
    async with FACTORIES[world]() as store:
        if lack := lacking(case, store):
            pytest.skip(f"{world} does not claim: {lack}")
        await case.run(store)


def test_each_promise_is_made_once() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


async def test_the_contract_runs_without_a_test_framework_and_skips_visibly() -> None:
    results: list[CaseResult] = await run_contract(_memory, only="store_is_opened_again")
    assert [(result.outcome, result.detail) for result in results] == [("skipped", "durable")]
    [passed] = await run_contract(_memory, only="an_open_turn_is_ready")
    assert passed.outcome == "passed"


async def test_a_world_that_breaks_a_promise_fails_its_case() -> None:
    @asynccontextmanager
    async def forgetful() -> AsyncGenerator[Store]:
        store = _InMemory()
        store.turn = _stand_still  # pyright: ignore[reportAttributeAccessIssue] a clock that does not go
        yield store

    [failed] = await run_contract(forgetful, only="a_wake_time_wakes_a_session_without_a_turn")
    assert failed.outcome == "failed"
    assert "AssertionError" in failed.detail


async def _stand_still(_: float) -> None:
    pass
