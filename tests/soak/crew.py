"""Workers that are killed and replaced, at moments and in ways drawn from the seed."""

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread

from outlast.clock import SystemClock
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.promises import processes_of
from outlast.testing.adapter_contract.stage import Stage, Victim
from outlast.world import World
from tests.soak.turns import session_of

Way: TypeAlias = Literal["worker", "harness", "both", "supervisor", "harness's supervisor"]

_WAYS: Mapping[Way, int] = {
    "worker": 45,
    "harness": 15,
    "both": 25,
    "supervisor": 10,
    "harness's supervisor": 5,
}
_SUPERVISOR = b"supervise.py"
PATIENCE = 3
"""How often a session is struck before anything of it has gone on: a harness that takes long to start would never get
there else."""


@dataclass
class Blow:
    """One kill."""

    way: Way
    worker: str
    sessions: Sequence[str]
    """Sessions that were being advanced by the worker."""
    at_s: float


@dataclass
class Crew:
    """Keeps a number of workers alive, and kills them."""

    stage: Stage
    size: int
    rng: random.Random
    recovery_budget: int = 30
    alive: dict[str, Victim] = field(default_factory=dict[str, Victim])
    blows: list[Blow] = field(default_factory=list[Blow])
    _struck: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """How far each session had come when it was struck, and how often it was struck there."""

    async def fill(self) -> None:
        """Start workers until there are enough."""
        while len(self.alive) < self.size:
            victim = await self.stage.victim(
                orders={"fresh_homes": True, "recovery_budget": self.recovery_budget}
            )
            self.alive[victim.name] = victim

    async def strike(self) -> None:
        """Kill somebody who advances a session, if anybody does."""
        held = await holders(self.stage.world)
        busy = sorted(
            name
            for name, sessions in held.items()
            if name in self.alive and not any(map(self._waits, sessions))
        )
        if not busy:
            return
        ways: dict[Way, int] = {
            way: weight for way, weight in _WAYS.items() if self._has_program or "harness" not in way
        }
        (way,) = self.rng.choices(list(ways), weights=list(ways.values()))
        name = self.rng.choice(busy)
        # A harness is one session's: the others of its worker are not struck, and must not be counted as if they were.
        sessions = [self.rng.choice(held[name])] if "harness" in way else held[name]
        homes = [self.stage.home(session) for session in sessions]
        victim = self.alive[name]
        blow = Blow(way, name, sessions, SystemClock().now())
        if self._kill(way, victim, homes):
            self.blows.append(blow)
            for session in sessions:
                at, times = self._struck.get(session, (0, 0))
                now = self.progress(session)
                self._struck[session] = (now, times + 1 if at == now else 1)

    @property
    def _has_program(self) -> bool:
        """Whether there is a harness to kill: what runs in the worker itself dies with that."""
        return type(self.stage.subject).is_program is not Subject.is_program

    def _waits(self, session: str) -> bool:
        """Whether it was struck often enough for now."""
        at, times = self._struck.get(session, (0, 0))
        return times >= PATIENCE and at == self.progress(session)

    def progress(self, session: str) -> int:
        """How much has come of it: answers of the model, and effects."""
        answered = sum(
            one.outcome == "completed" and session_of(one.conversation or "") == session
            for one in self.stage.requests()
        )
        return answered + len(self.stage.effects(session).all())

    def kill_worker(self, name: str, sessions: Sequence[str]) -> None:
        """Kill this worker, which advances these sessions."""
        if name in self.alive:
            self.blows.append(Blow("worker", name, sessions, SystemClock().now()))
            self._end(self.alive[name], [self.alive[name].pid])

    def _kill(self, way: Way, victim: Victim, homes: Sequence[Path]) -> bool:
        match way:
            case "worker":
                return self._end(victim, [victim.pid])
            case "both":
                return self._end(victim, [victim.pid, *self._harnesses(homes)])
            case "supervisor":
                return self._end(victim, [victim.process.pid])
            case "harness":
                return _all_killed(self._harnesses(homes)[:1])
            case "harness's supervisor":
                return _all_killed(supervisors(homes)[:1])

    def _harnesses(self, homes: Sequence[Path]) -> list[int]:
        """The processes of the harness itself, of sessions with these homes."""
        return [pid for pid, line in _commands(homes) if self.stage.subject.is_program(line)]

    def _end(self, victim: Victim, pids: Sequence[int]) -> bool:
        del self.alive[victim.name]
        return _all_killed(pids)

    def ways(self) -> str:
        """How often each way was taken."""
        count = Counter(blow.way for blow in self.blows)
        return ", ".join(f"{number} {way}" for way, number in count.most_common())

    async def keep(self, mean_s: float, on_trouble: Callable[[str], None]) -> None:
        """Kill and replace until cancelled. One worker at least is left to go on."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._replace, on_trouble)
            while True:
                await anyio.sleep(self.rng.expovariate(1 / mean_s))
                if len(self.alive) > 1:
                    await self.strike()

    async def _replace(self, on_trouble: Callable[[str], None]) -> None:
        while True:
            await anyio.sleep(0.1)
            for victim in [one for one in self.alive.values() if one.process.poll() is not None]:
                on_trouble(f"{victim.name} ended by itself, see {victim.errors}")
                del self.alive[victim.name]
            await self.fill()

    async def dismiss(self) -> None:
        """End everybody in the orderly way, those too that were about to begin."""
        left = [victim.process for victim in self.stage.victims if victim.process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        for process in left:
            await anyio.to_thread.run_sync(_ended, process)


def _ended(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def holders(world: World) -> dict[str, list[str]]:
    """Which worker holds which sessions with an open turn."""
    held: dict[str, list[str]] = {}
    after: str | None = None
    while True:
        page = await world.list(limit=500, after=after)
        for head in page.sessions:
            if head.worker is not None and head.turn_open:
                held.setdefault(head.worker, []).append(head.session)
        after = page.next
        if after is None:
            return held


def supervisors(homes: Sequence[Path]) -> list[int]:
    """The supervisors of their attempts."""
    return [pid for pid, line in _commands(homes) if _SUPERVISOR in line]


def _commands(homes: Sequence[Path]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for pid in (pid for home in homes for pid in processes_of(home)):
        try:
            found.append((pid, Path("/proc", str(pid), "cmdline").read_bytes()))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _all_killed(pids: Sequence[int]) -> bool:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(pids)
