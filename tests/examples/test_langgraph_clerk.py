"""The LangGraph example under real workers: killed by SIGKILL, carried on by the command line, and killed again."""

import asyncio
import os
import random
import signal
import sys
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
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
STORY = (
    Step(tools=(ToolUse(name="refund", input={"order": "81", "cents": 1250}),)),
    Step(tools=(ToolUse(name="refund", input={"order": "82", "cents": 700}),)),
    Step(text="Both are refunded."),
)
SPOTS = [
    Spot(point, policy, nth)
    for policy, points in {
        "model": (
            Point.AFTER_INTENT,
            Point.IN_EFFECT,
            Point.AFTER_EFFECT,
            Point.AFTER_OUTCOME,
            Point.DELIVERED,
        ),
        "never": (
            Point.BEFORE_START,
            Point.AFTER_START,
            Point.IN_EFFECT,
            Point.AFTER_EFFECT,
            Point.DELIVERED,
        ),
    }.items()
    for point in points
    for nth in (1, 2)
]


async def _run(directory: Path, models: ScriptedModels, *argv: str) -> tuple[int, str]:
    told = {
        "OUTLAST_WORLD": f"sqlite:{directory / 'world.db'}",
        "OUTLAST_DATA_DIR": str(directory),
        "OUTLAST_LEASE_S": "60",
        "LEDGER": str(directory / "ledger.txt"),
        "ANTHROPIC_BASE_URL": models.base_url,
        "ANTHROPIC_API_KEY": "none",
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


async def _die(directory: Path, models: ScriptedModels, spot: Spot, name: str) -> None:
    locks = directory / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    argv = [
        sys.executable,
        "-m",
        "tests.examples.langgraph_office",
        str(spot.point),
        spot.policy,
        str(spot.nth),
    ]
    code, said = await _run(directory, models, *supervisor_argv(argv, lock=locks / name, ttl_s=LIMIT_S))
    assert code == 128 + signal.SIGKILL, said


async def _killed_and_carried_on(directory: Path, *deaths: Spot) -> None:
    directory.mkdir(exist_ok=True)
    async with (
        ScriptedModels.serve(Script(conversations={"default": STORY})) as models,
        open_sqlite(directory / "world.db") as world,
    ):
        session = await Session.open(world, "ticket-81", agent="clerk")
        await session.send("Refund orders 81 and 82", id="in-1")
        for number, spot in enumerate(deaths):
            await _die(directory, models, spot, f"victim-{number}")
        code, said = await _run(
            directory,
            models,
            sys.executable,
            "-m",
            "outlast.cli",
            "work",
            "examples.langgraph_clerk:clerk",
            "--once",
        )
        assert code == 0, said
        outcome = await session.result(1)
        asked = len(models.requests)
    assert (outcome.status, outcome.value) == ("done", "Both are refunded."), f"{deaths}: {outcome.error}"
    ledger = directory / "ledger.txt"
    entries = ledger.read_text().split("; ")[:-1] if ledger.exists() else []
    assert len(entries) == len(set(entries)), f"{deaths}: {entries}"
    unsettled = sum(
        spot.policy == "model" and spot.point in {Point.IN_EFFECT, Point.AFTER_EFFECT} for spot in deaths
    )
    assert 3 <= asked <= 3 + unsettled, f"{deaths}: {asked}"


async def test_the_graph_goes_on_where_a_worker_is_killed_at_a_point_drawn_by_the_seed(
    tmp_path: Path, seed: int
) -> None:
    spot = random.Random(f"{seed}-langgraph").choice(SPOTS)
    await _killed_and_carried_on(tmp_path / "case", spot)


async def test_the_graph_goes_on_after_a_second_kill_during_the_recovery(tmp_path: Path) -> None:
    tool, model = Spot(Point.IN_EFFECT, "never", 1), Spot(Point.AFTER_EFFECT, "model", 1)
    await _killed_and_carried_on(tmp_path / "case", tool, model)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_the_graph_goes_on_wherever_a_worker_is_killed(tmp_path: Path, seed: int) -> None:
    # Some of them: of the adapter itself the contract takes each, and test_langgraph_turns.py every single crossing.
    for number, spot in enumerate(random.Random(f"{seed}-wherever").sample(SPOTS, 5)):
        await _killed_and_carried_on(tmp_path / f"case-{number}", spot)


def test_the_example_fits_a_screen() -> None:
    assert len((ROOT / "examples" / "langgraph_clerk.py").read_text().splitlines()) <= 30
