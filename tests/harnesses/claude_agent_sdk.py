"""The Claude Agent SDK under the adapter contract: a program's own options, hooks and in-process tools."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from outlast.adapter import Agent
from outlast.adapters.claude_code.sdk import ClaudeAgentSDK
from outlast.adapters.claude_code.versions import installed
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.shop import Effect, Effects
from outlast.testing.models import Step, ToolUse
from outlast.tool import Tool
from tests.harnesses.claude_code import MODEL, ClaudeCodeSubject

DESK = "mcp__desk__"


@tool("note", "Write a note down", {"mark": str})
async def note(args: dict[str, Any]) -> dict[str, Any]:
    """A tool of the SDK, in the worker's process."""
    Effects.of("s").add(Effect(args["mark"], f"{DESK}note"))
    return {"content": [{"type": "text", "text": f"noted {args['mark']}"}]}


@tool("look_up", "Look a note up", {"mark": str})
async def look_up(args: dict[str, Any]) -> dict[str, Any]:
    """Another, that may run again."""
    Effects.of("s").add(Effect(args["mark"], f"{DESK}look_up"))
    return {"content": [{"type": "text", "text": f"found {args['mark']}"}]}


async def before(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    """A hook of the program's own."""
    if given["hook_event_name"] == "PreToolUse":
        _seen("hook", given["tool_name"])
    return {}


async def may(name: str, arguments: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
    """The program's own say about a tool."""
    _seen("asked", name)
    if arguments.get("mark") == "forbidden":
        return PermissionResultDeny(message="The program says no.")
    if arguments.get("mark") == "changed":
        return PermissionResultAllow(updated_input={"mark": "another"})
    return PermissionResultAllow()


def _seen(what: str, mark: str) -> None:
    Effects.of("sdk").add(Effect(f"{what} {mark}", "sdk", attempt=os.getpid()))


def _agent(tools: Sequence[Tool], program: Path | None) -> Agent:
    options = ClaudeAgentOptions(
        model=MODEL,
        system_prompt={"type": "preset", "preset": "claude_code"},
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[note, look_up])},
        hooks={"PreToolUse": [HookMatcher(hooks=[before])]},
        can_use_tool=may,
        cli_path=program,
    )
    return Agent(
        "claude-agent-sdk", ClaudeAgentSDK(options, policies={f"{DESK}look_up": "safe"}), tools=tools
    )


class ClaudeAgentSDKSubject(ClaudeCodeSubject):
    """The real Claude Code, with a client of the SDK attached to it."""

    name = "claude-agent-sdk"
    recipe = "tests.harnesses.claude_agent_sdk:SUBJECT"
    lacks: ClassVar[Mapping[str, str]] = {}

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return _agent(tools, None)

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent:
        program = directory / "claude"
        program.symlink_to(installed().program)
        (directory / "claude.version").write_text("999.0.0")
        return _agent(tools, program)

    def desk(self, name: str, mark: str) -> ToolUse:
        """A tool of the in-process server, as the model names it."""
        return ToolUse(name=DESK + name, input={"mark": mark})


SUBJECT = ClaudeAgentSDKSubject()


@asynccontextmanager
async def stage_of(directory: Path, script: Mapping[str, Sequence[Step]]) -> AsyncGenerator[Stage]:
    """A stage for the SDK."""
    subject: Subject = SUBJECT
    async with staged(subject, directory, script) as stage:
        yield stage
