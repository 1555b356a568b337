"""Two versions of workers on one World, while the newer is brought in: real processes, a real SIGKILL of the newer."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from outlast.codec import decode_records
from outlast.engine.processes import supervisor_argv
from outlast.errors import FormatTooNew
from outlast.records import FORMAT, PLAIN, AttemptOpened
from outlast.session import Session
from outlast.world import SessionHead, World
from outlast.worlds.sqlite import SqliteWorld, open_sqlite
from tests.crash.versions import NEWER, Orders

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

LIMIT_S = 30.0
PROGRAM = Path(__file__).with_name("versions.py")
ROOT = Path(__file__).parents[2]


@dataclass
class Firm:
    """A World, and workers of several versions on it."""

    directory: Path
    world: SqliteWorld

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger"

    def done(self, session: str) -> Counter[str]:
        """What was done outside for a session, by tool."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(line.partition(" ")[2] for line in lines if line.startswith(f"{session} "))

    @asynccontextmanager
    async def worker(
        self,
        name: str,
        *,
        newer_outlast: bool = False,
        newer_code: bool = False,
        only: str = "",
        fatal: str = "",
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """A worker; when the context ends it is told to end, unless it is dead."""
        told = Orders(
            world=str(self.directory / "world.db"),
            data=str(self.directory / "data"),
            ledger=str(self.ledger),
            name=name,
            newer_outlast=newer_outlast,
            newer_code=newer_code,
            only=only or None,
            fatal=fatal,
        )
        locks = self.directory / "data" / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, str(PROGRAM), msgspec.json.encode(told).decode()]
        process = await asyncio.create_subprocess_exec(
            *supervisor_argv(argv, lock=locks / name, ttl_s=LIMIT_S),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            },
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            async with asyncio.timeout(LIMIT_S):
                assert await process.stdout.readline() == b"ready\n"
            yield process
            process.stdin.close()
            async with asyncio.timeout(LIMIT_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def opened(self, session: str, prompt: str) -> Session:
        found = await Session.open(self.world, session, agent="order")
        await found.send(prompt, id="in-1")
        return found

    async def until(self, session: str, stands: Callable[[SessionHead], bool]) -> SessionHead:
        """Wait until the session stands so."""
        async with asyncio.timeout(LIMIT_S), self.world.subscribe(session) as hints:
            while not stands(head := await self.world.get(session)):
                await hints.wait(1.0)
            return head


@pytest.fixture
async def firm(tmp_path: Path) -> AsyncGenerator[Firm]:
    async with open_sqlite(tmp_path / "world.db") as world:
        yield Firm(tmp_path, world)


def _ended(head: SessionHead) -> bool:
    return not head.turn_open and not head.waiting_inputs and head.worker is None


async def _attempts(world: World, session: str) -> list[tuple[int, str]]:
    """Format and outlast's version of each attempt."""
    # What is read here is the same in both formats.
    return [
        (commit.header.format, record.versions["outlast"])
        for commit in await world.commits(session)
        for record in decode_records(commit.body, session=session, seq=commit.header.seq, format=1)
        if isinstance(record, AttemptOpened)
    ]


async def test_an_older_outlast_leaves_what_a_newer_began_and_carries_on_with_the_rest(firm: Firm) -> None:
    newer_s = await firm.opened("touched", "go")
    async with firm.worker("newer", newer_outlast=True, only="touched", fatal="ship") as newer:
        async with asyncio.timeout(LIMIT_S):
            await newer.wait()
    left = await firm.world.get("touched")
    assert (left.format, left.worker, left.turn_open) == (FORMAT + 1, "newer", True)
    assert firm.done("touched") == {"reserve": 1, "ship": 1}
    with pytest.raises(FormatTooNew, match=f"format {FORMAT + 1}"):
        await newer_s.state()
    async with firm.worker("older"):
        for session in ("one", "two"):
            await firm.opened(session, "go")
            await firm.until(session, _ended)
            assert firm.done(session) == {"reserve": 1, "ship": 1}
    assert await firm.world.get("touched") == left, "it was not touched"
    assert firm.done("touched") == {"reserve": 1, "ship": 1}
    async with firm.worker("newer-2", newer_outlast=True):
        await firm.until("touched", _ended)
    assert firm.done("touched") == {"reserve": 1, "ship": 1}, "what may have happened was not done again"
    attempts = await _attempts(firm.world, "touched")
    assert attempts == [(FORMAT + 1, NEWER)] * 2
    ours = {entry for session in ("one", "two") for entry in await _attempts(firm.world, session)}
    assert {format_ for format_, _ in ours} == {PLAIN}
    assert NEWER not in {version for _, version in ours}


async def test_older_code_parks_a_turn_of_newer_code_and_newer_code_carries_on_with_both(firm: Firm) -> None:
    async with firm.worker("older"):
        old = await firm.opened("old-turn", "wait")
        await firm.until("old-turn", lambda head: "waiting" in head.status and head.worker is None)
    async with firm.worker("newer", newer_code=True, only="new-turn", fatal="ship") as newer:
        new = await firm.opened("new-turn", "go")
        async with asyncio.timeout(LIMIT_S):
            await newer.wait()
    async with firm.worker("older-2"):
        parked = await firm.until("new-turn", lambda head: head.parked)
        assert "diverged" in parked.status
    assert firm.done("new-turn") == {"reserve": 1, "check": 1, "ship": 1}, "the older did nothing"
    async with firm.worker("newer-2", newer_code=True):
        await new.retry()
        await old.signal("paid")
        for session in ("new-turn", "old-turn"):
            await firm.until(session, _ended)
    assert firm.done("new-turn") == {"reserve": 1, "check": 1, "ship": 1}
    assert firm.done("old-turn") == {"reserve": 1, "ship": 1}, "it went on the way it began"
    assert [(await session.result(1)).status for session in (old, new)] == ["done", "done"]
