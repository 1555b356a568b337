"""Kill an agent at every point of a turn, in this process, and look at what the world outside has seen of it.

    for cut in await kill_everywhere(support, "Refund order 81"):
        assert cut.count("refund") == 1

For agents whose loop runs in the worker (`Loop`, `Assistant`). One that is a program of its own is killed with its
process: `outlast.testing.faults.kill_gate`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from outlast.adapter import Agent
from outlast.clock import Clock, ManualClock
from outlast.errors import BadInput
from outlast.fold import records_of
from outlast.gate import Gate
from outlast.records import AnyRecord, CallOutcome, CallRetracted, Decided, TurnParked
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.testing.life import NO_PROGRAM, Life
from outlast.tool import Tool, ToolIO
from outlast.world import SessionHead, World
from outlast.worlds.memory import open_memory

SESSION: Final = "killed"
PROMPT_ID: Final = "prompt"
LIMIT_S: Final = 60.0
"""How long one turn may take, its death and its recovery included."""
ROUNDS: Final = 200
"""How often a turn may come to rest."""
LOOK_S: Final = 10.0
"""How far the clock goes on whenever somebody looks how long a pause still takes."""

OpenWorld: TypeAlias = Callable[[Clock], AbstractAsyncContextManager[World]]
"""Opens an empty World whose time is that of the clock, if it can."""
Meanwhile: TypeAlias = Callable[[Session, ManualClock], Awaitable[None]]
"""What comes from outside: asked whenever the turn has come to rest. It gives ids, since it is asked more than once."""


@dataclass(frozen=True, slots=True)
class Run:
    """One time that a tool ran."""

    tool: str
    arguments: Mapping[str, Any]
    call: int
    """Number of the call in the session: the same in every attempt."""
    worker: str


@dataclass(frozen=True, slots=True)
class Cut:
    """What came of a turn whose worker was killed at one spot."""

    spot: Spot | None
    """None: nobody was killed."""
    status: str
    """`done`, `failed` or `cancelled`; of a turn that waits for a person what it is parked for, else `waiting`."""
    value: Any
    error: str
    """Why it failed, or the evidence for which it is parked."""
    runs: Sequence[Run]
    """Each time that a tool of the agent's ran, in order."""
    in_doubt: Sequence[int]
    """The calls of which it is not known whether they took effect, and the model or a person was told so."""

    @property
    def end(self) -> tuple[str, Any, str]:
        """How the turn ended."""
        return self.status, self.value, self.error

    def count(self, tool: str, **arguments: object) -> int:
        """How often the tool ran, with these arguments among others."""
        return sum(run.tool == tool and arguments.items() <= run.arguments.items() for run in self.runs)

    def __str__(self) -> str:
        return "uncut" if self.spot is None else f"killed at {self.spot}"


class KillEverywhere(Protocol):
    """`kill_everywhere` in some World: the fixture of that name."""

    async def __call__(
        self,
        agent: Agent | Callable[[], Agent],
        prompt: str,
        *,
        meanwhile: Meanwhile | None = None,
        after: Callable[[Cut], None] | None = None,
        same_end: bool = True,
    ) -> Sequence[Cut]: ...


async def kill_everywhere(
    agent: Agent | Callable[[], Agent],
    prompt: str,
    *,
    open_world: OpenWorld | None = None,
    meanwhile: Meanwhile | None = None,
    after: Callable[[Cut], None] | None = None,
    same_end: bool = True,
) -> Sequence[Cut]:
    """Run a turn uncut, then once for each point that it crossed, killed there and carried on by another worker.

    Each time it is held to this: it comes to the same rest, unless a call is in doubt; a `never` call ran at most once;
    no call ran again whose outcome the log had when the worker died.

    Args:
        agent: as a worker is given it, or what makes one for each time, with a world outside that is as it was.
        open_world: the World that each time has to itself; by default one in memory.
        meanwhile: answers, signals, and whatever else must come for the turn to go on. Where it does not help, the
            clock is turned to when the turn goes on by itself.
        after: asked each time before the next; what it raises names the spot.
        same_end: whether the turn ends with the same value wherever it is killed. False for one whose value depends
            on time or chance.

    Returns what came of the turn: uncut first, then in the order of the points.

    Raises:
        AssertionError: a promise is broken; it says at which spot.
        BadInput: the agent is a program of its own.
    """
    play = _Play(agent, prompt, open_world or in_memory, meanwhile)
    uncut, crossed = await play.once(None)
    if NO_PROGRAM in uncut.error:
        raise BadInput(detail=NO_PROGRAM)
    assert uncut.status not in {"stuck", "diverged"}, f"the turn does not end even uncut: {uncut.error}"
    cuts = [uncut]
    _look(uncut, after)
    for spot in spots(crossed.crossings):
        cut, _ = await play.once(spot)
        if same_end and not cut.in_doubt:
            assert cut.end == uncut.end, f"{cut}: the turn ended as {cut.end}, uncut as {uncut.end}"
        _look(cut, after)
        cuts.append(cut)
    return cuts


def in_memory(clock: Clock) -> AbstractAsyncContextManager[World]:
    """An empty World in memory."""
    return open_memory(clock=clock)


def _look(cut: Cut, after: Callable[[Cut], None] | None) -> None:
    if after is not None:
        try:
            after(cut)
        except Exception as error:
            error.add_note(str(cut))
            raise


