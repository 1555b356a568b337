"""One process of a program without outlast, from its start to the end of a turn."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from outlast.adapter import Door
from outlast.clock import SystemClock

TURN_S: Final = 240.0
LINE_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a program is started, and whom it asks."""

    home: Path
    """Fresh; everything that the program keeps."""
    user: Path
    """HOME of its user, as for the program under a worker."""
    cwd: Path
    models: str
    """Address of the scripted model."""

    @property
    def door(self) -> Door:
        """The scripted model, where the adapter's own launch has the gateway."""
        return Door(self.models, "none", f"{self.models}/none", f"{self.models}/none")


class Watch:
    """When each of some words was first shown. Times of the machine's clock, which the scripted model has too."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._waits = {word: word.encode() for word in words}
        self.at: dict[str, float] = {}

    def see(self, shown: bytes) -> None:
        """Look for what has not been seen yet."""
        for word in [word for word, said in self._waits.items() if said in shown]:
            self.at[word] = SystemClock().now()
            del self._waits[word]


@dataclass(frozen=True, slots=True)
class Started:
    """A running program."""

    process: asyncio.subprocess.Process

    async def lines(self, watch: Watch) -> AsyncIterator[bytes]:
        """What it says, looked through by `watch`."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            watch.see(line)
            yield line

    async def write(self, said: bytes) -> None:
        """Say something on its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(said)
        await self.process.stdin.drain()


class Alone(Protocol):
    """How one program is started and told to take a turn. It is an adapter's own way, less gates, mirror and hooks."""

    def lay_out(self, spot: Spot) -> None:
        """Write its configuration; not in the time that is taken."""
        ...

    def argv(self, spot: Spot) -> Sequence[str]: ...

    def environment(self, spot: Spot) -> Mapping[str, str]: ...

    async def take_turn(self, started: Started, spot: Spot, prompt: str, watch: Watch) -> None:
        """Say the prompt and return when the turn is over.

        Raises:
            RuntimeError: it failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn and its times."""

    began: float
    """Before the program was started, or the prompt sent."""
    ended: float
    """Its end was shown."""
    shown: Mapping[str, float]


async def run_alone(program: Alone, spot: Spot, prompt: str, words: Sequence[str] = ()) -> Taken:
    """Start a program, let it take one turn, and end it.

    Raises:
        RuntimeError: the turn failed.
        TimeoutError: it took too long.
    """
    program.lay_out(spot)
    watch, clock = Watch(words), SystemClock()
    argv, env = program.argv(spot), dict(program.environment(spot))
    pipe = asyncio.subprocess.PIPE
    began = clock.now()
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=env,
        cwd=spot.cwd,
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LINE_BYTES,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TURN_S):
            await program.take_turn(Started(process), spot, prompt, watch)
        ended = clock.now()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Taken(began, ended, watch.at)


def over_too_early(program: str) -> RuntimeError:
    """It ended, or said no more, before its turn was over."""
    return RuntimeError(f"{program} without outlast ended before its turn")
