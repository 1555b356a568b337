"""The Claude Agent SDK: the options of a program of one's own, and what hangs on them, in a turn.

Claude Code runs behind the same gates as under `ClaudeCode`; a client of the SDK is attached to it. So the hooks of the
options, `can_use_tool` and the tools of in-process MCP servers run in the worker, as they do in the program that the
options come from.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from outlast.adapter import Attempt, Process, Resolved, TurnResult
from outlast.adapters.claude_code.adapter import ClaudeCode, carry
from outlast.adapters.claude_code.shared import SharedProcess, SharedTransport
from outlast.errors import BadInput
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool

OnMessage: TypeAlias = Callable[[Message], Awaitable[None]]

_OURS: Final = frozenset(
    {
        "--input-format",
        "--output-format",
        "--permission-mode",
        "--permission-prompt-tool",
        "--setting-sources",
    }
)
"""Flags with a value that every start has anyway."""
_ALONE: Final = frozenset({"--verbose", "--session-mirror", "--include-hook-events"})
_REFUSED: Final = (
    "resume", "continue_conversation", "fork_session", "session_id", "settings", "sandbox",
    "permission_prompt_tool_name",
)  # fmt: skip
"""Options that say what a session says already, or that the gates stand on."""


@dataclass(frozen=True, slots=True)
class ClaudeAgentSDK:
    """A program that uses the Claude Agent SDK, as the harness of an agent.

    A turn is one prompt. The tools of the options' in-process MCP servers run in the worker, once: their calls are
    journalled like those of Claude Code's own tools, under the name `mcp__<server>__<tool>`, and unlisted ones are
    `never` run again.

    Args:
        options: the program's own. What a session says already (`cwd`, `resume`, `session_id` …) is not read or is
            refused.
        policies: replay policies by tool name or pattern, above the built-in table.
        on_message: is told each message that the SDK would yield, and may be told it again after a take-over.
    """

    options: ClaudeAgentOptions = field(default_factory=ClaudeAgentOptions)
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    on_message: OnMessage | None = None

    def __post_init__(self) -> None:
        """Refuse options that cannot hold in a turn.

        Raises:
            BadInput
        """
        wrong = [name for name in _REFUSED if getattr(self.options, name)]
        if self.options.permission_mode not in {None, "default"}:
            wrong.append("permission_mode")
        if wrong:
            said = f"The options {', '.join(wrong)} cannot hold here: sessions and gates are outlast's."
            raise BadInput(detail=f"{said} Leave them out; rules (`Agent.rules`) say what may run.")

    @property
    def name(self) -> str:
        return "claude-agent-sdk"

    @property
    def abilities(self) -> Abilities:
        return self._code.abilities

    @property
    def _code(self) -> ClaudeCode:
        return ClaudeCode(program=self._program, policies=self.policies)

    @property
    def _program(self) -> Path | None:
        return None if self.options.cli_path is None else Path(self.options.cli_path)

    def versions(self) -> Mapping[str, str]:
        return {**self._code.versions(), "claude-agent-sdk": version("claude-agent-sdk")}

    def settings(self) -> Mapping[str, Any]:
        return {}

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return self._code.dialect(settings)

    def check(self) -> Sequence[str]:
        return self._code.check()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return self._code.resolve(name, arguments, tools)

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: Claude Code cannot be started, or ended before its turn.
        """
        return await carry(
            attempt,
            self._program,
            model="",
            flags=flags_of(self.options),
            inherited={**os.environ, **self.options.env},
            around=self._attached,
        )

    @asynccontextmanager
    async def _attached(self, process: Process) -> AsyncGenerator[Process]:
        """The process with a client attached, that hears it from the first line and has told it what it has."""
        shared = SharedProcess(process, asks_user=self.options.can_use_tool is not None)
        client = ClaudeSDKClient(self.options, transport=SharedTransport(shared))
        async with asyncio.TaskGroup() as tasks:
            pumping = tasks.create_task(shared.pump())
            await client.connect()
            hearing = tasks.create_task(self._hear(client.receive_messages()))
            try:
                yield shared
            finally:
                await client.disconnect()
                hearing.cancel()
                pumping.cancel()

    async def _hear(self, messages: AsyncIterator[Message]) -> None:
        async for message in messages:
            if self.on_message is not None:
                await self.on_message(message)


def flags_of(options: ClaudeAgentOptions) -> Sequence[str]:
    """The flags that the SDK would start Claude Code with, without those that every start has anyway."""
    built = SubprocessCLITransport(prompt="", options=options)
    built._cli_path = "claude"  # noqa: SLF001 - only its flags are wanted  # pyright: ignore[reportPrivateUsage] the same
    words = iter(built._build_command()[1:])  # noqa: SLF001 - no other way tells them  # pyright: ignore[reportPrivateUsage] the same
    flags: list[str] = []
    for word in words:
        name = word.partition("=")[0]
        if name in _OURS:
            if name == word:
                next(words)
        elif name not in _ALONE:
            flags.append(word)
    return flags
