"""A worker that is given N seconds is through in time, and what it hands over goes on elsewhere."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.asgi import advance_route
from outlast.cli.durations import seconds_of
from outlast.clock import ManualClock
from outlast.engine.term import Term
from outlast.errors import SessionUnknown
from outlast.records import AttemptEnded
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.wakers.http import HttpWaker
from outlast.worker import WorkerConfig, open_worker
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import opened, records

NO_GATEWAY = cast("Gateway", None)
TOKEN = "let me in"


class Job:
    """A turn of steps, each of which takes a while."""

    def __init__(self, steps: int, step_s: float, *, timeout_s: float = 600.0) -> None:
        self.done: Counter[int] = Counter()
        self._steps = steps

        async def step(io: ToolIO, number: int) -> int:
            """Do a piece of the work."""
            await asyncio.sleep(step_s)
            self.done[number] += 1
            return number

        async def run(io: IO, prompt: str) -> object:
            return [await io.tool("step", number=number) for number in range(self._steps)]

        self.agent = Agent("tester", Loop(run), tools=[tool(timeout_s=timeout_s)(step)])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_memory() as opened:
        yield opened


def test_in_the_reserve_only_what_fits_may_begin() -> None:
    clock = ManualClock()
    term = Term(clock)
    assert term.fits(None)
    term.end_in(100.0, reserve_s=30.0)
    term.end_in(200.0)  # of two ends the earlier counts
    assert term.fits(None)
    clock.turn(70.0)
    assert (term.closing, term.fits(None), term.fits(20.0), term.fits(29.0)) == (True, False, True, False)


async def test_a_turn_that_does_not_fit_is_handed_over_and_goes_on_with_the_next(
    world: World, tmp_path: Path
) -> None:
    job = Job(steps=12, step_s=0.05)
    session = await opened(world, job.agent)
    rounds = 0
    while True:
        rounds += 1
        async with open_worker(world, {"tester": job.agent}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
            began = time.monotonic()
            left = await worker.advance(session.id, limit_s=0.4)
            assert time.monotonic() - began < 0.4
        head = await session.head()
        assert head.worker is None
        if not left.again:
            break
        assert rounds < 20
    assert rounds > 1
    assert (await session.result(1)).value == list(range(12))
    assert set(job.done.values()) == {1}  # nothing that runs is cut off, where it ends in time
    ends = [record.why for record in await records(world) if isinstance(record, AttemptEnded)]
    assert ends == ["handed_over"] * (rounds - 1)


async def test_what_still_runs_at_the_end_is_cut_off_and_said_so(world: World, tmp_path: Path) -> None:
    job = Job(steps=1, step_s=30.0)
    session = await opened(world, job.agent)
    async with open_worker(world, {"tester": job.agent}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
        with anyio.fail_after(2.0):
            left = await worker.advance(session.id, limit_s=0.3)
    assert left.again
    (end,) = [record for record in await records(world) if isinstance(record, AttemptEnded)]
    assert (end.why, end.cut) == ("handed_over", (1,))


async def test_a_tool_whose_time_out_fits_begins_in_the_reserve(world: World, tmp_path: Path) -> None:
    job = Job(steps=3, step_s=0.01, timeout_s=0.1)
    session = await opened(world, job.agent)
    async with open_worker(world, {"tester": job.agent}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
        worker.end_in(0.6, reserve_s=10.0)  # all of it is reserve
        claim = await worker.advance(session.id)
    assert claim.again  # in the reserve nothing is claimed


async def test_a_worker_that_advanced_one_session_advances_whatever_is_ready(
    world: World, tmp_path: Path
) -> None:
    job = Job(steps=1, step_s=0.0)
    session = await opened(world, job.agent)
    async with open_worker(world, {"tester": job.agent}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
        await worker.advance(session.id)
        other = await Session.open(world, "s-2", agent=job.agent)
        await other.send("go")
        await worker.advance()
    assert "done" in (await other.head()).status


async def test_a_session_that_is_not_there_is_an_error(world: World, tmp_path: Path) -> None:
    async with open_worker(world, {}, NO_GATEWAY, WorkerConfig(tmp_path)) as worker:
        with pytest.raises(SessionUnknown):
            await worker.advance("s-none", limit_s=1.0)


async def test_a_route_advances_one_session_or_what_is_ready(tmp_path: Path) -> None:
    store = MemoryStore()
    job = Job(steps=2, step_s=0.001)
    app = Starlette(
        routes=[
            advance_route(
                [job.agent], token=TOKEN, limit_s=5.0, world=lambda: open_memory(store), data=tmp_path
            )
        ]
    )
    async with open_memory(store) as world, _client(app) as client:
        session = await opened(world, job.agent)
        answer = await client.post("/outlast/advance", json={"session": session.id}, headers=_with(TOKEN))
        assert answer.json() == {"again": False, "wake_at_s": None, "status": "turn 1 done · $0.0000"}
        await session.send("again")
        swept = await client.post("/outlast/advance", headers=_with(TOKEN))
        assert swept.status_code == 200
        assert (await session.result(2)).status == "done"
        statuses = [
            (await client.post("/outlast/advance", json={"session": "s-1"})).status_code,
            (await client.post("/outlast/advance", headers=_with("guess"))).status_code,
            (await client.post("/outlast/advance", content=b"{", headers=_with(TOKEN))).status_code,
            (await client.post("/outlast/advance", content=b"x" * 20_000, headers=_with(TOKEN))).status_code,
            (
                await client.post("/outlast/advance", json={"session": "s-9"}, headers=_with(TOKEN))
            ).status_code,
        ]
        assert statuses == [401, 401, 400, 400, 404]


async def test_a_turn_goes_from_request_to_request_by_its_waker(tmp_path: Path) -> None:
    store = MemoryStore()
    job = Job(steps=8, step_s=0.05)
    woken: list[str] = []

    class Next:
        async def wake(self, tenant: str, session: str) -> None:
            woken.append(f"{tenant}/{session}")

    route = advance_route(
        [job.agent],
        token=TOKEN,
        limit_s=0.4,
        world=lambda: open_memory(store),
        data=tmp_path,
        waker=Next(),
    )
    async with open_memory(store) as world, _client(Starlette(routes=[route])) as client:
        session = await opened(world, job.agent)
        answers = 0
        while True:
            answer = await client.post("/outlast/advance", json={"session": session.id}, headers=_with(TOKEN))
            answers += 1
            if not answer.json()["again"]:
                break
        assert woken == ["default/s-1"] * (answers - 1)
        assert answers > 1
        assert (await session.result(1)).value == list(range(8))


async def test_a_waker_that_reaches_nobody_harms_nobody() -> None:
    await HttpWaker("http://127.0.0.1:9/", timeout_s=0.5).wake("default", "s-1")
    await HttpWaker("no address", timeout_s=0.5).wake("default", "s-1")


@pytest.mark.parametrize(
    ("text", "seconds"), [("840s", 840.0), ("14m", 840.0), ("1h30m", 5400.0), ("2.5", 2.5), ("500ms", 0.5)]
)
def test_a_length_of_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0", "10 parsecs", "5s5"])
def test_what_is_no_length_of_time_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        seconds_of(text)


def _with(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _client(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
