"""A program of the Claude Agent SDK's, with the real Claude Code: its hooks, its say and its tools, and its death."""

from pathlib import Path

import pytest

from outlast.gate import Point
from outlast.records import CallOutcome
from outlast.testing.adapter_contract.kill_cases import LAST, carried_on
from outlast.testing.adapter_contract.stage import prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step
from tests.harnesses.claude_agent_sdk import DESK, SUBJECT, stage_of

pytestmark = [pytest.mark.timeout(240)]

desk = SUBJECT.desk


def script(*marks: str) -> dict[str, list[Step]]:
    notes = tuple(desk("note", mark) for mark in marks)
    return {
        "go": [
            Step(text="I note.", tools=notes),
            Step(text="I look.", tools=(desk("look_up", "x"),)),
            *says(LAST),
        ]
    }


@pytest.mark.harness(harness="claude-agent-sdk")
async def test_hooks_permissions_and_in_process_tools_of_the_program_work(tmp_path: Path) -> None:
    async with stage_of(tmp_path, script("a", "forbidden", "changed")) as stage:
        outcome = await stage.finish(await stage.send(prompt("go"), id="go"))
        assert outcome.status == "done", outcome.error
        seen = [one.mark for one in stage.effects("sdk").all()]
        assert [one.mark for one in stage.effects().all()] == ["a", "x"]
        assert seen.count(f"hook {DESK}note") == seen.count(f"asked {DESK}note") == 3
        ended = sorted(one.status for one in await stage.of_kind(CallOutcome) if not one.usage)
        assert ended.count("ok") == 2
        assert b"The program says no." in (stage.models.find_body(stage.requests()[1].n) or b"")


@pytest.mark.harness(harness="claude-agent-sdk")
@pytest.mark.full
@pytest.mark.parametrize(
    "spot",
    [
        Spot(Point.IN_EFFECT, "model"),
        Spot(Point.AFTER_OUTCOME, "model"),
        Spot(Point.AFTER_START, "never"),
        Spot(Point.AFTER_START, "safe"),
        Spot(Point.AFTER_OUTCOME, "never"),
    ],
    ids=str,
)
async def test_another_worker_goes_on_with_the_program(tmp_path: Path, spot: Spot) -> None:
    async with stage_of(tmp_path, script("a")) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        await carried_on(stage, lost_answers=spot.point is Point.IN_EFFECT)
        assert stage.effects().count("a") <= 1


@pytest.mark.harness(harness="claude-agent-sdk")
@pytest.mark.full
async def test_a_second_death_during_the_recovery_costs_nothing_either(tmp_path: Path) -> None:
    async with stage_of(tmp_path, script("a")) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "never"), Spot(Point.AFTER_OUTCOME, "model"))
        await carried_on(stage, lost_answers=0)
        assert stage.effects().count("a") <= 1
