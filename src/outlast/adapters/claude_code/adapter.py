"""The Claude Code adapter (`outlast.adapter.Adapter`)."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from outlast.adapter import Attempt, Process, Resolved, TurnResult
from outlast.adapters.claude_code import launch
from outlast.adapters.claude_code.adoption import adopt
from outlast.adapters.claude_code.commands import shell_use
from outlast.adapters.claude_code.dialogue import ClaudeCodeDialogue
from outlast.adapters.claude_code.driver import Driver
from outlast.adapters.claude_code.edits import inquiry_of
from outlast.adapters.claude_code.files import SessionFiles
from outlast.adapters.claude_code.policies import application_tool, policy_of
from outlast.adapters.claude_code.terminal import settings_of
from outlast.adapters.claude_code.typed import TypedClaudeCode
from outlast.adapters.claude_code.user import link_user_files
from outlast.adapters.claude_code.versions import installed
from outlast.adapters.program import is_users_directory, known_as, past_proxies, shown_cwd, tools_home
from outlast.adapters.shell_inquiry import inquiry_of as shell_inquiry_of
from outlast.adopting import Adopted
from outlast.attaching import PDF, TEXT
from outlast.inquiry import Inquiry
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.workspace_tools import workspace_tools
from outlast.wrapping import Seat

_SPAWNING = frozenset({"Agent", "Task"})

Around: TypeAlias = Callable[[Process], AbstractAsyncContextManager[Process]]


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """Claude Code, unmodified, as the harness of an agent.

    Args:
        model: what it asks the provider for; empty: its own choice. A session records it when it is opened.
        flags: more flags for its command line, the same at every start.
        program: another program than the one inside `claude-agent-sdk`.
        policies: replay policies by tool name or pattern, above the built-in table.
    """

    model: str = ""
    flags: Sequence[str] = ()
    program: Path | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def name(self) -> str:
        return "claude-code"

    @property
    def abilities(self) -> Abilities:
        return Abilities("one", waits=True, program=True, attachments=MEDIA_TYPES | {PDF, TEXT})

    def versions(self) -> Mapping[str, str]:
        return {"claude-code": installed(self.program).version}

    def settings(self) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {"model": self.model} if self.model else {}
        return {**chosen, "flags": list(self.flags)} if self.flags else chosen

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return "anthropic"

    def check(self) -> Sequence[str]:
        warning = installed(self.program).warning
        return [] if warning is None else [warning]

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        ours = application_tool(name)
        if ours is not None:
            tool = tools.get(ours)
            if tool is not None:
                return Resolved(ours, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)
            # Another server's whose name begins like ours, or nobody's: if it runs at all, then in the harness.
        spawns = str(arguments.get("prompt", "")) if name in _SPAWNING else ""
        policy = policy_of(name, arguments, self.policies)
        inquiry, shell = _inquiry_of(name, arguments), shell_use(name, arguments)
        return Resolved(name, "harness", policy, spawns=spawns, inquiry=inquiry, shell=shell)

    @property
    def keeps(self) -> Collection[str]:
        """See `outlast.offering.Offers`."""
        return ()

    def offered(self, settings: Mapping[str, Any]) -> Sequence[Tool]:
        """See `outlast.offering.Offers`: over MCP, since no tool of another's can have a name of Claude Code's."""
        return workspace_tools()

    def adopt(self, transcript: Path, home: Path) -> Adopted:
        """See `outlast.adopting.Adopts`; `transcript` is a file below `~/.claude/projects`."""
        return adopt(transcript, home, os.environ)

    def terminal_settings(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """See `outlast.wrapping.Wraps`."""
        return settings_of(flags)

    def wrap(self, seat: Seat) -> TypedClaudeCode:
        """See `outlast.wrapping.Wraps`."""
        return TypedClaudeCode(self, self.program, seat)

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: Claude Code cannot be started, or ended before its turn.
        """
        settings = attempt.settings
        flags = [str(flag) for flag in settings.get("flags") or ()]
        return await carry(attempt, self.program, model=str(settings.get("model", "")), flags=flags)


async def carry(
    attempt: Attempt,
    program: Path | None,
    *,
    model: str,
    flags: Sequence[str],
    inherited: Mapping[str, str] = os.environ,
    around: Around = nullcontext,
) -> TurnResult:
    """Carry a turn of Claude Code on.

    Args:
        inherited: what its environment is made of.
        around: stands between the process and whoever drives it.

    Raises:
        HarnessError: Claude Code cannot be started, or ended before its turn.
    """
    uuid = _uuid_of(attempt)
    files = SessionFiles(attempt, uuid)
    ready = await files.prepare()
    if ready.over is not None:
        return TurnResult("done", ready.over)
    local = is_users_directory(attempt)
    if local:
        link_user_files(attempt.places.home / launch.CONFIG, os.environ)
    offered = [f"mcp__{launch.SERVER}__{name}" for name in attempt.tools]
    shown = shown_cwd(attempt)
    dialogue = ClaudeCodeDialogue(uuid, offered, bare=bool(shown))
    async with attempt.gateway.admit(attempt, dialogue) as door:
        started = launch.Launch(
            program=installed(program).program,
            session=uuid,
            home=attempt.places.home,
            door=door,
            model=model,
            flags=flags,
            tools=bool(attempt.tools),
            tool_home=tools_home(attempt),
            direct=past_proxies(inherited),
            shell=attempt.places.shell,
            shown=shown,
        )
        argv = launch.argv(started, resume=ready.resume)
        env = launch.environment(started, inherited, go_on=not ready.say_prompt)
        async with (
            attempt.processes.start(argv, env=env, cwd=attempt.places.cwd) as process,
            around(process) as driven,
        ):
            return await Driver(attempt, files, driven, dialogue).run(say_prompt=ready.say_prompt)


def _uuid_of(attempt: Attempt) -> str:
    """The session's name in Claude Code: its own where it was adopted."""
    adopted = attempt.settings.get("session")
    return str(adopted) if adopted else launch.session_uuid(attempt.tenant, known_as(attempt))


def _inquiry_of(name: str, arguments: Mapping[str, Any]) -> Inquiry | None:
    """What can be asked about a call of a tool of its own."""
    return shell_inquiry_of(arguments.get("command")) if name == "Bash" else inquiry_of(name, arguments)
