"""The user's own permission rules and hooks, which no worker may overrule."""

import json
from pathlib import Path

import pytest

from outlast.records import CallOutcome
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.models import Step, ToolUse
from tests.harnesses.claude_code import bash
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.full, pytest.mark.timeout(240)]

SHELL = {"go": [Step(text="A command.", tools=(bash(effect_command("s", "shell")),)), *says("So be it.")]}
WHY = "wants a person asked first, and nobody is here to ask"


def settle(stage: Stage, **settings: object) -> None:
    """Write the settings of the project."""
    (stage.shop / ".claude").mkdir()
    (stage.shop / ".claude" / "settings.json").write_text(json.dumps(settings))


def asking(*, when: str = "", pause: str = "") -> object:
    """Hooks that want a person asked about calls in whose input `when` stands."""
    answer = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "ask",
        "permissionDecisionReason": "It is dear.",
    }
    said = json.dumps({"hookSpecificOutput": answer})
    command = f"if grep -q '{when}'; then {pause} echo '{said}'; fi"
    return {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]}


async def tools(stage: Stage) -> list[CallOutcome]:
    """How the tool calls ended, in the order of their calls."""
    ended = sorted(await stage.of_kind(CallOutcome), key=lambda one: one.call)
    return [one for one in ended if one.usage is None]


@pytest.mark.parametrize("what", ["Bash", "Bash(printf *)"])
@pytest.mark.parametrize("rule", ["ask", "deny"])
async def test_a_call_that_a_rule_of_the_users_forbids_or_wants_asked_does_not_run(
    tmp_path: Path, rule: str, what: str
) -> None:
    async with staged(tmp_path, SHELL) as stage:
        settle(stage, permissions={rule: [what]})
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert stage.effects().all() == []
        outcomes = [one for one in await stage.of_kind(CallOutcome) if one.lane == "main"]
        assert [one.status for one in outcomes] == ["ok", "error", "ok"]
        await stage.kept()


@pytest.mark.parametrize("pause", ["", "sleep 0.5;"], ids=["at once", "after ours"])
async def test_a_call_that_a_hook_of_the_users_wants_asked_does_not_run(tmp_path: Path, pause: str) -> None:
    async with staged(tmp_path, SHELL) as stage:
        settle(stage, hooks=asking(pause=pause))
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert stage.effects().all() == []
        (call,) = await tools(stage)
        assert call.status == "error"
        assert WHY in bytes(call.result.json).decode()
        await stage.kept()


async def test_a_hook_that_wants_one_call_asked_holds_back_no_other(tmp_path: Path) -> None:
    look = [ToolUse(name="Read", input={"file_path": f"{name}.txt"}) for name in ("open", "secret", "open")]
    after = bash(effect_command("s", "shell"))
    script = {"go": [Step(text="All of it.", tools=(*look, after)), *says("So be it.")]}
    async with staged(tmp_path, script) as stage:
        settle(stage, hooks=asking(when="secret"))
        for name in ("open", "secret"):
            (stage.shop / f"{name}.txt").write_text(name)
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert [one.status for one in await tools(stage)] == ["ok", "error", "ok", "ok"]
        assert stage.effects().count("shell") == 1
        await stage.kept()
