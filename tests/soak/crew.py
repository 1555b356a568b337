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
from outlast.testing.adapter_contract.stage import Stage, Victim
from outlast.world import World

Way: TypeAlias = Literal["worker", "harness", "both", "supervisor", "harness's supervisor"]

_WAYS: Mapping[Way, int] = {
    "worker": 45,
    "harness": 15,
    "both": 25,
    "supervisor": 10,
    "harness's supervisor": 5,
}
_SUPERVISOR = b"supervise.py"


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
        busy = sorted(name for name in held if name in self.alive)
        if not busy:
            return
        (way,) = self.rng.choices(list(_WAYS), weights=list(_WAYS.values()))
        name = self.rng.choice(busy)
        sessions = held[name]
        homes = [self.stage.home(session) for session in sessions]
        victim = self.alive[name]
        blow = Blow(way, name, sessions, SystemClock().now())
        if self._kill(way, victim, homes):
            self.blows.append(blow)

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
                return self._end(victim, [victim.pid, *harnesses(homes)])
            case "supervisor":
                return self._end(victim, [victim.process.pid])
            case "harness":
                return _all_killed(harnesses(homes)[:1])
            case "harness's supervisor":
                return _all_killed(supervisors(homes)[:1])

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


def harnesses(homes: Sequence[Path]) -> list[int]:
    """The Claude Code processes of sessions with these homes."""
    return [pid for pid, line in _commands(homes) if b"--session-mirror" in line and _SUPERVISOR not in line]


def supervisors(homes: Sequence[Path]) -> list[int]:
    """The supervisors of their attempts."""
    return [pid for pid, line in _commands(homes) if _SUPERVISOR in line]


def _commands(homes: Sequence[Path]) -> list[tuple[int, bytes]]:
    needles = [str(home).encode() for home in homes]
    found: list[tuple[int, bytes]] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - processes end while they are listed
        if name.isdigit():
            try:
                line = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if any(needle in line for needle in needles):
                found.append((int(name), line))
    return found


def _all_killed(pids: Sequence[int]) -> bool:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(pids)
