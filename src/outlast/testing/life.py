"""A worker reduced to claim and advance, for turns that are killed in this process."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from outlast.adapter import Agent, Attempt, Dialogue, Places
from outlast.clock import Clock
from outlast.codec import encode_records
from outlast.engine.attempt import Surroundings
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.turn import Advancer
from outlast.errors import BadInput
from outlast.gate import Gate, OpenGate
from outlast.records import FORMAT, PLAIN, AttemptOpened
from outlast.world import Claim, Takeover, WorkerOffer, WorkerRow, World

LEASE_S: Final = 10 * 365 * 86_400.0
"""Longer than any turn's clock is turned: a worker ends by dying, and those after it are told."""


@dataclass(frozen=True, slots=True)
class Life:
    """One worker, from its first claim to its death or until nothing is left to do.

    Args:
        dead: workers that have died, whose sessions may be taken over at once.
    """

    world: World
    clock: Clock
    gate: Gate = field(default_factory=OpenGate)
    name: str = "worker"
    dead: frozenset[str] = frozenset()
    only: str | None = None
    """The one session that it advances; None for any."""

    async def work(self, agent: Agent) -> None:
        """Go on until nothing is ready."""
        while (claim := await self._claim(agent)) is not None:
            batcher = Batcher(self.world)
            advancer = Advancer(
                self.world, batcher, {agent.name: agent}, _no_machine, self.gate, self.clock, kill_grace_s=0.0
            )
            try:
                await advancer.advance(claim, Control(claim.lease.session))
            finally:
                await batcher.drain()

    async def _claim(self, agent: Agent) -> Claim | None:
        self.world.open_liveness().renew(WorkerRow(self.name, "", 0.0), LEASE_S)
        opened = AttemptOpened(self.name, "here", {}, self.clock.now())
        offer = WorkerOffer(self.name, frozenset({agent.name}), FORMAT, dead=self.dead, only=self.only)
        return await self.world.claim(offer, Takeover(encode_records([opened]), 1, PLAIN))


NO_PROGRAM: Final = (
    "An agent that is a program of its own cannot be killed within this process. Give a worker in another process "
    "`outlast.testing.faults.kill_gate`."
)


class _NoMachine:
    """Stands where a harness would be let in and started."""

    async def address(self) -> str:
        raise BadInput(detail=NO_PROGRAM)

    def admit(self, attempt: Attempt, dialogue: Dialogue, token: str = "") -> NoReturn:
        raise BadInput(detail=NO_PROGRAM)

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> NoReturn:
        raise BadInput(detail=NO_PROGRAM)


@asynccontextmanager
async def _no_machine(*_: object) -> AsyncGenerator[Surroundings]:
    nowhere = Path("/nonexistent")
    yield Surroundings(_NoMachine(), _NoMachine(), Places(nowhere, nowhere))
