"""Turns of the scripted adapter, carried by a worker in this process, and the moments of their calls."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from benchmarks.frame import Bench
from outlast.adapter import Agent, Attempt, Gateway, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.clock import SystemClock
from outlast.gateway import Open, open_gateway
from outlast.records.kinds import Policy
from outlast.session import Session
from outlast.tool import Tool, ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import World


@dataclass
class Moments:
    """When each call of a tool began."""

    began: list[float] = field(default_factory=list[float])

    def between(self) -> list[float]:
        """Seconds from each call to the next: the whole way of one call through the engine."""
        return [after - before for before, after in zip(self.began, self.began[1:], strict=False)]


Result: TypeAlias = Callable[[], str | Awaitable[str]]


def returning(result: Result, policy: Policy, moments: Moments | None = None) -> Tool:
    """A tool `work` that returns a text at once, or as soon as it is there."""

    async def work(io: ToolIO) -> str:  # noqa: ARG001 - every tool is given io
        if moments is not None:
            moments.began.append(time.perf_counter())
        text = result()
        return text if isinstance(text, str) else await text

    return tool(replay=policy)(work)


class Counting(Scripted):
    """The scripted adapter with a short result of the turn, as harnesses have it: not everything its calls returned."""

    async def advance(self, attempt: Attempt) -> TurnResult:
        await super().advance(attempt)
        return TurnResult("done", len(attempt.turn.calls))


def calling(calls: int, work: Tool, name: str = "bench") -> Agent:
    """An agent whose turn is `calls` calls of `work`, one after the other."""
    return Agent(name, Counting(script=[{"do": "tool", "name": work.name}] * calls), tools=[work])


@asynccontextmanager
async def gateway_for_nothing() -> AsyncGenerator[Gateway]:
    """A gateway for agents that ask no model."""
    async with open_gateway(upstream=Open("http://127.0.0.1:9"), clock=SystemClock()) as gateway:
        yield gateway


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds from when a worker looked for work to when it found no more."""

    wall_s: float
    process_s: float
    """On a processor, all threads."""
    loop_s: float
    """On a processor, the event loop's thread."""


async def carry(bench: Bench, world: World, agent: Agent, sessions: Sequence[str]) -> Took:
    """Open `sessions`, send each a prompt, and let a worker carry all of them to their end."""
    for name in sessions:
        session = await Session.open(world, name, agent=agent)
        await session.send("go")
    config = WorkerConfig(bench.directory / "data", concurrency=max(1, len(sessions)))
    async with (
        gateway_for_nothing() as gateway,
        open_worker(world, {agent.name: agent}, gateway, config) as worker,
    ):
        began = time.perf_counter(), time.process_time(), time.thread_time()
        await worker.work(until_idle=True)
        ended = time.perf_counter(), time.process_time(), time.thread_time()
        return Took(*(after - before for before, after in zip(began, ended, strict=True)))
