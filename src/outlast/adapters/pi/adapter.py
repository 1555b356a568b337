"""The Pi adapter (`outlast.adapter.Adapter`)."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Attempt, Resolved, TurnResult
from outlast.adapters.pi import launch
from outlast.adapters.pi.adoption import Asks, adopt
from outlast.adapters.pi.commands import shell_use
from outlast.adapters.pi.dialogue import PiDialogue, Welcome
from outlast.adapters.pi.driver import Driver
from outlast.adapters.pi.edits import inquiry_of
from outlast.adapters.pi.files import SessionFile
from outlast.adapters.pi.offered import OFFERED
from outlast.adapters.pi.policies import policy_of
from outlast.adapters.pi.terminal import as_chosen, at_terminal, settings_of
from outlast.adapters.pi.typed import TypedPi
from outlast.adapters.pi.user import link_user_files
from outlast.adapters.pi.versions import installed
from outlast.adapters.program import is_users_directory, known_as, shown_cwd, tools_home
from outlast.adapters.shell_inquiry import inquiry_of as shell_inquiry_of
from outlast.adopting import Adopted
from outlast.attaching import TEXT
from outlast.beneath import Beneath
from outlast.errors import BadSettings
from outlast.inquiry import Inquiry
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.wrapping import Seat


@dataclass(frozen=True, slots=True)
class Pi:
    """Pi, unmodified, as the harness of an agent.

    Args:
        model: what it asks the provider for; empty: its own choice. A session records it when it is opened.
        api: how it speaks with the provider: `anthropic-messages`, `openai-responses` or `openai-completions`.
        flags: more flags for its command line, the same at every start.
        options: more of its settings (`settings.json`).
        program: another directory than that of `outlast install pi`, where npm has installed Pi.
        policies: replay policies by tool name or pattern, above the built-in table.
    """

    model: str = ""
    api: str = "anthropic-messages"
    flags: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    program: Path | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def name(self) -> str:
        return "pi"

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", waits=True, program=True, attachments=MEDIA_TYPES | {TEXT})

    def versions(self) -> Mapping[str, str]:
        return {"pi": installed(self.program).version}

    def settings(self) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {"api": self.api}
        if self.model:
            chosen["model"] = self.model
        if self.flags:
            chosen["flags"] = list(self.flags)
        if self.options:
            chosen["options"] = dict(self.options)
        return chosen

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return launch.APIS[_api(settings)]

    def check(self) -> Sequence[str]:
        warning = installed(self.program).warning
        return [] if warning is None else [warning]

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        tool = tools.get(name)
        if tool is not None:
            return Resolved(name, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)
        policy = policy_of(name, arguments, self.policies)
        inquiry, shell = _inquiry_of(name, arguments), shell_use(name, arguments)
        return Resolved(name, "harness", policy, inquiry=inquiry, shell=shell)

    @property
    def keeps(self) -> Collection[str]:
        """See `outlast.offering.Offers`."""
        return ()

    def offered(self, settings: Mapping[str, Any]) -> Sequence[Tool]:
        """See `outlast.offering.Offers`."""
        return OFFERED

    def adopt(self, transcript: Path, home: Path) -> Adopted:
        """See `outlast.adopting.Adopts`; nothing in the file depends on `home`."""
        return adopt(transcript, Asks(self.api, self.model))

    def terminal_settings(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """See `outlast.wrapping.Wraps`."""
        return {**self.settings(), **settings_of(flags)}

    def wrap(self, seat: Seat) -> TypedPi:
        """See `outlast.wrapping.Wraps`."""
        return TypedPi(self, self.program, seat)

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: Pi cannot be started, or ended before its turn.
        """
        found, home = installed(self.program), attempt.places.home
        api = _api(attempt.settings)
        uuid = _name_of(attempt)
        config = home / launch.config_path(uuid)
        ours = Beneath(home)
        ours.remove(config)
        file = SessionFile(attempt, uuid)
        typed: Sequence[str] = ()
        if at_terminal(attempt.settings):
            typed = (await attempt.mirrored()).get(launch.session_path(uuid), ())
        ready = await file.prepare()
        local = is_users_directory(attempt)
        if local:
            link_user_files(config, os.environ)
        ours.link(launch.package_path(uuid), found.package)
        shown = shown_cwd(attempt)
        welcome = Welcome(launch.provider(api), list(attempt.tools.values()), ready.steers, shown)
        dialogue = PiDialogue(
            launch.APIS[api], welcome, known=ready.known, walks=ready.walks, record=file.mirror
        )
        async with attempt.gateway.admit(attempt, dialogue) as door:
            started = launch.Launch(
                node=found.node,
                program=found.program,
                session=uuid,
                home=home,
                door=door,
                api=api,
                model=str(attempt.settings.get("model", "")),
                default=found.default_model(launch.provider(api)),
                flags=[str(flag) for flag in attempt.settings.get("flags") or ()],
                options=attempt.settings.get("options") or {},
                tool_home=tools_home(attempt),
                bare=bool(shown),
                shell=attempt.places.shell,
            )
            started = as_chosen(started, typed)
            dialogue.config = launch.provider_config(started)
            ours.write(config / "settings.json", msgspec.json.encode(launch.settings(started)))
            argv, env = launch.argv(started), launch.environment(started, os.environ)
            async with attempt.processes.start(argv, env=env, cwd=attempt.places.cwd) as process:
                return await Driver(attempt, file, process, dialogue).run(say_prompt=ready.say_prompt)


def _name_of(attempt: Attempt) -> str:
    """The session's name in Pi: its own where it was adopted."""
    adopted = attempt.settings.get("session")
    return str(adopted) if adopted else launch.session_uuid(attempt.tenant, known_as(attempt))


def _api(settings: Mapping[str, Any]) -> str:
    api = str(settings.get("api") or "anthropic-messages")
    if api not in launch.APIS:
        reason = f"Pi speaks {', '.join(launch.APIS)}"
        raise BadSettings(name="api", value=api, reason=reason, source="the session's settings")
    if launch.provider(api) not in launch.KNOWN and not settings.get("model"):
        reason = f"of {api} Pi knows no models: name one"
        raise BadSettings(name="model", value="", reason=reason, source="the session's settings")
    return api


def _inquiry_of(name: str, arguments: Mapping[str, Any]) -> Inquiry | None:
    """What can be asked about a call of a tool of its own."""
    return shell_inquiry_of(arguments.get("command")) if name == "bash" else inquiry_of(name, arguments)
