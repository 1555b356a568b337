"""The refund example under real workers: SIGKILL at every point of the refund tool under each policy.

The victim kills its own process; the heir, and the person, are the real command line. The ledger is a file outside.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from examples.refund import Ledger, support_of
from outlast.engine.processes import supervisor_argv
from outlast.records import CallOutcome, Decided
from outlast.records.kinds import OnDoubt, Policy
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.worlds.memory import open_memory
from outlast.worlds.sqlite import open_sqlite
from tests.examples.clerk import ORDER, Clerk
from tests.examples.test_refund import MANNERS, tool_spots
from tests.unit.engine_desk import records

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
LEASE_S = 60.0
"""Starting several programs at once may take long; a killed one is proved dead at once, whatever its lease."""
FOR_SURE: Sequence[Policy] = ("verify", "keyed", "safe")
"""Under these nobody is ever asked, nor told that nobody knows."""


@dataclass
class Office:
    """Where the processes of one case live."""

    directory: Path
    policy: Policy
    on_doubt: OnDoubt

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.directory / "ledger.db")

    async def run(self, *argv: str) -> tuple[int, str]:
        """A program to its end. Returns how it ended, and what it said."""
        told = {
            "OUTLAST_WORLD": f"sqlite:{self.directory / 'world.db'}",
            "OUTLAST_DATA_DIR": str(self.directory),
            "OUTLAST_LEASE_S": f"{LEASE_S:g}",
            "REFUND_LEDGER": str(self.directory / "ledger.db"),
            "REFUND_POLICY": self.policy,
            "REFUND_ON_DOUBT": self.on_doubt,
        }
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=ROOT,
            env={**os.environ, **told},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                said, _ = await process.communicate()
        except BaseException:
            process.kill()
            raise
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def outlast(self, *words: str) -> str:
        """A command, which must succeed."""
        code, said = await self.run(sys.executable, "-m", "outlast.cli", *words)
        assert code == 0, said
        return said

    async def die(self, spot: Spot) -> None:
        """A worker that is gone as soon as it comes to the spot."""
        locks = self.directory / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        where = (str(spot.point), spot.policy, str(spot.nth))
        argv = [sys.executable, "-m", "tests.examples.refund_office", *where]
        code, said = await self.run(*supervisor_argv(argv, lock=locks / "victim", ttl_s=LIMIT_S))
        assert code == 128 + signal.SIGKILL, said

    async def work(self) -> None:
        await self.outlast("work", "tests.examples.refund_office:clerk", "--once")

    async def decide(self, session: Session) -> None:
        """Two people look into the ledger and say what is there, both at once; later one of them says it again."""
        shown = msgspec.json.decode(await self.outlast("show", session.id, "--json"))
        (awaited,) = shown["open_turn"]["awaits"]
        found = self.ledger.find(ORDER)
        word = ["--run-again"] if found is None else ["--done", msgspec.json.encode(found).decode()]
        words = ["decide", session.id, str(awaited["call"]), *word]
        await asyncio.gather(
            self.outlast(*words, "--by", "ann"),
            self.outlast(*words, "--by", "bob"),
        )
        code, said = await self.run(sys.executable, "-m", "outlast.cli", *words[:3], "--failed", "no refund")
        assert code != 0, said
        await self.outlast(*words)  # the same again is the same decision


async def killed_and_carried_on(directory: Path, policy: Policy, on_doubt: OnDoubt, spot: Spot) -> None:
    directory.mkdir(exist_ok=True)
    office = Office(directory, policy, on_doubt)
    agent = support_of(Clerk(), office.ledger, policy, on_doubt)
    async with open_sqlite(directory / "world.db") as world:
        session = await Session.open(world, "ticket-81", agent=agent)
        await session.send("Refund order 81: 1250 cents", id="in-1")
        await office.die(spot)
        await office.work()
        if (await session.head()).turn_open:
            assert (policy, on_doubt) == ("never", "ask"), f"{spot}: the turn ends without a person"
            await office.decide(session)
            await office.work()
        outcome = await session.result(1)
        log = await records(world, "ticket-81")
    assert (outcome.status, outcome.value) == ("done", "Done: refunded 1250 cents of order 81."), str(spot)
    assert office.ledger.count(ORDER) == 1, str(spot)
    decided = [one for one in log if isinstance(one, Decided)]
    assert len(decided) <= (on_doubt == "ask"), "a decision counts once"
    if policy in FOR_SURE:
        assert {one.status for one in log if isinstance(one, CallOutcome)} == {"ok"}, str(spot)


async def spots_of(directory: Path, policy: Policy, on_doubt: OnDoubt) -> list[Spot]:
    async with open_memory() as world:
        return await tool_spots(
            world, support_of(Clerk(), Ledger(directory / "uncut.db"), policy, on_doubt), policy
        )


@pytest.mark.parametrize(("policy", "on_doubt"), MANNERS)
async def test_the_refund_is_made_once_where_a_worker_is_killed_at_a_point_drawn_by_the_seed(
    tmp_path: Path, policy: Policy, on_doubt: OnDoubt, seed: int
) -> None:
    where = await spots_of(tmp_path, policy, on_doubt)
    if (policy, on_doubt) == ("never", "ask"):  # here it is known where somebody is asked
        where = [spot for spot in where if "effect" in spot.point]
    spot = random.Random(f"{seed}-{policy}-{on_doubt}").choice(where)
    await killed_and_carried_on(tmp_path / "case", policy, on_doubt, spot)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("policy", "on_doubt"), MANNERS)
async def test_the_refund_is_made_once_wherever_a_worker_is_killed(
    tmp_path: Path, policy: Policy, on_doubt: OnDoubt
) -> None:
    for number, spot in enumerate(await spots_of(tmp_path, policy, on_doubt)):
        await killed_and_carried_on(tmp_path / f"case-{number}", policy, on_doubt, spot)
