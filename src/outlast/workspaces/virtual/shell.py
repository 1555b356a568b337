"""The other end of the shell's process: starts it, asks it, ends it."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from outlast.adapter import Process, Processes
from outlast.errors import HarnessError, WorkspaceError
from outlast.workspaces.virtual.wire import Answer, Ask, Done, Failed, Piece, Said

_BEGIN: Final = (
    "import sys; sys.path += sys.argv[2:]; "
    "from outlast.workspaces.virtual.child import main; sys.exit(main(sys.argv))"
)
_NEEDS: Final = ("outlast", "msgspec", "bashkit")
_ENVIRON: Final = {"PATH": os.defpath, "MALLOC_ARENA_MAX": "2"}
"""All that the process is told of this one. With an arena for each thread, most of its address space would be empty."""
_END_S: Final = 10.0


class ShellEndedError(Exception):
    """The process of the shell ended instead of answering."""


class Shell:
    """One process of the shell. Asks come one at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lines: AsyncIterator[bytes] = process.lines()
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
        self.dropped = anyio.Event()
        self.gone = anyio.Event()

    async def ask(
        self, ask: Ask, said: Callable[[str, str], None] | None = None
    ) -> tuple[Done | Failed, list[Piece]]:
        """Ask, and hear the answer with what is new in the tree.

        Raises:
            ShellEndedError
            WorkspaceError: this cannot be said to a shell.
        """
        try:
            text = self._encoder.encode(ask)
        except (UnicodeEncodeError, ValueError) as error:
            raise WorkspaceError(detail=f"The shell cannot be given this: {error}.") from None
        pieces: list[Piece] = []
        try:
            await self._process.write(text + b"\n")
            async for line in self._lines:
                match self._decoder.decode(line):
                    case Said(out, err):
                        if said is not None:
                            said(out, err)
                    case Piece() as piece:
                        pieces.append(piece)
                    case Done() | Failed() as last:
                        return last, pieces
        except (HarnessError, msgspec.DecodeError) as error:
            raise ShellEndedError(str(error)) from error
        lines = self._process.errors().split("\n")
        last = lines[-1 if lines[0].startswith("Traceback") else 0]
        raise ShellEndedError(f"It said: {last[:300]}" if last else "")

    async def end(self) -> None:
        """End it, whatever it does. When this returns it is dead, or the worker could not prove it in time."""
        self.dropped.set()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
            await self.gone.wait()


async def start_shell(tasks: TaskGroup, processes: Processes, memory_bytes: int) -> Shell:
    """Start the process of a shell, which ends with the task group at the latest.

    Raises:
        WorkspaceError: it cannot be started.
    """
    try:
        return await tasks.start(_hold, processes, memory_bytes)
    except HarnessError as error:
        raise WorkspaceError(
            detail=f"The shell of the virtual workspace cannot be started: {error}"
        ) from error


async def _hold(processes: Processes, memory_bytes: int, *, task_status: TaskStatus[Shell]) -> None:
    argv = [sys.executable, "-I", "-c", _BEGIN, str(memory_bytes), *_places()]
    shell: Shell | None = None
    try:
        async with processes.start(argv, env=_ENVIRON, cwd=Path("/")) as process:
            shell = Shell(process)
            task_status.started(shell)
            await shell.dropped.wait()
    except HarnessError:
        if shell is None:
            raise
        # Whoever asks it hears that it ended; nothing beyond its own process can have come of it.
    finally:
        if shell is not None:
            shell.gone.set()


def _places() -> list[str]:
    """Where what the process needs is found here: some of it may have been installed for this worker alone."""
    found = [spec.origin for name in _NEEDS if (spec := find_spec(name)) is not None and spec.origin]
    return list(dict.fromkeys(str(Path(origin).parents[1]) for origin in found))
