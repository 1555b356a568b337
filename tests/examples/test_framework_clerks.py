"""The examples made with frameworks under real workers: killed by SIGKILL, carried on by the command line."""

import asyncio
import os
import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.engine.processes import supervisor_argv
from outlast.gate import Point
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.testing.models import Script, ScriptedModels, Step, ToolUse
from outlast.worlds.sqlite import open_sqlite

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

ROOT = Path(__file__).parents[2]
LIMIT_S = 200.0
REFUND = Step(tools=(ToolUse(name="refund", input={"order": "81", "cents": 1250}),))
END = Step(text="It is refunded.")


@dataclass(frozen=True, slots=True)
class Clerk:
    """An example, and how its model speaks."""

    module: str
    story: tuple[Step, ...]


CLERKS = {
    "pydantic": Clerk("examples.pydantic_clerk", (REFUND, END)),
    "openai": Clerk(
        "examples.openai_clerk", (Step(tools=(ToolUse(name="transfer_to_billing"),)), REFUND, END)
    ),
}
SPOTS = [
    Spot(point, policy)
    for policy in ("model", "never")
    for point in (Point.IN_EFFECT, Point.AFTER_EFFECT, Point.AFTER_OUTCOME, Point.DELIVERED)
]


async def _run(directory: Path, models: ScriptedModels, *argv: str) -> tuple[int, str]:
    told = {
        "OUTLAST_WORLD": f"sqlite:{directory / 'world.db'}",
        "OUTLAST_DATA_DIR": str(directory),
        "OUTLAST_LEASE_S": "60",
        "LEDGER": str(directory / "ledger.txt"),
        "ANTHROPIC_BASE_URL": models.base_url,
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_BASE_URL": f"{models.base_url}/v1",
        "OPENAI_API_KEY": "none",
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


async def _die(directory: Path, models: ScriptedModels, clerk: Clerk, spot: Spot, name: str) -> None:
    locks = directory / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    office = [sys.executable, "-m", "tests.examples.framework_office", clerk.module]
    argv = [*office, str(spot.point), spot.policy, str(spot.nth)]
    code, said = await _run(directory, models, *supervisor_argv(argv, lock=locks / name, ttl_s=LIMIT_S))
    assert code == 128 + signal.SIGKILL, said


async def _killed_and_carried_on(directory: Path, clerk: Clerk, *deaths: Spot) -> None:
    directory.mkdir(exist_ok=True)
    async with (
        ScriptedModels.serve(Script(conversations={"default": clerk.story})) as models,
        open_sqlite(directory / "world.db") as world,
    ):
        session = await Session.open(world, "ticket-81", agent="clerk")
        await session.send("Refund order 81", id="in-1")
        for number, spot in enumerate(deaths):
            await _die(directory, models, clerk, spot, f"victim-{number}")
        work = [sys.executable, "-m", "outlast.cli", "work", f"{clerk.module}:clerk", "--once"]
        code, said = await _run(directory, models, *work)
        assert code == 0, said
        outcome = await session.result(1)
        asked = len(models.requests)
    assert (outcome.status, outcome.value) == ("done", "It is refunded."), f"{deaths}: {outcome.error}"
    ledger = directory / "ledger.txt"
    entries = ledger.read_text().splitlines() if ledger.exists() else []
    assert len(entries) <= 1, f"{deaths}: {entries}"
    open_s = sum(spot.policy == "model" and "effect" in spot.point for spot in deaths)
    assert len(clerk.story) <= asked <= len(clerk.story) + open_s, f"{deaths}: {asked}"


@pytest.mark.parametrize("name", CLERKS)
async def test_a_clerk_goes_on_where_its_worker_is_killed_at_a_point_drawn_by_the_seed(
    tmp_path: Path, name: str, seed: int
) -> None:
    spot = random.Random(f"{seed}-{name}").choice(SPOTS)
    await _killed_and_carried_on(tmp_path / "case", CLERKS[name], spot)


@pytest.mark.parametrize("name", CLERKS)
async def test_a_clerk_goes_on_after_a_second_kill_during_the_recovery(tmp_path: Path, name: str) -> None:
    tool, model = Spot(Point.IN_EFFECT, "never"), Spot(Point.AFTER_EFFECT, "model")
    await _killed_and_carried_on(tmp_path / "case", CLERKS[name], tool, model)


@pytest.mark.full
@pytest.mark.parametrize("name", CLERKS)
async def test_a_clerk_goes_on_wherever_its_worker_is_killed(tmp_path: Path, name: str, seed: int) -> None:
    # Some of them: of the adapter itself the contract takes each, and its unit test every single crossing.
    for number, spot in enumerate(random.Random(f"{seed}-{name}-wherever").sample(SPOTS, 3)):
        await _killed_and_carried_on(tmp_path / str(number), CLERKS[name], spot)
