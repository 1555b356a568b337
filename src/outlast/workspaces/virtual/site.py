"""A virtual workspace that is open."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from outlast.adapter import Process, Processes
from outlast.drive import Capture, Entry
from outlast.errors import FileMissing, PathRefused, WorkspaceError
from outlast.workspace import Command, Files, Ran, Stay
from outlast.workspaces.virtual.keeping import Kept
from outlast.workspaces.virtual.output import Output
from outlast.workspaces.virtual.shell import Shell, ShellEndedError, start_shell
from outlast.workspaces.virtual.wire import (
    FILE_LIMIT,
    ROOT,
    Ask,
    Done,
    Failed,
    Find,
    Load,
    Piece,
    Read,
    Remove,
    Run,
    Scan,
    Wake,
    Write,
)

FILE_S: Final = 60.0
"""Seconds that reading or writing a file may take."""
LOAD_S: Final = 120.0
"""Seconds that a new shell has to be as the one before it was."""
RESULTS_KEPT: Final = 64
"""Commands whose results are kept for who asks again."""
TIMED_OUT: Final = 124
CRASHED: Final = 134
_LOAD_BYTES: Final = 8_000_000
_GRACE_S: Final = 5.0
_MOST_CPU_S: Final = 1_000_000.0
TOO_LARGE: Final = (
    f"{{path}}: {{size:,}} bytes are more than the {FILE_LIMIT:,} that a file of a virtual workspace may have. "
    "Write it in parts."
)
_REBUILT: Final = "Files and shell are as they were before it."


class VirtualSite:
    """See `outlast.workspace.Site`.

    The shell's process is started when it is first needed. It is killed when an ask does not come to its end, in
    whatever way, and what comes next finds a new one, made of `Kept`: so what did not come to its end has not happened.
    """

    def __init__(self, stay: Stay, kept: Kept, memory_bytes: int, tasks: TaskGroup) -> None:
        self._stay = stay
        self._kept = kept
        self._memory_bytes = memory_bytes
        self._tasks = tasks
        self._one = anyio.Lock()
        self._shell: Shell | None = None
        self._ended: dict[str, Ran | None] = {}
        """By job; None: its result is no longer kept."""
        self._notes: list[str] = []
        """What the next command's writer is to know."""
        self._files = VirtualFiles(self)

    @property
    def cwd(self) -> str:
        return ROOT

    @property
    def files(self) -> Files:
        return self._files

    @property
    def processes(self) -> Processes:
        return NoPrograms()

    @property
    def hosts_programs(self) -> bool:
        return False

    def holds(self, fence: int) -> bool:
        """See `outlast.behind.Holds`: each attempt begins with what was written down."""
        return fence == self._stay.fence

    async def run(self, command: Command) -> Ran:
        async with self._one:
            if command.job in self._ended:
                return self._result(command.job)
            ran = await self._run(command)
            self._ended[command.job] = ran
            for job in list(self._ended)[:-RESULTS_KEPT]:
                self._ended[job] = None
            return ran

    async def knows(self, job: str) -> bool | None:
        return job in self._ended  # of what was cut short nothing is left, here or in an earlier attempt

    async def capture(self) -> Capture:
        async with self._one:
            return await self._kept.capture()

    def captured(self, root: str) -> None:
        self._kept.captured(root)

    async def ask(self, ask: Ask) -> Done:
        """Ask the shell for something other than to run a command.

        Raises:
            WorkspaceError: it was not done, and nothing has changed.
        """
        async with self._one:
            try:
                return await self._ask(ask, Output(), FILE_S)
            except TimeoutError:
                reason = f"it took longer than {FILE_S:g} s"
            except ShellEndedError as ended:
                reason = f"the shell ended: {ended}"
        raise WorkspaceError(detail=f"The virtual workspace did not do it: {reason}. {_REBUILT}")

    async def close(self) -> None:
        """End the shell."""
        if self._shell is not None:
            await self._shell.end()

    def _result(self, job: str) -> Ran:
        ran = self._ended[job]
        if ran is None:
            raise WorkspaceError(detail=f"The command {job} has ended; its output is no longer kept.")
        return ran

    async def _run(self, command: Command) -> Ran:
        output = Output(command.show)
        cwd = f"{ROOT}/{command.cwd}" if command.cwd and not command.cwd.startswith("/") else command.cwd
        cpu_s = min(command.timeout_s + _GRACE_S, _MOST_CPU_S)
        ask = Run(command.text, cwd, dict(command.env), cpu_s)
        status, timed_out = 0, False
        try:
            done = await self._ask(ask, output, command.timeout_s)
            status, notes = done.status, done.notes
        except TimeoutError:
            status, timed_out = TIMED_OUT, True
            notes = [f"the command was ended after {command.timeout_s:g} s. {_REBUILT}"]
        except ShellEndedError as ended:
            status = CRASHED
            notes = [
                f"the command ended the shell: it took too much memory, or went too deep. {_REBUILT} {ended}"
            ]
        for note in (*self._notes, *notes):
            output.note(f"virtual: {note.strip()}")
        self._notes = []
        return Ran(status, output.out.text(), output.err.text(), output.cut, timed_out)

    async def _ask(self, ask: Ask, output: Output, within_s: float) -> Done:
        shell = await self._awake()  # to bring one back takes its own time
        try:
            with anyio.fail_after(within_s):
                answer, pieces = await shell.ask(ask, output.add)
        except BaseException:
            await self._drop(shell)
            raise
        if isinstance(answer, Failed):
            raise _error(answer)
        self._kept.took(pieces, answer.gone, answer.state)
        if answer.ended:
            await self._drop(shell)
        return answer

    async def _awake(self) -> Shell:
        """The shell; a new one, where the last has ended, that is as that was after the last call."""
        if self._shell is not None:
            return self._shell
        shell = await start_shell(self._tasks, self._stay.processes, self._memory_bytes)
        try:
            with anyio.fail_after(LOAD_S):
                await self._load(shell)
        except BaseException as error:
            await shell.end()
            if isinstance(error, TimeoutError | ShellEndedError):
                raise WorkspaceError(
                    detail=f"The shell of the virtual workspace cannot be brought back: {error}"
                ) from error
            raise
        self._shell = shell
        return shell

    async def _load(self, shell: Shell) -> None:
        batch: list[Piece] = []
        size = 0
        async for piece in self._kept.pieces():
            batch.append(piece)
            size += len(piece.data)
            if size > _LOAD_BYTES:
                await _told(shell, Load(batch))
                batch, size = [], 0
        await _told(shell, Load(batch))
        state = self._kept.state
        done = await _told(shell, Wake(state))
        if state.outside:
            self._notes.append(
                f"the shell is a new one: what it had outside of {ROOT} is gone, {state.outside} files."
            )
        if done.notes:
            self._notes.append(f"the shell is a new one, and has not again: {'; '.join(done.notes)}.")

    async def _drop(self, shell: Shell) -> None:
        self._shell = None
        await shell.end()


