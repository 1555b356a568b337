"""The worker that `run` brings along: a process of its own, begun anew when it is killed."""

import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.cli.work import worker_argv
from outlast.errors import HarnessError

LEAVE_S: Final = 20.0
"""How long it may take to hand over."""
CLOSE_S: Final = 1.0
"""How long its pipes may stay open behind its end."""
PAUSES_S: Final = (0.0, 1.0, 5.0)
"""Before it is begun anew, by how often in a row it ended soon."""
SOON_S: Final = 30.0
_LINE: Final = 1 << 20


@dataclass
class Companion:
    """Starts workers for one session, one after the other, until it is told to leave."""

    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    note: Callable[[str], None]
    leaving: bool = False
    process: Process | None = None
    said: list[str] = field(default_factory=list[str])
    """Its newest lines on standard error."""

    async def work(self) -> None:
        """Keep a worker alive. Returns when one ended because it was told to.

        Raises:
            HarnessError: it cannot be started.
        """
        short_lives = 0
        while not self.leaving:
            begun = anyio.current_time()
            worker, status = await self._live()
            if self.leaving or status == 0:
                break
            short_lives = 0 if anyio.current_time() - begun > SOON_S else short_lives + 1
            self.note(f"worker {worker} ended with status {status}; another one is started")
            await anyio.sleep(PAUSES_S[min(short_lives, len(PAUSES_S)) - 1] if short_lives else 0.0)
        if not self.leaving:
            self.note("the worker was told to end; the turn goes on with any other")

    async def leave(self) -> None:
        """Have it hand over, and wait until it has ended."""
        self.leaving = True
        process = self.process
        if process is None or process.returncode is not None:
            return
        with anyio.CancelScope(shield=True):
            process.send_signal(signal.SIGINT)
            with anyio.move_on_after(LEAVE_S):
                await process.wait()
                return
            process.kill()  # its supervisor's death is its own
            await process.wait()

    async def _live(self) -> tuple[str, int]:
        """One worker from its start to its end: its id and its status."""
        # Its standard input ends with us: then it finishes what it has and ends as well.
        process = await anyio.open_process(
            worker_argv(*self.arguments, "--until-eof", "--json"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ,
            start_new_session=True,
        )
        self.process = process
        try:
            return await self._until_its_end(process)
        finally:
            with anyio.CancelScope(shield=True):
                await let_go(process)

    async def _until_its_end(self, process: Process) -> tuple[str, int]:
        assert process.stdout is not None
        assert process.stderr is not None
        hello: Mapping[str, Any] = {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass_on, process.stderr)
            hello = await _first_line(process.stdout)
            await process.wait()
        status = process.returncode or 0
        if "worker" not in hello and not self.leaving:
            raise HarnessError(harness="The worker", reason=_why(hello, self.said, status))
        return str(hello.get("worker", "")), status

    async def _pass_on(self, stream: ByteReceiveStream) -> None:
        lines = BufferedByteReceiveStream(stream)
        while True:
            try:
                line = (await lines.receive_until(b"\n", _LINE)).decode(errors="replace")
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                return
            self.said = [*self.said[-9:], line]
            if not self.leaving:
                self.note(line)


async def let_go(process: Process) -> None:
    """Let go of our ends; a worker that still lives ends by itself then."""
    if process.stdin is not None:
        await process.stdin.aclose()
    # asyncio closes a pipe once its end was read: one that stays open outlives the event loop, and says so on screen.
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with anyio.move_on_after(CLOSE_S):
                await _read_to_its_end(stream)
            await stream.aclose()


async def _read_to_its_end(stream: ByteReceiveStream) -> None:
    with suppress(anyio.EndOfStream):
        while True:
            await stream.receive()


async def _first_line(stream: ByteReceiveStream) -> Mapping[str, Any]:
    try:
        line = await BufferedByteReceiveStream(stream).receive_until(b"\n", _LINE)
        return msgspec.json.decode(line, type=dict[str, Any])
    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, msgspec.MsgspecError):
        return {}


def _why(hello: Mapping[str, Any], said: list[str], status: int) -> str:
    message = hello.get("message")
    return str(message) if message else f"it ended with status {status}: {' '.join(said[-3:])}"


@asynccontextmanager
async def accompanied(companion: Companion) -> AsyncGenerator[None]:
    """A worker beside what happens in the context; it hands over when that ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(companion.work)
        try:
            yield
        finally:
            await companion.leave()
            tasks.cancel_scope.cancel()
