"""Starts harness programs so that they cannot outlive the worker (`outlast.adapter.Processes`)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from outlast.engine.keeper import Keeper
from outlast.engine.pidns import pid_namespace_argv
from outlast.engine.processes import SupervisedProcess, start_supervised
from outlast.engine.proof import read_lock
from outlast.errors import HarnessError
from outlast.folders import make_private
from outlast.ids import new_id

LINE_LIMIT: Final = 64 * 1024 * 1024
_TAIL: Final = 8192


@dataclass(frozen=True, slots=True)
class SupervisedProcesses:
    """Every program gets a supervisor, fed with the worker's deadlines, and a pid namespace where there are such."""

    lock_dir: Path
    keeper: Keeper
    ttl_s: float
    pid_namespace: Callable[[], Awaitable[bool]]
    """Whether there are such; found out when the first program is started, since that takes a program of its own."""
    within: Path | None = None
    """The worker's own supervisor's lock, if it has one."""

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AsyncGenerator["HarnessProcess"]:
        """Start `argv`; when the context ends, it and all it started are dead."""
        command = pid_namespace_argv(argv) if await self.pid_namespace() else list(argv)
        make_private(self.lock_dir)  # who tidies up may have removed it
        lock = self.lock_dir / new_id("attempt")
        try:
            async with await start_supervised(
                command, lock=lock, ttl_s=self.ttl_s, env=env, cwd=cwd, within=self.within
            ) as started:
                process = HarnessProcess(started, argv[0])
                with self.keeper.feeding(started.deadline):
                    drain = asyncio.get_running_loop().create_task(process.drain_errors())
                    try:
                        yield process
                    finally:
                        drain.cancel()
                        await asyncio.wait({drain})
        finally:
            record = read_lock(lock)
            if (
                record is not None and record.dead is True
            ):  # else it may be needed yet: it proves nothing so far
                lock.unlink(missing_ok=True)


class HarnessProcess:
    """See `outlast.adapter.Process`."""

    def __init__(self, started: SupervisedProcess, name: str) -> None:
        self._started = started
        self._name = name
        self._tail = b""

    async def write(self, data: bytes) -> None:
        try:
            await self._started.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise HarnessError(
                harness=self._name, reason=f"it no longer reads its input. {self.errors()}"
            ) from None

    async def close_stdin(self) -> None:
        await self._started.stdin.aclose()

    async def lines(self) -> AsyncIterator[bytes]:
        held = bytearray()
        while True:
            try:
                data = await self._started.stdout.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                break
            start = len(held)
            held += data
            if b"\n" not in data:
                if len(held) > LINE_LIMIT:
                    raise HarnessError(
                        harness=self._name, reason=f"it wrote a line of more than {LINE_LIMIT:,} bytes"
                    )
                continue
            end = held.rfind(b"\n", start)
            whole, held = bytes(held[:end]), held[end + 1 :]
            for line in whole.split(b"\n"):
                yield line
        if held:
            yield bytes(held)

    async def wait(self) -> int:
        return await self._started.wait()

    async def kill(self) -> None:
        await self._started.kill()

    def errors(self) -> str:
        return self._tail.decode(errors="replace").strip()

    async def drain_errors(self) -> None:
        """Keep the end of its standard error."""
        while True:
            try:
                data = await self._started.stderr.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return
            self._tail = (self._tail + data)[-_TAIL:]
