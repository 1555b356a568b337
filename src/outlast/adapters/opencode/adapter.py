"""The OpenCode adapter (`outlast.adapter.Adapter`)."""

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.adapter import Attempt, Resolved, TurnResult
from outlast.adapters.opencode import launch
from outlast.adapters.opencode.adoption import adopt
from outlast.adapters.opencode.commands import shell_use
from outlast.adapters.opencode.conversation import prepare
from outlast.adapters.opencode.dialogue import Bare, OpenCodeDialogue
from outlast.adapters.opencode.driver import Driver
from outlast.adapters.opencode.edits import inquiry_of
from outlast.adapters.opencode.offered import KEPT, OFFERED, denied, is_shown
from outlast.adapters.opencode.policies import SERVER, application_tool, policy_of
from outlast.adapters.opencode.table import table_of
from outlast.adapters.opencode.terminal import at_terminal, config_of, settings_of
from outlast.adapters.opencode.typed import TypedOpenCode
from outlast.adapters.opencode.versions import installed
from outlast.adapters.program import known_as, shown_cwd, tools_home
from outlast.adapters.shell_inquiry import inquiry_of as shell_inquiry_of
from outlast.adopting import Adopted
from outlast.attaching import TEXT
from outlast.ids import stable_uuid
from outlast.inquiry import Inquiry
from outlast.offering import stand_ins
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.wrapping import Seat


@dataclass(frozen=True, slots=True)
class OpenCode:
    """OpenCode, unmodified, as the harness of an agent.

    Args:
        model: what it asks for: `claude-sonnet-4-5`, or with the provider in front `openai/gpt-5`, or of any that
            speaks Chat Completions `openai-compatible/name`; empty: its own choice of Anthropic's.
        agent: which of its agents works, `build` if empty.
        config: more of its configuration, as in `opencode.json`; the same at every start.
        program: another program than the one that `outlast install opencode` brings, or a directory that holds its
            package.
        policies: replay policies by tool name or pattern, above the built-in table.
    """

    model: str = ""
    agent: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    program: Path | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def name(self) -> str:
        return "opencode"

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", waits=True, program=True, attachments=MEDIA_TYPES | {TEXT})

    def versions(self) -> Mapping[str, str]:
        return {"opencode": installed(self.program).version}

    def settings(self) -> Mapping[str, Any]:
        chosen = {"model": self.model, "agent": self.agent, "config": dict(self.config)}
        return {name: value for name, value in chosen.items() if value}

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        name = launch.model_name(str(settings.get("model", "")))
        return "anthropic" if name is None else name.dialect

    def check(self) -> Sequence[str]:
        warning = installed(self.program).warning
        return [] if warning is None else [warning]

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        ours = application_tool(name)
        if name in tools and tools[name].stands_in:
            ours = name
        tool = None if ours is None else tools.get(ours)
        if ours is not None and tool is not None:
            return Resolved(ours, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)
        spawns = str(arguments.get("prompt", "")) if name == "task" else ""
        policy = policy_of(name, arguments, self.policies)
        inquiry, shell = _inquiry_of(name, arguments), shell_use(name, arguments)
        return Resolved(name, "harness", policy, spawns=spawns, inquiry=inquiry, shell=shell)

    @property
    def keeps(self) -> Collection[str]:
        """See `outlast.offering.Offers`."""
        return KEPT

    def offered(self, settings: Mapping[str, Any]) -> Sequence[Tool]:
        """See `outlast.offering.Offers`."""
        model = str(settings.get("model", ""))
        return [tool for tool in OFFERED if is_shown(tool.name, model)]

    def adopt(self, transcript: Path, home: Path) -> Adopted:
        """See `outlast.adopting.Adopts`; `transcript` is a session's name, OpenCode's database, or an export."""
        return adopt(transcript, os.environ)

    def terminal_settings(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """See `outlast.wrapping.Wraps`."""
        return {**self.settings(), **settings_of(flags)}

    def wrap(self, seat: Seat) -> TypedOpenCode:
        """See `outlast.wrapping.Wraps`."""
        return TypedOpenCode(self, self.program, seat)

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: OpenCode cannot be started, or ended before its turn.
            ModelCallFailed: the provider failed in a way that may pass.
        """
        program = installed(self.program)
        ready = await prepare(attempt)
        if ready.kept.over is not None and not any(attempt.turn.open_calls()):
            return TurnResult("done", ready.kept.over)
        settings = attempt.settings
        model = launch.model_name(str(settings.get("model", "")))
        shown, standing = shown_cwd(attempt), stand_ins(attempt.tools)
        dialogue = OpenCodeDialogue(
            [f"{SERVER}_{name}" for name, tool in attempt.tools.items() if not tool.stands_in],
            attempt.turn.at_s,
            self.dialect(settings),
            Bare(shown, standing) if shown else None,
        )
        async with attempt.gateway.admit(attempt, dialogue) as door:
            started = launch.Launch(
                program=program.program,
                version=program.version,
                name=stable_uuid("opencode", attempt.tenant, known_as(attempt)),
                home=attempt.places.home,
                door=door,
                password=secrets.token_urlsafe(24),
                model=model,
                config=config_of(settings),
                offers=not at_terminal(settings),
                tool_home=tools_home(attempt),
                denied=denied([tool.name for tool in standing]) if shown else None,
                table=table_of(program.program, launch.provider_of(model)),
                shell=attempt.places.shell,
            )
            launch.lay_out(started)
            env = launch.environment(started, os.environ)
            cwd = attempt.places.cwd
            async with attempt.processes.start(launch.argv(started), env=env, cwd=cwd) as process:
                agent = str(settings.get("agent", ""))
                driver = Driver(attempt, process, dialogue, ready, model=model, agent=agent)
                return await driver.run(started.password)


def _inquiry_of(name: str, arguments: Mapping[str, Any]) -> Inquiry | None:
    """What can be asked about a call of a tool of its own."""
    if name == "bash":
        return shell_inquiry_of(arguments.get("command"), arguments.get("workdir"))
    return inquiry_of(name, arguments)
