"""Every World that ships, held to every case of the contract."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
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
from outlast.worlds.memory.world import CAPABILITIES as IN_MEMORY
from outlast.worlds.postgres import open_postgres
from outlast.worlds.postgres import world as in_postgres
from outlast.worlds.sqlite import open_sqlite
from outlast.worlds.sqlite.world import CAPABILITIES
from tests.servers.pooler import pooler_to
from tests.servers.postgres import PostgresServer


class _InMemory:
    capabilities: frozenset[Capability] = IN_MEMORY

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
        self.capabilities = in_postgres.DEAF if deaf else in_postgres.CAPABILITIES

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


SLOW_IN_A_FILE = {"a_commit_of_twenty_megabytes_lands", "five_thousand_commits_are_read_in_order"}


def _not_fast(world: str, case: Case) -> bool:
    """What starts processes, or waits for the disk most of the time."""
    return world == "sqlite" and (Capability.MULTI_PROCESS in case.needs or case.name in SLOW_IN_A_FILE)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("world", "case"),
    [
        pytest.param(
            world, case, marks=pytest.mark.crash if _not_fast(world, case) else (), id=f"{world}-{case.name}"
        )
        for world in FACTORIES
        for case in CASES
    ],
)
async def test_the_world_keeps_the_promise(world: str, case: Case) -> None:
    async with FACTORIES[world]() as store:
        await _hold(store, case)


async def _hold(store: Store, case: Case) -> None:
    if lack := lacking(case, store):
        pytest.skip(f"this World does not claim: {lack}")
    await case.run(store)


@pytest.mark.server
@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_postgres_keeps_the_promise(postgres: PostgresServer, case: Case) -> None:
    await _hold(_InPostgres(postgres.new_url(), ManualClock()), case)


TIMED = [case for case in CASES if any(word in case.name for word in ("time", "ran_out", "renew", "across"))]


@pytest.mark.server
@pytest.mark.anyio
@pytest.mark.parametrize("case", TIMED, ids=lambda case: case.name)
async def test_postgres_keeps_the_promise_by_its_own_clock(postgres: PostgresServer, case: Case) -> None:
    await _hold(_InPostgres(postgres.new_url(), None), case)


@pytest.mark.server
@pytest.mark.anyio
@pytest.mark.parametrize(
    "case",
    [
        case if number % 6 == 0 else pytest.param(case, marks=pytest.mark.full)
        for number, case in enumerate(CASES)
    ],
    ids=lambda case: case.name,
)
async def test_postgres_keeps_the_promise_behind_a_pooler(postgres: PostgresServer, case: Case) -> None:
    with pooler_to(postgres.port) as port:
        url = f"{postgres.url_at(port)}?schema={postgres.new_schema()}&pooler=transaction"
        listening = sum(case.name.encode()) % 2 or Capability.PUSH in case.needs
        direct = f"&direct=127.0.0.1:{postgres.port}" if listening else ""
        await _hold(_InPostgres(url + direct, ManualClock()), case)


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
