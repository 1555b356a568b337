"""A real `outlast serve` process, and what it takes of the machine."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.frame import Bench
from benchmarks.workers import ROOT
from outlast.clock import SystemClock
from outlast.server.tokens import Tokens

READY_S = 30.0


@dataclass
class Serving:
    """A server that runs."""

    pid: int
    port: int
    token: str

    def cpu_s(self) -> float:
        """Seconds on a processor, of all its threads."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9

    def memory_mb(self) -> float:
        """What of it is resident."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@asynccontextmanager
async def serving(bench: Bench) -> AsyncGenerator[Serving]:
    """Serve the World that is measured, as `outlast serve` does."""
    data = bench.directory / "server"
    data.mkdir()
    token = Tokens(data / "tokens.json").add("bench", SystemClock())
    argv = [sys.executable, "-m", "outlast.cli", "serve", "--json", "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *argv,
        "--world",
        bench.url,
        "--tokens",
        str(data / "tokens.json"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OUTLAST_DATA": str(data), "OUTLAST_REQUESTS_PER_S": "0"},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(READY_S):
            said = msgspec.json.decode(await process.stdout.readline())
        yield Serving(process.pid, int(said["url"].rpartition(":")[2]), token)
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(READY_S):
            await process.wait()


@dataclass
class Crowd:
    """Watchers in another process."""

    process: asyncio.subprocess.Process

    async def next(self) -> dict[str, float]:
        """What they have seen since they were last asked."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"tell\n")
        async with asyncio.timeout(READY_S):
            return msgspec.json.decode(await self.process.stdout.readline(), type=dict[str, float])


@asynccontextmanager
async def crowd(server: Serving, paths: Sequence[str], each: int) -> AsyncGenerator[Crowd]:
    """So many watchers of each path, all of whom have the first event."""
    argv = [sys.executable, "-m", "benchmarks.crowd", str(server.port), server.token, str(each), *paths]
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(4 * READY_S):
            said = await process.stdout.readline()
        if said != b"ready\n":
            raise RuntimeError("the watchers could not connect")
        yield Crowd(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
