"""Harness programs in a box (`outlast.adapter.Processes`): jobs that are tied to the attempt, with their streams."""

import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Final

import anyio

from outlast.errors import BoxError, HarnessError
from outlast.groups import task_group
from outlast.ids import new_id
from outlast.processes import said_port
from outlast.sandbox import Box, Job, JobAsk
from outlast.workspaces.boxed.distance import Given
from outlast.workspaces.boxed.ports import expose

LINE_LIMIT: Final = 64 * 1024 * 1024
_TAIL: Final = 8192
_EXPOSED: Final = 4
"""Ports that one program has carried here."""
_ENDING_S: Final = 20.0
KEPT: Final = frozenset({"LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"})
"""Variables of the worker that go in as they are. Others go in where they say something else than there."""


WAYS_OUT: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
"""In either case: what leads out of a box, and what is reached past that, is the box's own and not the worker's."""


class BoxPrograms:
    """Starts programs in a box."""

    def __init__(self, box: Box, ground: Given) -> None:
        self._box = box
        self._ground = ground

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AsyncGenerator["BoxProcess"]:
        """Start `argv`; when the context ends, it and all it started are dead.

        Raises:
            HarnessError: the program is not in the box, or cannot be started.
        """
        if not self._ground.shows(argv[0]):
            raise HarnessError(harness=argv[0], reason=self._ground.unseen(argv[0]))
        await self._ground.give_home()
        ask = JobAsk(
            new_id("program"),
            argv,
            str(cwd),
            inside(env, os.environ, self._ground.path),
            tied=True,
            stdin=True,
        )
        try:
            job = await self._box.begin(ask)
        except BoxError as error:
            there = self._ground.unseen(argv[0]) if "No such file" in str(error) else str(error)
            raise HarnessError(harness=argv[0], reason=there) from error
        async with task_group() as tasks:
            process = BoxProcess(job, argv[0], lambda port: expose(self._box, port, tasks))
            tasks.start_soon(process.drain_errors)
            try:
                yield process
            finally:
                with anyio.move_on_after(_ENDING_S, shield=True), suppress(BoxError, HarnessError):
                    await process.kill()
                    await self._box.drop(ask.job)
                    await self._ground.fetch_home()
                tasks.cancel_scope.cancel()

    async def fetch_home(self) -> None:
        """See `outlast.workspace.Away`."""
        await self._ground.fetch_home()


def inside(env: Mapping[str, str], worker: Mapping[str, str], path: str) -> dict[str, str]:
    """The environment of a program in the box: nothing that it would have only from the worker's own.

    Args:
        path: PATH inside; empty: as the box has it.
    """
    told = {
        name: value
        for name, value in env.items()
        if name in KEPT
        or name.startswith("LC_")
        or (name.upper() not in WAYS_OUT and worker.get(name) != value)
    }
    return {**told, "PATH": path} if path else {name: value for name, value in told.items() if name != "PATH"}


class BoxProcess:
    """See `outlast.adapter.Process`."""

    def __init__(self, job: Job, name: str, expose: Callable[[int], Awaitable[int]]) -> None:
        self._job = job
        self._expose = expose
        self._name = name
        self._tail: deque[bytes] = deque()
        self._drained = anyio.Event()
        self._reachable: dict[int, int] = {}

    async def write(self, data: bytes) -> None:
        try:
            await self._job.write(data)
        except BoxError as error:
            reason = f"it no longer reads its input ({error}). {self.errors()}"
            raise HarnessError(harness=self._name, reason=reason) from None

    async def close_stdin(self) -> None:
        with suppress(BoxError):
            await self._job.close_stdin()

    async def lines(self) -> AsyncIterator[bytes]:
        held = bytearray()
        try:
            async for _, piece in self._job.output("stdout"):
                start = len(held)
                held += piece
                if b"\n" not in piece:
                    if len(held) > LINE_LIMIT:
                        reason = f"it wrote a line of more than {LINE_LIMIT:,} bytes"
                        raise HarnessError(harness=self._name, reason=reason)
                    continue
                end = held.rfind(b"\n", start)
                whole, held = bytes(held[:end]), held[end + 1 :]
                for line in whole.split(b"\n"):
                    yield await self._reached(line)
        except BoxError as error:
            raise HarnessError(harness=self._name, reason=str(error)) from error
        if held:
            yield bytes(held)

    async def _reached(self, line: bytes) -> bytes:
        """The line; where it says at which port of its loopback the program listens, with the one that leads there."""
        said = said_port(line)
        if said is None:
            return line
        inner = int(said[1])
        # Each costs the worker a descriptor, and who says so is of the box: from some number on they lead nowhere.
        if inner not in self._reachable and len(self._reachable) < _EXPOSED:
            self._reachable[inner] = await self._expose(inner)
        port = self._reachable.get(inner, 0)
        return line[: said.start(1)] + str(port).encode() + line[said.end(1) :]

    async def wait(self) -> int:
        try:
            status = await self._job.wait()
        except BoxError as error:
            raise HarnessError(harness=self._name, reason=str(error)) from error
        with anyio.move_on_after(1.0):  # what it said at the end is told of it
            await self._drained.wait()
        return status

    async def kill(self) -> None:
        try:
            await self._job.signal(SIGKILL)
            await self._job.wait()
        except BoxError as error:
            raise HarnessError(harness=self._name, reason=str(error)) from error

    def errors(self) -> str:
        return b"".join(self._tail)[-_TAIL:].decode(errors="replace").strip()

    async def drain_errors(self) -> None:
        """Keep the end of its standard error."""
        try:
            async for _, piece in self._job.output("stderr"):
                self._tail.append(piece)
                while sum(map(len, self._tail)) - len(self._tail[0]) > _TAIL:
                    self._tail.popleft()
        except BoxError:
            return  # whoever reads its output is told
        finally:
            self._drained.set()
