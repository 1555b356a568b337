"""Two machines on one Postgres: one dies, and the other takes over when its lease has run out; nothing proves more."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from outlast.cli.argv import worker_argv
from outlast.clock import SystemClock
from outlast.fold import records_of
from outlast.records import AttemptOpened
from outlast.session import Session
from outlast.worlds.postgres import open_postgres
from tests.servers.elsewhere import on_another_host
from tests.servers.postgres import PostgresServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has mount namespaces"),
]
LIMIT_S = 30.0
LEASE_S = 2.0
BEATS = 40
AGENTS = '''
import os
from pathlib import Path

import anyio

from outlast import Agent, ToolIO, tool
from outlast.adapters.python import IO, Loop


@tool
async def beat(io: ToolIO, number: int) -> int:
    """Say that it began, and take a moment."""
    with Path(os.environ["BEATS"]).open("a") as file:
        print(number, file=file)
    await anyio.sleep(0.1)
    return number


async def beats(io: IO, prompt: str) -> object:
    return [(await io.result("beat", {"number": number})).status for number in range(int(prompt))]


agent = Agent("beats", Loop(beats), tools=[beat])
'''


@dataclass
class Machine:
    """A machine with one worker."""

    worker: str
    """Its id."""
    pid: int
    supervisor: "subprocess.Popen[bytes]"

    def end(self) -> None:
        self.supervisor.kill()
        self.supervisor.communicate()


@dataclass
class Site:
    """What the machines share."""

    directory: Path
    url: str

    async def machine(self, name: str) -> Machine:
        """Start one, and wait until its worker works."""
        own = self.directory / name
        own.mkdir()
        environ = {
            **os.environ,
            "OUTLAST_DATA_DIR": str(own / "data"),
            "OUTLAST_LEASE_S": str(LEASE_S),
            "PYTHONPATH": str(self.directory),
            "BEATS": str(self.beats),
        }
        argv = worker_argv("served:agent", "--world", self.url, "--json", "--until-eof")
        process = subprocess.Popen(  # noqa: ASYNC220 - its first line is waited for in a thread
            on_another_host(argv, own / "boot-id"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            start_new_session=True,
        )
        assert process.stdout is not None
        said = msgspec.json.decode(await asyncio.to_thread(process.stdout.readline))
        return Machine(said["worker"], said["pid"], process)

    @property
    def beats(self) -> Path:
        return self.directory / "beats"

    def done(self) -> list[int]:
        return list(map(int, self.beats.read_text().split())) if self.beats.exists() else []


@asynccontextmanager
async def machines(site: Site, count: int) -> AsyncGenerator[list[Machine]]:
    (site.directory / "served.py").write_text(AGENTS)
    there: list[Machine] = []
    try:
        async with asyncio.timeout(LIMIT_S):
            for number in range(count):
                there.append(await site.machine(f"machine-{number}"))  # noqa: PERF401 - kept for the end one by one
        yield there
    finally:
        for one in there:
            one.end()


async def test_another_machine_takes_over_within_the_lease_and_a_second(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    site = Site(tmp_path, postgres.new_url())
    async with open_postgres(site.url) as world, machines(site, 2) as there:
        session = await Session.open(world, "s-1", agent="beats")
        await session.send(str(BEATS))
        async with asyncio.timeout(LIMIT_S):
            while len(site.done()) < 3:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)
            holder = (await session.head()).worker
            (dead,) = [one for one in there if one.worker == holder]
            os.kill(dead.pid, signal.SIGKILL)
            died_s = SystemClock().now()
            outcome = await session.result(1)
        attempts = [
            record
            for commit in await world.commits("s-1", 0, 1000)
            for record in records_of("s-1", commit)
            if isinstance(record, AttemptOpened)
        ]
    first, second = attempts
    assert first.worker == dead.worker != second.worker
    assert first.host != second.host, "each is a machine of its own"
    assert 0.3 < second.at_s - died_s <= LEASE_S + 1.0, "nothing but the lease tells of a death elsewhere"
    beats = site.done()
    assert sorted(beats) == list(range(BEATS)), "none twice, none left out"
    assert outcome.value.count("in_doubt") <= 1
