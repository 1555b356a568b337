"""Where the engine's tests work: agents made of a few tools, and a worker reduced to claim and advance."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Any

from outlast.adapter import Adapter, Agent
from outlast.adapters.scripted import Scripted
from outlast.clock import Clock, SystemClock
from outlast.codec import encode_records
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.spacing import Spacing
from outlast.engine.turn import Advancer, OpenSurroundings
from outlast.fold import records_of
from outlast.gate import Gate, OpenGate
from outlast.notify import Notifier
from outlast.records import FORMAT, PLAIN, AnyRecord, AttemptOpened
from outlast.session import Session
from outlast.tool import Tool
from outlast.tracing import Collector
from outlast.world import Claim, Takeover, WorkerOffer, WorkerRow, World
from tests.nowhere import nowhere

LIMIT_S = 20.0


def call(name: str, **arguments: object) -> dict[str, Any]:
    """A step of a script."""
    return {"do": "tool", "name": name, "arguments": arguments}


def say(text: str, *tools: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a script."""
    return {"do": "model", "text": text, "tools": list(tools)}


def agent_of(script: Sequence[Mapping[str, Any]], *tools: Tool, adapter: Adapter | None = None) -> Agent:
    return Agent("tester", adapter or Scripted(script=script), tools=tools)


@dataclass
class Desk:
    """Claims and advances in a World."""

    world: World
    clock: Clock = field(default_factory=SystemClock)
    gate: Gate = field(default_factory=OpenGate)
    name: str = "worker-1"
    dead: frozenset[str] = frozenset()
    claims: list[Claim] = field(default_factory=list[Claim])
    control: Control = field(default_factory=Control)
    notifier: Notifier | None = None
    collector: Collector | None = None
    spacing: Callable[[], Spacing] = Spacing
    surroundings: OpenSurroundings = nowhere

    async def work(self, agent: Agent) -> None:
        """Go on until nothing is ready."""
        async with asyncio.timeout(LIMIT_S):
            while (claim := await self.claim(agent)) is not None:
                await self.advance(claim, agent)

    async def claim(self, agent: Agent) -> Claim | None:
        with closing(self.world.open_liveness()) as liveness:
            liveness.renew(WorkerRow(self.name, "", 0.0), 3600.0)
        opened = AttemptOpened(self.name, "here", {}, self.clock.now())
        offer = WorkerOffer(self.name, frozenset({agent.name}), FORMAT, dead=self.dead)
        claim = await self.world.claim(offer, Takeover(encode_records([opened]), 1, PLAIN))
        if claim is not None:
            self.claims.append(claim)
        return claim

    async def advance(self, claim: Claim, agent: Agent) -> None:
        self.control = Control(claim.lease.session)
        batcher = Batcher(self.world)
        advancer = Advancer(
            self.world,
            batcher,
            {agent.name: agent},
            self.surroundings,
            self.gate,
            self.clock,
            kill_grace_s=0.0,
            notifier=self.notifier,
            collector=self.collector,
            spacing=self.spacing,
        )
        try:
            await advancer.advance(claim, self.control)
        finally:
            await batcher.drain()

    async def work_once(self, agent: Agent) -> None:
        """Claim once and advance that."""
        claim = await self.claim(agent)
        assert claim is not None
        await self.advance(claim, agent)

    @asynccontextmanager
    async def working(self, agent: Agent, *, once: bool = False) -> AsyncGenerator["asyncio.Task[None]"]:
        """It works meanwhile; when the context ends it is stopped."""
        job = self.work_once(agent) if once else self.work(agent)
        task = asyncio.get_running_loop().create_task(job)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


async def opened(world: World, agent: Agent, session: str = "s-1", *prompts: str) -> Session:
    """A session that waits to be worked on."""
    found = await Session.open(world, session, agent=agent)
    for number, prompt in enumerate(prompts or ("go",), 1):
        await found.send(prompt, id=f"in-{number}")
    return found


async def records(world: World, session: str = "s-1") -> list[AnyRecord]:
    """Everything in its log."""
    return [record for commit in await world.commits(session) for record in records_of(session, commit)]


async def until(holds: Callable[[], object]) -> None:
    """Return as soon as it holds."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)