class _Clock(ManualClock):
    """Stands, but for pauses that a worker holds: those pass by being looked at."""

    def elapsed(self) -> float:
        self.turn(LOOK_S)
        return self.now()


@dataclass
class _Outside:
    """What the tools of one turn do: noted, and nothing once their worker is dead."""

    worker: str = ""
    world: MortalWorld | None = None
    runs: list[Run] = field(default_factory=list[Run])

    def watched(self, tool: Tool) -> Tool:
        async def function(io: ToolIO, **arguments: Any) -> object:
            if self.world is not None:
                self.world.check()
            self.runs.append(Run(tool.name, arguments, io.call, self.worker))
            return await tool.function(io, **arguments)

        return replace(tool, function=function)


@dataclass(frozen=True)
class _Play:
    """One turn, as often as it is wanted."""

    agent: Agent | Callable[[], Agent]
    prompt: str
    open_world: OpenWorld
    meanwhile: Meanwhile | None

    async def once(self, spot: Spot | None) -> tuple[Cut, RecordingGate]:
        """The turn from its beginning, killed at `spot`."""
        clock, outside = _Clock(), _Outside()
        made = self.agent if isinstance(self.agent, Agent) else self.agent()
        agent = replace(made, tools=[outside.watched(tool) for tool in made.tools], workspace=None)
        async with asyncio.timeout(LIMIT_S), self.open_world(clock) as world:
            session = await Session.open(world, SESSION, agent=agent, clock=clock)
            await session.send(self.prompt, id=PROMPT_ID)
            record, finished = RecordingGate(), set[int]()
            if spot is not None and await self._dies(session, agent, outside, clock, spot):
                finished = {one.call for one in await _log(session) if isinstance(one, CallOutcome)}
            before = len(outside.runs)
            mortal = MortalWorld(world)
            outside.worker, outside.world = "second", mortal
            life = Life(mortal, clock, record, outside.worker, frozenset({"first"}), SESSION)
            await self._carry(session, agent, life, clock)
            cut = await _seen(session, spot, outside.runs)
            _check_runs(cut, agent, await _log(session), outside.runs[before:], finished)
        return cut, record

    async def _dies(
        self, session: Session, agent: Agent, outside: _Outside, clock: ManualClock, spot: Spot
    ) -> bool:
        """Whether the first worker came to that spot, and died of it."""
        mortal = MortalWorld(session.world)
        outside.worker, outside.world = "first", mortal
        gate: Gate = DeathGate(spot, mortal)
        with suppress(Killed):
            life = Life(mortal, clock, gate, outside.worker, only=SESSION)
            await self._carry(session, agent, life, clock)
        assert mortal.dead, (
            f"killed at {spot}: the turn did not come there this time. Does it go another way each time?"
        )
        return True

    async def _carry(self, session: Session, agent: Agent, life: Life, clock: ManualClock) -> None:
        """Carry the turn as far as it goes, with what comes from outside."""
        for _ in range(ROUNDS):
            await life.work(agent)
            head = await session.head()
            if not head.turn_open:
                return
            if self.meanwhile is not None:
                await self.meanwhile(session, clock)
                head = await session.head()
            if not head.is_ready(clock.now()) and not _turned_to(head, clock):
                return
        raise AssertionError(f"the turn came to rest {ROUNDS} times and has not ended")


def _turned_to(head: SessionHead, clock: ManualClock) -> bool:
    """Whether it goes on by itself at some time, which is now."""
    if head.wake_at_s is None:
        return False
    clock.turn(max(0.0, head.wake_at_s - clock.now()))
    return True


async def _log(session: Session) -> Sequence[AnyRecord]:
    return [
        one for commit in await session.world.commits(session.id) for one in records_of(session.id, commit)
    ]


async def _seen(session: Session, spot: Spot | None, runs: Sequence[Run]) -> Cut:
    head, log = await session.head(), await _log(session)
    doubts = [one.call for one in log if isinstance(one, CallOutcome) and one.status == "in_doubt"]
    parked = [one for one in log if isinstance(one, TurnParked)]
    doubts += [call for one in parked for call in one.evidence.get("in_doubt", ())]
    if head.turn_open:
        status = parked[-1].why if head.parked and parked else "waiting"
        why = f"{parked[-1].evidence}" if head.parked and parked else ""
        return Cut(spot, status, None, why, tuple(runs), doubts)
    ended = await session.result(1)
    return Cut(spot, ended.status, ended.value, ended.error, tuple(runs), doubts)


def _check_runs(
    cut: Cut, agent: Agent, log: Sequence[AnyRecord], later: Sequence[Run], finished: set[int]
) -> None:
    for run in later:
        assert run.call not in finished, f"{cut}: {run.tool} (call {run.call}) had ended and ran again"
    may_run = Counter([*{run.call for run in cut.runs}, *(_allowed(record) for record in log)])
    never = {tool.name for tool in agent.tools if tool.policy == "never"}
    for run in cut.runs:
        times = sum(run.call == other.call for other in cut.runs)
        assert run.tool not in never or times <= may_run[run.call], (
            f"{cut}: {run.tool} (call {run.call}) ran {times} times, and it is one that must `never`"
        )


def _allowed(record: AnyRecord) -> int:
    """The call that this record lets run once more: a try had no effect, or a person says so."""
    match record:
        case CallRetracted(call=call, no_effect=True) | Decided(call=call, ruling="run_again"):
            return call
        case _:
            return 0
