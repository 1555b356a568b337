"""What is Codex's alone: commands that outlive their call, and what reaches a person through its approvals."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from outlast.gate import Point
from outlast.records import CallOutcome, TurnParked
from outlast.rules import ask, deny
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.promises import left_behind
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import LIMIT_S, ended, prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from tests.harnesses.codex import SUBJECT

pytestmark = [pytest.mark.harness(harness="codex"), pytest.mark.full, pytest.mark.timeout(240)]

COMMAND = {
    "go": [Step(text="A command.", tools=(SUBJECT.shell(effect_command("s", "shell")),)), *says("So be it.")]
}


async def test_a_command_that_a_rule_denies_does_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    async with staged(SUBJECT, tmp_path, COMMAND) as stage:
        stage.agent = replace(stage.agent, rules=[deny("exec_command", cmd="printf *", why="It prints.")])
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert stage.effects().all() == []
        (body,) = [stage.models.find_body(one.n) or b"" for one in stage.requests()[1:]]
        assert b"It prints." in body
        await stage.kept()


async def test_a_command_that_a_rule_wants_asked_waits_for_a_person_without_a_process(tmp_path: Path) -> None:
    async with staged(SUBJECT, tmp_path, COMMAND) as stage:
        stage.agent = replace(stage.agent, rules=[ask("exec_command")])
        session = await stage.session()
        turn = await session.send(prompt("go"))
        async with stage.worker():
            with anyio.fail_after(LIMIT_S):
                while not await stage.of_kind(TurnParked):  # noqa: ASYNC110 - the log tells nobody
                    await anyio.sleep(0.05)
            assert not await left_behind(stage.home("s"))
            assert stage.effects().all() == []
            call = await stage.call("exec_command")
            await session.decide(call.call, "allow")
            assert (await ended(turn)).status == "done"
        assert stage.effects().count("shell") == 1
        await stage.kept()


async def test_a_command_that_goes_on_after_its_call_dies_with_the_attempt(tmp_path: Path) -> None:
    late = effect_command("s", "late")
    goes_on = ToolUse(name="exec_command", input={"cmd": f"sleep 3; {late}", "yield_time_ms": 250})
    script = {
        "go": [
            Step(text="It goes on.", tools=(goes_on,)),
            Step(text="Beside it.", tools=(SUBJECT.application("charge", mark="never"),)),
            *says("It is all done."),
        ]
    }
    async with staged(SUBJECT, tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "never"))
        assert (await stage.finish(turn)).status == "done"
        assert stage.effects().count("late") == 0
        outcomes = {one.call: one for one in await stage.of_kind(CallOutcome)}
        command = outcomes[(await stage.call("exec_command")).call]
        assert b"Process running with session ID" in bytes(command.result.json)
        assert outcomes[(await stage.call("charge")).call].status == "in_doubt"


async def test_what_a_rule_of_the_user_allows_runs_and_what_it_forbids_does_not(tmp_path: Path) -> None:
    both = tuple(SUBJECT.shell(command) for command in (effect_command("s", "allowed"), "touch forbidden"))
    script = {"go": [Step(text="Two.", tools=both), *says("So be it.")]}
    rules = tmp_path / "user" / ".codex" / "rules" / "default.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text(
        'prefix_rule(["printf"], "allow")\nprefix_rule(["touch"], "forbidden", justification = "Not here.")\n'
    )
    async with staged(SUBJECT, tmp_path, script) as stage:
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert stage.effects().count("allowed") == 1
        assert not (stage.shop / "forbidden").exists()
        assert b"Not here." in stage.last_body()
        await stage.kept()