class VirtualFiles:
    """See `outlast.workspace.Files`."""

    def __init__(self, site: VirtualSite) -> None:
        self._site = site

    async def read(self, path: str) -> bytes:
        return (await self._site.ask(Read(path))).data

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        if len(data) > FILE_LIMIT:
            raise WorkspaceError(detail=TOO_LARGE.format(path=path, size=len(data)))
        await self._site.ask(Write(path, data, mode))

    async def find(self, path: str) -> Entry | None:
        entries = _entries(await self._site.ask(Find(path)))
        return entries[0] if entries else None

    async def list(self, path: str) -> Sequence[Entry]:
        return _entries(await self._site.ask(Scan(path)))

    async def remove(self, path: str) -> None:
        await self._site.ask(Remove(path))


class NoPrograms:
    """Refuses to start any: there is no place in a virtual workspace where a program of the host could run."""

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager[Process]:
        """Raise `WorkspaceError`, always."""
        raise WorkspaceError(
            detail=f"{argv[0]} cannot run in a virtual workspace, which holds no programs. Give the agent the "
            "workspace `sandbox()` or `local()`; or use its tools for files and shell alone."
        )


async def _told(shell: Shell, ask: Load | Wake) -> Done:
    answer, _ = await shell.ask(ask)
    if isinstance(answer, Failed):
        raise _error(answer)
    return answer


def _entries(done: Done) -> Sequence[Entry]:
    return [
        Entry(piece.path, piece.kind, piece.mode, size, piece.mtime_ns, target=piece.target)
        for piece, size in zip(done.found, done.sizes, strict=True)
    ]


def _error(failed: Failed) -> WorkspaceError:
    match failed.why:
        case "missing":
            return FileMissing(path=failed.detail)
        case "outside":
            return PathRefused(path=failed.detail, cwd=ROOT)
        case "refused":
            return WorkspaceError(detail=failed.detail)
