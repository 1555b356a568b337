"""Real worker processes, each under its supervisor, and what their calls say."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.frame import Bench
from benchmarks.saying import SOCKET_VARIABLE, Began
from outlast.cli.argv import worker_argv
from tests.servers.elsewhere import on_another_host

ROOT = Path(__file__).parent.parent
READY_S = 30.0
ANSWER_S = 15.0


@dataclass
class WorkerProcess:
    """One worker and the supervisor above it."""

    supervisor: "subprocess.Popen[bytes]"
    pid: int

    def kill(self) -> float:
        """SIGKILL the worker. Returns the moment before."""
        at_s = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        return at_s

    def end(self) -> None:
        """Let both be gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        try:
            self.supervisor.wait(10)
        except subprocess.TimeoutExpired:
            self.supervisor.kill()
            self.supervisor.wait()


class Ear:
    """Hears the calls of all workers begin; always, since only some datagrams find room in the kernel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heard: asyncio.Queue[Began] = asyncio.Queue()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._socket.bind(str(path))
        asyncio.get_running_loop().add_reader(self._socket, self._hear)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._heard.put_nowait(msgspec.msgpack.decode(self._socket.recv(4096), type=Began))

    async def next(self, fits: Callable[[Began], bool], limit_s: float = ANSWER_S) -> Began:
        """The next call that fits; others are forgotten.

        Raises:
            TimeoutError: none came.
        """
        async with asyncio.timeout(limit_s):
            while not fits(began := await self._heard.get()):
                pass
            return began

    def close(self) -> None:
        """Hear nothing more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()


@dataclass
class Crew:
    """Workers on one World."""

    bench: Bench
    agent: str
    ear: Ear
    environ: dict[str, str] = field(default_factory=dict[str, str])
    workers: dict[int, WorkerProcess] = field(default_factory=dict[int, WorkerProcess])
    apart: bool = False
    """Each is on a machine of its own, as far as it knows."""
    _launched: int = 0

    async def hire(self, count: int = 1) -> None:
        """Start workers, together, and wait until each says that it works."""
        for process in [self.launch() for _ in range(count)]:
            said = await asyncio.wait_for(asyncio.to_thread(_first_line, process), READY_S)
            self.admit(process, said)

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start a worker and wait for nothing."""
        self._launched += 1
        argv = worker_argv(self.agent, "--world", self.bench.url, "--json", "--until-eof")
        data = self.bench.directory / "data"
        if self.apart:
            data = self.bench.directory / f"data-{self._launched}"
            data.mkdir()
            argv = on_another_host(argv, data / "boot-id")
        environ = {
            **os.environ,
            "OUTLAST_DATA_DIR": str(data),
            SOCKET_VARIABLE: str(self.ear.path),
            **self.environ,
        }
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,  # it ends with us, however we end
            stdout=subprocess.PIPE,
            env=environ,
            cwd=ROOT,
            start_new_session=True,
        )

    def admit(self, supervisor: "subprocess.Popen[bytes]", said: bytes) -> None:
        """Take in a worker by the first line that it said."""
        worker = WorkerProcess(supervisor, int(msgspec.json.decode(said)["pid"]))
        self.workers[worker.pid] = worker

    def dismiss(self) -> None:
        """End all of them."""
        for worker in self.workers.values():
            worker.end()


def _first_line(process: "subprocess.Popen[bytes]") -> bytes:
    line = b"" if process.stdout is None else process.stdout.readline()
    if not line:
        raise RuntimeError("the worker did not start; its standard error says why")
    return line


@asynccontextmanager
async def crew(
    bench: Bench, agent: str, count: int, *, apart: bool = False, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[Crew]:
    """`count` workers with `agent`, ended when the context ends; `apart`: each on a machine of its own."""
    ear = Ear(bench.directory / "ear")
    hired = Crew(bench, agent, ear, dict(environ or {}), apart=apart)
    try:
        await hired.hire(count)
        yield hired
    finally:
        hired.dismiss()
        ear.close()
