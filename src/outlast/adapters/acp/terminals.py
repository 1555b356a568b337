"""Terminals that an agent has opened: commands under supervision, beside its workspace (`terminal/*`)."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from outlast.adapter import Process, Processes
from outlast.errors import HarnessError

KEPT_BYTES: Final = 1024 * 1024
"""Of the output of one command where the agent names no limit: the last."""
NEAR: Final = ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh"]
"""Errors go where the output goes, as in a terminal."""


class Terminal:
    """One command, and what it has said."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.output = b""
        self.truncated = False
        self.status: int | None = None
        self.ended = asyncio.Event()
        self.released = asyncio.Event()

    def take(self, line: bytes) -> None:
        """Keep one more line, and of all of them the last `limit` bytes."""
        self.output += line + b"\n"
        if len(self.output) > self.limit:
            self.output, self.truncated = self.output[-self.limit :], True

    @property
    def text(self) -> str:
        """The output; a sign that was cut in the middle is left out."""
        return self.output.decode("utf-8", errors="ignore")


class Terminals:
    """The terminals of one attempt; all end with it.

    Args:
        tasks: hold one task for each terminal.
    """

    def __init__(self, processes: Processes, tasks: asyncio.TaskGroup) -> None:
        self._processes = processes
        self._tasks = tasks
        self._open: dict[str, Terminal] = {}
        self._running: list[asyncio.Task[None]] = []

    def start(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, limit: int | None) -> str:
        """Run `command`; no shell is between, unless it is one."""
        name = f"terminal-{len(self._running) + 1}"
        terminal = self._open[name] = Terminal(limit or KEPT_BYTES)
        self._running.append(self._tasks.create_task(self._run(terminal, [*NEAR, *command], env, cwd)))
        return name

    def get(self, name: str) -> Terminal:
        """Raises HarnessError if it is not open."""
        if name not in self._open:
            raise HarnessError(
                harness="the agent", reason=f"it asks for the terminal {name!r}, which is not open"
            )
        return self._open[name]

    def kill(self, name: str) -> None:
        """End the command; its output can still be read."""
        self.get(name).released.set()

    def release(self, name: str) -> None:
        """End the command, and forget it."""
        self.kill(name)
        del self._open[name]

    def close(self) -> None:
        """End all of them."""
        for task in self._running:
            task.cancel()

    async def _run(self, terminal: Terminal, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        try:
            async with self._processes.start(argv, env=env, cwd=cwd) as process, asyncio.TaskGroup() as tasks:
                await process.close_stdin()
                killing = tasks.create_task(_kill_when_released(terminal, process))
                async for line in process.lines():
                    terminal.take(line)
                terminal.status = await process.wait()
                killing.cancel()
        finally:
            terminal.ended.set()


async def _kill_when_released(terminal: Terminal, process: Process) -> None:
    await terminal.released.wait()
    await process.kill()
