"""How soon a loop that has made many calls goes on in another worker.

A loop of one's own makes calls, all of them finish, and it is stopped in the next. Then a fresh World and a fresh
worker take the session over: claim, log, the function from its beginning with every call answered from the
log, the open call run again. Measured from when the worker looks for work to when that call begins. The process is
there already: what one costs to start, `restart` measures.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice

import anyio

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import gateway_for_nothing
from benchmarks.texts import source_text
from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.worker import WorkerConfig, open_worker

BYTES = 4096
CALLS = 1_000
MANY = 10_000
LANES = 50
LIMIT_S = 0.3
PATIENCE_S = 240.0


async def replay(bench: Bench) -> Sequence[Row]:
    """1,000 calls in at most 0.3 s."""
    texts = list(islice(source_text(BYTES), 500))
    loop = _Loop(CALLS, lambda number: texts[number % len(texts)])
    return [await _resumed(bench, loop, bench.times(9, 4), f"{CALLS:,} finished calls, 4 KB each", LIMIT_S)]


async def replay_many(bench: Bench) -> Sequence[Row]:
    """Many more calls: what one of them adds; nothing is promised."""
    loop = _Loop(bench.times(MANY, MANY // 2), lambda _: "done", lanes=LANES)
    name = f"{loop.calls:,} finished calls in lanes of {LANES}, short results"
    return [await _resumed(bench, loop, bench.times(3, 2), name, 0.0)]


class _Loop:
    """Makes its calls, and then one that does not end."""

    def __init__(self, calls: int, result: Callable[[int], str], lanes: int = 1) -> None:
        self.calls = calls
        self._lanes = lanes
        self.held = asyncio.Event()
        self.held_s = 0.0

        @tool(replay="safe")
        async def work(io: ToolIO, number: int) -> str:  # noqa: ARG001 - every tool is given io
            return result(number)

        @tool(replay="safe")
        async def hold(io: ToolIO) -> str:  # noqa: ARG001 - every tool is given io
            self.held_s = time.perf_counter()
            self.held.set()
            await anyio.sleep_forever()
            return ""

        self.agent = Agent("looping", Loop(self._run), tools=[work, hold])

    async def _run(self, io: IO, prompt: str) -> str:
        each = self.calls // self._lanes

        async def some(lane: IO, first: int) -> None:
            for number in range(first, first + each):
                await lane.tool("work", number=number)

        if self._lanes == 1:
            await some(io, 0)
        else:
            await io.gather(*[partial(some, first=at * each) for at in range(self._lanes)])
        return str(await io.tool("hold"))


async def _resumed(bench: Bench, loop: _Loop, repeats: int, name: str, limit_s: float) -> Row:
    async with bench.open() as world:
        await (await Session.open(world, "long", agent=loop.agent)).send("go")
    building = await _carried(bench, loop)
    taken = [await _carried(bench, loop) for _ in range(repeats)]
    value = median(taken)
    return Row(
        name=f"a turn goes on after {name}",
        world=bench.world,
        value=value * 1e3,
        unit="ms",
        target=f"<= {limit_s * 1e3:,.0f} ms" if limit_s else "",
        met=value <= limit_s if limit_s else None,
        spread=spread([each * 1e3 for each in taken]),
        why=f"{value / loop.calls * 1e6:.0f} µs per call; making them took {building:.1f} s",
    )


async def _carried(bench: Bench, loop: _Loop) -> float:
    """Seconds in which a fresh worker brings the loop to the call that does not end; then it is stopped."""
    loop.held.clear()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(bench.open())
        gateway = await stack.enter_async_context(gateway_for_nothing())
        config = WorkerConfig(
            bench.directory / "data", kill_grace_s=0
        )  # nothing of the one before is still dying
        worker = await stack.enter_async_context(
            open_worker(world, {loop.agent.name: loop.agent}, gateway, config)
        )
        began_s = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.work)
            with anyio.fail_after(PATIENCE_S):
                await loop.held.wait()
            tasks.cancel_scope.cancel()
        return loop.held_s - began_s
