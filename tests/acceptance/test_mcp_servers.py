"""MCP servers that the user brings, each in the way of its harness: their calls are journalled like any other."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.codex import Codex
from outlast.adapters.opencode import OpenCode
from outlast.records import CallIntent
from outlast.records.kinds import Policy
from outlast.rules import deny
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.shop import EFFECTS
from outlast.testing.adapter_contract.stage import prompt, says, until
from outlast.testing.models import Step, ToolUse
from outlast.tool import Tool
from tests.harnesses import claude_code, codex, opencode

pytestmark = [pytest.mark.full, pytest.mark.timeout(240)]

PROGRAM = [sys.executable, str(Path(__file__).with_name("harbour.py"))]


def harbour(effects: Path) -> dict[str, object]:
    """How the server is started, in the words of Claude Code and Codex."""
    return {"command": PROGRAM[0], "args": [PROGRAM[1], str(effects / "s.jsonl")]}


def effects_of_stage() -> Path:
    return Path(os.environ[EFFECTS])


class InTheProject(claude_code.ClaudeCodeSubject):
    """Claude Code in a project with an `.mcp.json` that its settings let in."""

    recipe = "tests.acceptance.test_mcp_servers:IN_THE_PROJECT"

    def furnish(self, place: Path) -> None:
        servers = {"harbour": {**harbour(place.parent / "effects"), "alwaysLoad": True}}
        (place / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        (place / ".claude").mkdir()
        (place / ".claude" / "settings.json").write_text(json.dumps({"enabledMcpjsonServers": ["harbour"]}))

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(
            self.name, ClaudeCode(model=claude_code.MODEL, policies=policies("mcp__harbour__")), tools=tools
        )


class ByFlag(claude_code.ClaudeCodeSubject):
    """Claude Code with `--mcp-config`."""

    recipe = "tests.acceptance.test_mcp_servers:BY_FLAG"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        servers = {"harbour": {**harbour(effects_of_stage()), "alwaysLoad": True}}
        flags = ["--mcp-config", json.dumps({"mcpServers": servers})]
        adapter = ClaudeCode(model=claude_code.MODEL, flags=flags, policies=policies("mcp__harbour__"))
        return Agent(self.name, adapter, tools=tools)


class InCodex(codex.CodexSubject):
    """Codex with a server in the configuration that it is given."""

    recipe = "tests.acceptance.test_mcp_servers:IN_CODEX"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        config = {"mcp_servers": {"harbour": {**harbour(effects_of_stage()), "required": True}}}
        adapter = Codex(model=codex.MODEL, config=config, policies=policies("mcp__harbour__"))
        return Agent(self.name, adapter, tools=tools)


class InOpenCode(opencode.OpenCodeSubject):
    """OpenCode in a project whose `opencode.json` names the server."""

    recipe = "tests.acceptance.test_mcp_servers:IN_OPENCODE"

    def furnish(self, place: Path) -> None:
        command = [*PROGRAM, str(place.parent / "effects" / "s.jsonl")]
        (place / "opencode.json").write_text(
            json.dumps({"mcp": {"harbour": {"type": "local", "command": command}}})
        )

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, OpenCode(model=opencode.MODEL, policies=policies("harbour_")), tools=tools)


def policies(prefix: str) -> Mapping[str, Policy]:
    """What the user says of the server's tools."""
    return {f"{prefix}spy": "safe"}


IN_THE_PROJECT, BY_FLAG, IN_CODEX, IN_OPENCODE = InTheProject(), ByFlag(), InCodex(), InOpenCode()
EACH = [
    pytest.param(IN_THE_PROJECT, "mcp__harbour__", id="claude-code", marks=pytest.mark.harness),
    pytest.param(BY_FLAG, "mcp__harbour__", id="claude-code by flag", marks=pytest.mark.harness),
    pytest.param(IN_CODEX, "mcp__harbour__", id="codex", marks=pytest.mark.harness(harness="codex")),
    pytest.param(IN_OPENCODE, "harbour_", id="opencode", marks=pytest.mark.harness(harness="opencode")),
]


def steps_of(subject: Subject, *asked: ToolUse) -> Sequence[Step]:
    """A step for each call; Codex offers tools of other servers once they were searched for."""
    search = ToolUse(name="tool_search", input={"query": "moor sink spy a ship"})
    uses = [search, *asked] if subject is IN_CODEX else asked
    return [*(Step(text="A ship.", tools=(one,)) for one in uses), *says("So be it.")]


async def calls_of(stage: Stage, prefix: str) -> Mapping[str, CallIntent]:
    """The calls of the server's tools, by name."""
    intents = await stage.of_kind(CallIntent)
    return {one.name.removeprefix(prefix): one for one in intents if one.name.startswith(prefix)}


@pytest.mark.parametrize(("subject", "prefix"), EACH)
async def test_calls_of_a_users_mcp_server_stand_in_the_log_and_behind_the_rules(
    tmp_path: Path, subject: Subject, prefix: str
) -> None:
    asked = tuple(ToolUse(name=prefix + name, input={"mark": name}) for name in ("moor", "sink", "spy"))
    script = {"go": steps_of(subject, *asked)}
    async with staged(subject, tmp_path, script) as stage:
        stage.agent = replace(stage.agent, rules=[deny(f"{prefix}sink", why="We sink nobody.")])
        assert str(await stage.finish(await stage.send(prompt("go")))) == "So be it."
        calls = await calls_of(stage, prefix)
        assert {name: intent.policy for name, intent in calls.items()} == {
            "moor": "never",
            "sink": "never",
            "spy": "safe",
        }
        outcomes = (await stage.evidence()).outcomes()
        assert [outcomes[intent.call].status for intent in calls.values()] == ["ok", "error", "ok"]
        assert [effect.mark for effect in stage.effects().all()] == ["moor", "spy"]
        assert b"moor is moored" in stage.last_body()
        assert b"We sink nobody." in stage.last_body()
        await stage.kept()


@pytest.mark.parametrize(("subject", "prefix"), EACH)
async def test_a_call_of_a_users_mcp_server_killed_while_it_runs_is_in_doubt_and_not_repeated(
    tmp_path: Path, subject: Subject, prefix: str
) -> None:
    tool = ToolUse(name=f"{prefix}moor", input={"mark": "never", "until": "for ever"})
    script = {"go": steps_of(subject, tool)}
    async with staged(subject, tmp_path, script) as stage:
        turn = await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until(lambda: stage.effects().count("never") == 1)
        victim.kill()
        await victim.death()
        stage.forget_home()
        assert str(await stage.finish(turn)) == "So be it."
        evidence = await stage.evidence()
        (intent,) = (await calls_of(stage, prefix)).values()
        assert (intent.policy, evidence.outcomes()[intent.call].status) == ("never", "in_doubt")
        assert stage.effects().count("never") == 1
        assert b"not known whether this call took effect" in stage.last_body(), "the model is told"
        await stage.kept()
