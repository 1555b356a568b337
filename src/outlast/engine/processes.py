"""Programs that cannot outlive their lease: started under a supervisor of their own."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream

from outlast.engine.deadlines import SUPERVISION_VARIABLES, write_deadline
from outlast.engine.proof import read_lock
from outlast.errors import HarnessError, UnsupportedPlatform

STARTING_S: Final = 110.0
"""How much longer than a lease a worker may live before its first deadline: on a loaded machine, to import everything
takes half a minute and more. Until then it holds nothing, so that nothing waits for its end."""
_SUPERVISE = Path(__file__).with_name("supervise.py")


def supervisor_argv(argv: Sequence[str], *, lock: Path, ttl_s: float, grace_s: float = 0.0) -> list[str]:
    """The command line that runs `argv` as a worker under a supervisor; give it to `os.execv` or a service.

    The worker takes its deadline pipe with `claim_supervision`.

    Args:
        argv: the worker.
        lock: a fresh file name in an existing directory.
        ttl_s: how long it may live before its first deadline.
        grace_s: how long what a worker leaves behind when it exits gets between SIGTERM and SIGKILL.

    Raises:
        UnsupportedPlatform
    """
    return [*_program(lock, ttl_s), "--grace-s", str(grace_s), "--", *argv]


async def start_supervised(
    argv: Sequence[str],
    *,
    lock: Path,
    ttl_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    within: Path | None = None,
) -> "SupervisedProcess":
    """Start `argv` in a session and a process tree of its own that lives no longer than its deadlines say.

    It dies with everything it started when the deadline passes, when this process dies, and at `kill`. Its
    three standard streams are pipes; read standard error too, or it may stall.

    Args:
        argv: the program, found on the PATH of `env`.
        lock: a fresh file name in an existing directory; free again when the tree is dead.
        ttl_s: how long it may live before its first deadline.
        env: its whole environment; by default ours, without what our own supervisor put there.
        cwd: where it runs.
        within: our own supervisor's lock, if we have one, in the same directory: if both are killed, it
            proves for this one.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        program = _program(lock, ttl_s)
        program += ["--deadline-fd", str(reader), "--parent-pid", str(os.getpid())]
        program += ["--within", within.name] if within is not None else []
        process = subprocess.Popen(  # noqa: ASYNC220 - as asyncio does it; its transports would kill the supervisor
            [*program, "--", *argv],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[reader],
            env=_without_supervision(os.environ) if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    return SupervisedProcess(process, argv[0], lock, writer)


class SupervisedProcess:
    """A program under its supervisor. `async with` it: on leaving, the tree is dead."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, lock: Path, writer: int) -> None:
        self._process = process
        self._name = name
        self._writer = writer
        self._writing = threading.Lock()
        self.lock = lock
        stdin, stdout, stderr = (
            cast("FileIO", pipe) for pipe in (process.stdin, process.stdout, process.stderr)
        )
        self.stdin: ByteSendStream = PipeSendStream(stdin)
        self.stdout: ByteReceiveStream = PipeReceiveStream(stdout)
        self.stderr: ByteReceiveStream = PipeReceiveStream(stderr)

    @property
    def pid(self) -> int:
        """Of the supervisor, the parent of the program."""
        return self._process.pid

    def deadline(self, until_ns: int) -> None:
        """Let the tree live until `until_ns` (CLOCK_BOOTTIME). Any thread; never blocks; nothing if dead."""
        with self._writing:
            if self._writer >= 0:
                write_deadline(self._writer, until_ns)

    async def wait(self) -> int:
        """Wait for the end of the program and of all it started.

        Returns:
            Its exit status; 128 + n if signal n ended it; 86 (`EXIT_DEADLINE`) if the deadline did.

        Raises:
            HarnessError: it was never started, or its supervisor was killed and nothing proves that it is
                dead.
        """
        while (status := self._process.poll()) is None:
            await _wait_for_exit(self._process.pid)
        self._release()
        record = read_lock(self.lock)
        if record is None or record.pid != self._process.pid:
            reason = f"its supervisor did not start it (exit {status}; its standard error says why)"
            raise HarnessError(harness=self._name, reason=reason)
        if not record.dead:
            reason = f"its supervisor was killed (exit {status}): what it started may be alive"
            raise HarnessError(harness=self._name, reason=reason)
        return status

    async def kill(self) -> int:
        """Kill the program and everything it started. Returns its exit status when all of it is dead.

        Raises:
            HarnessError: as `wait`.
        """
        self._release()
        return await self.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with anyio.fail_after(10, shield=True):
                await self.kill()
        finally:
            with anyio.CancelScope(shield=True):
                for stream in (self.stdin, self.stdout, self.stderr):
                    await stream.aclose()

    def _release(self) -> None:
        with self._writing:
            if self._writer >= 0:
                os.close(self._writer)
                self._writer = -1


class PipeReceiveStream(ByteReceiveStream):
    """What a program writes."""

    def __init__(self, pipe: FileIO) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes`, as soon as there are any.

        Raises:
            anyio.EndOfStream: every writer has closed it.
        """
        while True:
            if self._pipe.closed:
                raise anyio.ClosedResourceError
            await anyio.wait_readable(self._pipe)  # first: as a rule all that was there is read already
            if self._pipe.closed:
                raise anyio.ClosedResourceError
            data = cast("bytes | None", self._pipe.read(max_bytes))
            if data:
                return data
            if data is not None:
                raise anyio.EndOfStream

    async def aclose(self) -> None:
        """Close our end."""
        _close(self._pipe)


class PipeSendStream(ByteSendStream):
    """What a program reads."""

    def __init__(self, pipe: FileIO) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    async def send(self, item: bytes) -> None:
        """Write all of `item`.

        Raises:
            anyio.BrokenResourceError: nobody reads any more.
        """
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            if self._pipe.closed:
                raise anyio.ClosedResourceError
            try:
                written = cast("int | None", self._pipe.write(rest))
            except BrokenPipeError as gone:
                raise anyio.BrokenResourceError from gone
            if written is None:
                await anyio.wait_writable(self._pipe)
            else:
                rest = rest[written:]

    async def aclose(self) -> None:
        """Close our end: the program reads an end of file."""
        _close(self._pipe)


def _program(lock: Path, ttl_s: float) -> list[str]:
    if sys.platform not in {"linux", "darwin"}:
        raise UnsupportedPlatform(platform=sys.platform, supported="Linux, and macOS untested")
    return [sys.executable, "-I", "-S", str(_SUPERVISE), "--lock", str(lock), "--ttl-s", str(ttl_s)]


def _without_supervision(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in SUPERVISION_VARIABLES}


async def _wait_for_exit(pid: int) -> None:
    """Return when our child `pid` ended or may have."""
    if sys.platform != "linux":
        await anyio.sleep(0.05)
        return
    pidfd = os.pidfd_open(pid)  # one for each who waits: two cannot wait on one descriptor
    try:
        await anyio.wait_readable(pidfd)
    finally:
        os.close(pidfd)


def _close(pipe: FileIO) -> None:
    if not pipe.closed:
        anyio.notify_closing(pipe)
        with suppress(BrokenPipeError):
            pipe.close()
