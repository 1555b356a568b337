"""How soon a loop that has made many calls goes on in another worker.

A loop of one's own makes calls, all of them finish, and it is stopped in the next. Then a fresh World and a fresh
worker take the session over: claim, log, the function from its beginning with every call answered from the
log, the open call run again. Measured from when the worker looks for work to when that call begins. The process is
there already: what one costs to start, `restart` measures.
"""

import asyncio
import gc
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice

import anyio

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.long_log import write_turn
from benchmarks.stage import gateway_for_nothing
from benchmarks.texts import source_text
from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.worker import WorkerConfig, open_worker

BYTES = 4096
CALLS = 1_000
MANY = 100_000
LIMIT_S = 0.3
MANY_LIMIT_S = 1.0
PATIENCE_S = 240.0


async def replay(bench: Bench) -> Sequence[Row]:
    """1,000 calls in at most 0.3 s."""
    texts = list(islice(source_text(BYTES), 500))
    loop = _Loop(CALLS, lambda number: texts[number % len(texts)])
    # No more repeats: a turn whose attempts settle nothing is parked as stuck.
    return [await _resumed(bench, loop, 4, f"{CALLS:,} finished calls, 4 KB each", LIMIT_S)]


async def replay_many(bench: Bench) -> Sequence[Row]:
    """100,000 calls in at most 1 s of a processor: of the wall clock where the machine does nothing else."""
    loop = _Loop(MANY, lambda _: "done")
    async with bench.open() as world:
        await write_turn(world, "long", loop.agent, loop.calls, "work")
        log = await world.get("long")
    taken = [await _carried(bench, loop) for _ in range(bench.times(5, 3))]
    value = min(one.process_s for one in taken)
    return [
        Row(
            name=f"a turn goes on after {loop.calls:,} finished calls, short results; on a processor",
            world=bench.world,
            value=value * 1e3,
            unit="ms",
            target=f"<= {MANY_LIMIT_S * 1e3:,.0f} ms",
            met=value <= MANY_LIMIT_S,
            spread=spread([one.process_s * 1e3 for one in taken]),
            why=f"{value / loop.calls * 1e6:.1f} µs per call; by the clock {min(one.wall_s for one in taken):.2f} s; "
            f"newest snapshot {log.seq - log.snapshot_seq} commits back; process {_most_memory():,.0f} MB",
        )
    ]


def _most_memory() -> float:
    """The most that this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(frozen=True, slots=True)
class _Taken:
    """Seconds, by the clock and on a processor."""

    wall_s: float
    process_s: float


def _now() -> _Taken:
    return _Taken(time.perf_counter(), time.process_time())


class _Loop:
    """Makes its calls, and then one that does not end."""

    def __init__(self, calls: int, result: Callable[[int], str]) -> None:
        self.calls = calls
        self.held = asyncio.Event()
        self.at = _Taken(0.0, 0.0)
        """When it was held."""

        @tool(replay="safe")
        async def work(io: ToolIO, number: int) -> str:  # noqa: ARG001 - every tool is given io
            return result(number)

        @tool(replay="safe")
        async def hold(io: ToolIO) -> str:  # noqa: ARG001 - every tool is given io
            self.at = _now()
            self.held.set()
            await anyio.sleep_forever()
            return ""

        self.agent = Agent("looping", Loop(self._run), tools=[work, hold])

    async def _run(self, io: IO, prompt: str) -> str:
        for number in range(self.calls):
            await io.tool("work", number=number)
        return str(await io.tool("hold"))


async def _resumed(bench: Bench, loop: _Loop, repeats: int, name: str, limit_s: float) -> Row:
    async with bench.open() as world:
        await (await Session.open(world, "long", agent=loop.agent)).send("go")
    building = (await _carried(bench, loop)).wall_s
    taken = [(await _carried(bench, loop)).wall_s for _ in range(repeats)]
    value = median(taken)
    return Row(
        name=f"a turn goes on after {name}",
        world=bench.world,
        value=value * 1e3,
        unit="ms",
        target=f"<= {limit_s * 1e3:,.0f} ms",
        met=value <= limit_s,
        spread=spread([each * 1e3 for each in taken]),
        why=f"{value / loop.calls * 1e6:.0f} µs per call; making them took {building:.1f} s",
    )


async def _carried(bench: Bench, loop: _Loop) -> _Taken:
    """What it takes a fresh worker to bring the loop to the call that does not end; then it is stopped."""
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
        gc.collect()
        began = _now()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.work)
            with anyio.fail_after(PATIENCE_S):
                await loop.held.wait()
            tasks.cancel_scope.cancel()
        return _Taken(loop.at.wall_s - began.wall_s, loop.at.process_s - began.process_s)
