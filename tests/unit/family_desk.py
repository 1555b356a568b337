"""A worker that offers several agents, so that the sessions that a loop spawns are advanced beside it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from anyio import to_thread

from outlast.adapter import Agent
from outlast.clock import Clock
from outlast.codec import encode_records
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.turn import Advancer
from outlast.gate import Gate, OpenGate
from outlast.records import FORMAT, PLAIN, AttemptOpened
from outlast.testing.faults import Killed
from outlast.world import Takeover, WorkerOffer, WorkerRow, World
from tests.nowhere import nowhere

LIMIT_S = 20.0


@dataclass
class Family:
    """Advances one session after the other: what waits must give the worker free."""

    world: World
    clock: Clock
    agents: Sequence[Agent]
    gate: Gate = field(default_factory=OpenGate)
    name: str = "worker-1"
    dead: frozenset[str] = frozenset()

    def _live(self) -> None:
        liveness = self.world.open_liveness()
        try:
            liveness.renew(WorkerRow(self.name, "", 0.0), 3600.0)
        finally:
            liveness.close()

    async def work(self) -> bool:
        """Go on until nothing is ready. Returns False if the worker died."""
        agents = {agent.name: agent for agent in self.agents}
        batcher = Batcher(self.world)
        advancer = Advancer(self.world, batcher, agents, nowhere, self.gate, self.clock, kill_grace_s=0.0)
        opened = encode_records([AttemptOpened(self.name, "here", {}, self.clock.now())])
        offer = WorkerOffer(self.name, frozenset(agents), FORMAT, dead=self.dead)
        try:
            async with asyncio.timeout(LIMIT_S):
                await to_thread.run_sync(self._live)
                while (claim := await self.world.claim(offer, Takeover(opened, 1, PLAIN))) is not None:
                    await advancer.advance(claim, Control(claim.lease.session))
        except Killed:
            return False
        finally:
            with suppress(Killed):
                await batcher.drain()
        return True
