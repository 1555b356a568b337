"""Ends the attempt of a program that has fallen silent: it asks for nothing, says nothing, and nothing makes it wait.

Nobody else would notice. Its process lives and its worker renews the lease, so the turn would be held for ever. While a
call runs that it waits for, a model's or a tool's, it may be silent for as long as that takes; where a turn waits for a
person or a time, no program runs.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast.adapter import Process, Processes
from outlast.engine.context import Context
from outlast.errors import HarnessError
from outlast.groups import task_group
from outlast.workspace import Away

SILENCE_S: Final = 600.0
"""How long a program may be silent by default: some load a large project, or run their user's own hooks."""
START_S: Final = 60.0
"""How long it may be silent at least before it first asks for something."""
LOOK_S: Final = 5.0


@dataclass(slots=True)
class Silence:
    """Since when a program has been silent."""

    context: Context
    limit_s: float
    """Seconds."""
    waits: Callable[[], bool]
    """Whether something runs that the program waits for."""
    broken_s: float = 0.0
    """When it last said something, on the clock that never jumps."""

    def broken(self) -> None:
        """It has said something."""
        self.broken_s = self.context.clock.elapsed()

    async def watch(self, process: Process) -> None:
        """Look until it has been silent for too long.

        Raises:
            HarnessError
        """
        clock, context = self.context.clock, self.context
        while True:
            if self.waits():
                self.broken()
            limit_s = self.limit_s if context.asked else max(self.limit_s, START_S)
            left_s = max(self.broken_s, context.moved_s) + limit_s - clock.elapsed()
            if left_s <= 0:
                break
            await asyncio.sleep(min(LOOK_S, left_s, self.limit_s / 4))
        said = process.errors()
        reason = f"it has been silent for {limit_s:g} s, with nothing to wait for"
        raise HarnessError(harness=context.adapter.name, reason=f"{reason}. {said}".rstrip(". "))


class HeardProcesses:
    """The processes of an attempt (`outlast.adapter.Processes`): the first is its program, and must not fall silent."""

    def __init__(self, inner: Processes, silence: Silence) -> None:
        self._inner = inner
        self._silence = silence
        self._watching = False

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager["HeardProcess"]:
        """Start `argv`.

        Raises:
            HarnessError: within the context, once the program has been silent for too long.
        """
        return self._heard(self._inner.start(argv, env=env, cwd=cwd))

    async def fetch_home(self) -> None:
        """See `outlast.workspace.Away`: of programs whose HOME is here, nothing is to be done."""
        if isinstance(self._inner, Away):
            await self._inner.fetch_home()

    @asynccontextmanager
    async def _heard(self, started: AbstractAsyncContextManager[Process]) -> AsyncGenerator["HeardProcess"]:
        async with started as process:
            heard = HeardProcess(process, self._silence)
            if self._watching:  # it runs beside the program: a command in a terminal, say
                yield heard
                return
            self._watching = True
            self._silence.broken()
            try:
                async with task_group() as tasks:
                    tasks.start_soon(self._silence.watch, process)
                    yield heard
                    tasks.cancel_scope.cancel()
            finally:
                self._watching = False


class HeardProcess:
    """A process (`outlast.adapter.Process`) each of whose lines breaks the silence."""

    def __init__(self, process: Process, silence: Silence) -> None:
        self._process = process
        self._silence = silence

    async def write(self, data: bytes) -> None:
        await self._process.write(data)

    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._process.lines():
            self._silence.broken()
            yield line

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        await self._process.kill()

    def errors(self) -> str:
        return self._process.errors()
