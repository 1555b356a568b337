"""The Claude Agent SDK example with the real program: killed after its refund began, and carried on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from examples.sdk_clerk import clerk
from outlast.adapter import Agent
from outlast.gate import Point
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from outlast.tool import Tool
from tests.harnesses.claude_agent_sdk import ClaudeAgentSDKSubject

pytestmark = pytest.mark.timeout(240)

REFUND = ToolUse(name="mcp__shop__refund", input={"order": "81", "cents": 1250})


class ClerkSubject(ClaudeAgentSDKSubject):
    """The example in a worker of its own."""

    recipe = "tests.examples.test_sdk_clerk:SUBJECT"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return clerk


SUBJECT = ClerkSubject()


@pytest.mark.harness(harness="claude-agent-sdk")
async def test_the_example_refunds_at_most_once_when_its_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger.txt"
    monkeypatch.setenv("LEDGER", str(ledger))
    script = {"go": [Step(text="I refund.", tools=(REFUND,)), Step(text="It is refunded, or in doubt.")]}
    async with staged(SUBJECT, tmp_path, script) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "never"))
        outcome = await stage.finish(turn)
        assert (outcome.status, outcome.value) == ("done", "It is refunded, or in doubt."), outcome.error
        assert len(stage.requests()) == 2
    entries = ledger.read_text().count(";") if ledger.exists() else 0
    assert entries <= 1


def test_the_example_fits_a_screen() -> None:
    text = (Path(__file__).parents[2] / "examples" / "sdk_clerk.py").read_text()
    assert len(text.splitlines()) <= 30
