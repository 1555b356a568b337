"""Where adapted requirements are played: a loop, tools that end as they are told, a clock that is turned by hand."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.fold import SessionState
from outlast.gate import Gate, OpenGate, Point
from outlast.records import (
    AnyRecord,
    AttemptEnded,
    CallIntent,
    CallOutcome,
    CallRetracted,
    TurnSettled,
)
from outlast.records.kinds import OnDoubt
from outlast.session import Outcome, Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import Tool, ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records

Play: TypeAlias = Callable[["Stage"], Awaitable[None]]
PLAYS: Final[dict[str, Play]] = {}
"""What shows each requirement, by its id. Filled where the plays are written, read only afterwards."""


def shows(requirement: str) -> Callable[[Play], Play]:
    """Says of a play which requirement it shows."""

    def note(play: Play) -> Play:
        assert requirement not in PLAYS, f"{requirement} is shown twice"
        PLAYS[requirement] = play
        return play

    return note


class StageClock(ManualClock):
    """Stands until it is turned; but each look at how long something takes moves it on by `look_s`."""

    look_s = 0.0

    def elapsed(self) -> float:
        self.turn(self.look_s)
        return self.now()


@dataclass
class Stage:
    """One turn of one loop, and what the world outside has seen of it."""

    world: World
    clock: StageClock
    tools: list[Tool] = field(default_factory=list[Tool])
    ran: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Each time that a tool ran, with what it was given."""
    ran_at: list[float] = field(default_factory=list[float])
    agent: Agent | None = None
    workers: int = 0

    def step(self, name: str, *ends: object, retries: int = 0, on_doubt: OnDoubt = "tell") -> Tool:
        """A tool that ends so, one time after the other, the last ever after.

        Args:
            ends: an exception is raised, a function asked with what the tool was given, anything else returned.
        """

        async def run(io: ToolIO, given: Any = None) -> Any:
            """A step."""
            at = min(sum(one == name for one, _ in self.ran), len(ends) - 1)
            self.ran.append((name, given))
            self.ran_at.append(self.clock.now())
            end = ends[at]
            if isinstance(end, Exception):
                raise end
            return end(given) if callable(end) else end

        made = tool(name=name, retries=retries, on_doubt=on_doubt)(run)
        self.tools.append(made)
        return made

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.ran]

    async def play(self, loop: LoopFunction, prompt: str = "go", *, dies: bool = False) -> None:
        """Begin the turn; a worker carries it as far as it goes, or dies once the first tool has done its work."""
        self.agent = Agent("tester", Loop(loop), tools=self.tools)
        await opened(self.world, self.agent, "s-1", prompt)
        await self._work(Spot(Point.AFTER_EFFECT, "never") if dies else None)

    async def on(self, seconds: float = 0.0) -> None:
        """Some time passes, and another worker carries the turn as far as it goes."""
        self.clock.turn(seconds)
        await self._work(None)

    async def _work(self, death: Spot | None) -> None:
        assert self.agent is not None
        dead = frozenset({f"worker-{self.workers}"})
        self.workers += 1
        mortal = MortalWorld(self.world)
        gate: Gate = OpenGate() if death is None else DeathGate(death, mortal)
        with suppress(Killed):
            await Desk(mortal, self.clock, gate, f"worker-{self.workers}", dead).work(self.agent)

    async def session(self) -> Session:
        return await Session.find(self.world, "s-1")

    async def signal(self, name: str, value: object = None) -> None:
        """The system outside completes what waits under this name, and a worker goes on."""
        await self.tell(name, value)
        await self.on()

    async def tell(self, name: str, value: object = None) -> None:
        """As `signal`, with no worker about."""
        await (await self.session()).signal(name, value)

    async def refuse(self, why: str) -> None:
        """The system outside lets what waits for its answer fail, with no worker about."""
        session = await self.session()
        turn = (await session.state()).turn
        assert turn is not None
        (asking,) = [call.intent.call for call in turn.open_calls() if call.intent.name == "person"]
        await session.decide(asking, "failed", why, by="outside")

    async def at_rest(self) -> tuple[Session, SessionState]:
        """The session as it stands while its turn waits."""
        assert await self.waits()
        session = await self.session()
        return session, await session.state()

    async def waits(self) -> bool:
        """Whether the turn is open and no worker holds it."""
        head = await (await self.session()).head()
        return head.turn_open and head.worker is None

    async def end(self) -> Outcome:
        """How the turn ended."""
        assert not await self.waits(), "the turn is not over"
        return await (await self.session()).result(1)

    async def value(self) -> Any:
        """What the loop returned."""
        outcome = await self.end()
        assert outcome.status == "done", outcome.error
        return outcome.value

    async def failure(self) -> str:
        """Why the turn failed."""
        outcome = await self.end()
        assert outcome.status == "failed", outcome.status
        return outcome.error

    async def log(self) -> list[AnyRecord]:
        return await records(self.world)

    async def story(self) -> str:
        """What the log tells: each call when it begins (`name>`) and ends (`name=ok`), each rest of the turn (`…`)."""
        told: list[str] = []
        names: dict[int, str] = {}
        for record in await self.log():
            match record:
                case CallIntent():
                    names[record.call] = record.name
                    told.append(f"{record.name}>")
                case CallOutcome():
                    told.append(f"{names[record.call]}={record.status}")
                case CallRetracted():
                    told.append(f"{names[record.call]}=again")
                case AttemptEnded(why="waiting"):
                    told.append("…")
                case TurnSettled():
                    told.append(record.status)
                case _:
                    pass
        return " ".join(told)

    async def expect(self, story: str) -> None:
        """That the log tells just this."""
        told = await self.story()
        assert told == story, told


@asynccontextmanager
async def open_stage() -> AsyncGenerator[Stage]:
    clock = StageClock()
    async with open_memory(MemoryStore(clock)) as world:
        yield Stage(world, clock)


async def beating(io: IO, name: str, beat_s: float) -> Any:
    """Wait for a signal whose sender must be heard of every so often: a beat is a signal that says no more."""
    while (found := await io.wait_for(name, timeout_s=beat_s)) == "beat":
        pass
    return found
