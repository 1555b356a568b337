"""The Codex adapter (`outlast.adapter.Adapter`)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.adapter import Attempt, Resolved, TurnResult
from outlast.adapters.codex import launch
from outlast.adapters.codex.adoption import adopt
from outlast.adapters.codex.commands import shell_use
from outlast.adapters.codex.dialogue import CodexDialogue
from outlast.adapters.codex.driver import Driver
from outlast.adapters.codex.edits import inquiry_of
from outlast.adapters.codex.files import SessionFiles
from outlast.adapters.codex.places import thread_of
from outlast.adapters.codex.policies import SHELL, UNASKED, policy_of
from outlast.adapters.codex.terminal import at_terminal, settings_of, terms_of
from outlast.adapters.codex.typed import TypedCodex
from outlast.adapters.codex.user import bring_user_files
from outlast.adapters.codex.versions import bash, installed
from outlast.adapters.program import is_users_directory, known_as, tools_home
from outlast.adapters.shapes import as_object
from outlast.adapters.shell_inquiry import inquiry_of as shell_inquiry_of
from outlast.adopting import Adopted
from outlast.attaching import TEXT
from outlast.inquiry import Inquiry
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.wrapping import Seat


@dataclass(frozen=True, slots=True)
class Codex:
    """Codex, unmodified, as the harness of an agent.

    Args:
        model: what it asks the provider for; empty: its own choice. A session records it when it is opened.
        config: more of Codex's configuration (`model_reasoning_effort`, `web_search` …), the same at every start.
        program: another program than the one that `outlast install codex` brings.
        policies: replay policies by tool name or pattern, above the built-in table.
    """

    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    program: Path | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def name(self) -> str:
        return "codex"

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", waits=True, program=True, attachments=MEDIA_TYPES | {TEXT})

    def versions(self) -> Mapping[str, str]:
        return {"codex": installed(self.program).version}

    def settings(self) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {"model": self.model} if self.model else {}
        return {**chosen, "config": dict(self.config)} if self.config else chosen

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return CodexDialogue.dialect

    def check(self) -> Sequence[str]:
        warning = installed(self.program).warning
        bash()
        return [] if warning is None else [warning]

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        tool = tools.get(name)
        if tool is not None:
            return Resolved(name, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)
        policy = policy_of(name, arguments, self.policies)
        inquiry, shell = _inquiry_of(name, arguments), shell_use(name, arguments)
        return Resolved(name, "harness", policy, unasked=name in UNASKED, inquiry=inquiry, shell=shell)

    def adopt(self, transcript: Path, home: Path) -> Adopted:
        """See `outlast.adopting.Adopts`; `transcript` is a rollout below `~/.codex/sessions`."""
        return adopt(transcript, os.environ)

    def terminal_settings(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """See `outlast.wrapping.Wraps`."""
        return {**self.settings(), **settings_of(flags)}

    def wrap(self, seat: Seat) -> TypedCodex:
        """See `outlast.wrapping.Wraps`."""
        return TypedCodex(self, self.program, seat)

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: Codex cannot be started, or ended before its turn.
            ModelCallFailed: the provider failed in a way that may pass.
        """
        program = installed(self.program)
        thread = thread_of(attempt.tenant, known_as(attempt), attempt.settings)
        files = SessionFiles(attempt, thread)
        ready = await files.prepare()
        if ready.over is not None:
            return TurnResult("done", ready.over)
        local = is_users_directory(attempt)
        dialogue = CodexDialogue(thread, list(attempt.tools), files.mirror)
        async with attempt.gateway.admit(attempt, dialogue) as door:
            terms = terms_of(attempt.settings, files.records if at_terminal(attempt.settings) else ())
            started = launch.Launch(
                program=program.program,
                thread=thread,
                home=attempt.places.home,
                door=door,
                model=terms.model,
                approval=terms.approval,
                sandbox=terms.sandbox,
                config=as_object(attempt.settings.get("config")),
                tool_home=tools_home(attempt),
                bash=bash(),
            )
            cwd = attempt.places.cwd
            founding = launch.founding(started, cwd, attempt.tools, files.founded_s, program.version)
            await files.write(launch.files(started), founding)
            if local:
                bring_user_files(started.codex_home, os.environ)
            env = launch.environment(started, os.environ)
            async with attempt.processes.start(launch.argv(started), env=env, cwd=cwd) as process:
                driver = Driver(attempt, files, process, dialogue, started)
                return await driver.run(say_prompt=ready.say_prompt)


def _inquiry_of(name: str, arguments: Mapping[str, Any]) -> Inquiry | None:
    """What can be asked about a call of a tool of its own; patches come over the shell too."""
    found = inquiry_of(name, arguments)
    if found is None and name == SHELL:
        return shell_inquiry_of(arguments.get("cmd"), arguments.get("workdir"))
    return found
