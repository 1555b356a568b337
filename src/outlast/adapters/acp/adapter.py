"""The adapter for any ACP agent (`outlast.adapter.Adapter`)."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Any, Final

from outlast.adapter import Attempt, Door, Resolved, TurnResult
from outlast.adapters.acp.dialogue import AcpDialogue, names_ours
from outlast.adapters.acp.driver import Driver
from outlast.adapters.acp.files import SessionFiles, link, write_files
from outlast.adapters.acp.resuming import correct_results
from outlast.adapters.program import overridden, past_proxies
from outlast.errors import HarnessMissing
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.tracing import COLLECTOR_KEYS

SEEN: Final[Mapping[str, Policy]] = {"read": "safe", "search": "safe", "think": "safe"}
"""The protocol's kinds of tools that only look; they name the tools of an agent whose model calls go past us."""
_KEYS: Final = ("_API_KEY", "_AUTH_TOKEN", "_BASE_URL")


@dataclass(frozen=True, slots=True)
class ModelDoor:
    """How an agent is made to ask its model through the gateway.

    In the values, `${base_url}` stands for the gateway's address, without a slash at its end, `${token}` for the key.

    Args:
        dialect: what it speaks: `anthropic`, `openai-responses`, `openai-chat`.
        env: variables that carry address and key.
        files: configuration files below HOME that do, by path.
    """

    dialect: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Acp:
    """An agent that speaks the Agent Client Protocol on its standard input and output.

    Args:
        command: its command line.
        name: how people call it.
        model: how its model calls reach the gateway: then each of them and each tool call is in the log before it
            counts, and a turn goes on from the last finished call. None: they go past us, and the turn is durable as a
            whole: when it was cut short the agent is told so, with what its tools had done.
        files: what it keeps of a session, as patterns of paths below HOME: `.fx/sessions/*.jsonl`.
        links: paths below the session's HOME that lead elsewhere, to the user's own login, say:
            `{".fx/auth.json": "~/.fx/auth.json"}`.
        env: more variables for it.
        policies: replay policies by tool name or pattern. What is not named is `never`.
        asks: it asks for leave before each tool that is not `safe`, as most must be told to. One that does not
            is believed to run a tool as soon as it may; what it was doing when it died is in doubt.
        sub_agents: it may have sub-agents, whose requests are told by that they do not hold the turn's prompt. An agent
            that forgets the prompt when it sums its conversation up must have none, and say so here.
        version: for the record of each attempt.
    """

    command: Sequence[str]
    name: str = "acp"
    model: ModelDoor | None = None
    files: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    asks: bool = True
    sub_agents: bool = True
    version: str = "unknown"

    @property
    def abilities(self) -> Abilities:
        return Abilities("none", waits=True, program=True)

    @property
    def durable(self) -> str:
        """`by call` where its model calls come through the gateway, else `by turn`."""
        return "by turn" if self.model is None else "by call"

    def versions(self) -> Mapping[str, str]:
        return {self.name: self.version, "agent-client-protocol": metadata.version("agent-client-protocol")}

    def settings(self) -> Mapping[str, Any]:
        return {"command": list(self.command), "durable": self.durable}

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return "" if self.model is None else self.model.dialect

    def check(self) -> Sequence[str]:
        self._program()
        if self.model is not None:
            return []
        return [
            f"The model calls of {self.name} go past outlast: its turns are durable as a whole, not call by call."
        ]

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        bare = self.model is not None  # else it may be a kind of the protocol's
        ours = max((tool for tool in tools if names_ours(name, tool, bare=bare)), key=len, default=None)
        if ours is not None:
            tool = tools[ours]
            return Resolved(ours, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)
        known: Mapping[str, Policy] = self.policies if self.model is not None else {**SEEN, **self.policies}
        return Resolved(name, "harness", overridden(name, known) or "never")

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on.

        Raises:
            HarnessError: the agent cannot be started or driven, or ended before its turn.
        """
        program = self._program()
        files = SessionFiles(attempt, self.files)
        await files.restore()
        home = attempt.places.home
        link(home, self.links)
        through = self.model is not None
        if through:
            await correct_results(attempt)
        driver = Driver(self.name, attempt, files, through=through, asks=self.asks, environ=self._inherited())
        dialect = "anthropic" if self.model is None else self.model.dialect
        dialogue = AcpDialogue(dialect, attempt, driver, sub_agents=self.sub_agents)
        async with attempt.gateway.admit(attempt, dialogue) as door:
            if self.model is not None:
                write_files(home, _filled(self.model.files, door))
            argv = [program, *self.command[1:]]
            async with attempt.processes.start(
                argv, env=self._environ(home, door), cwd=attempt.places.cwd
            ) as process:
                return await driver.run(process, door)

    def _program(self) -> str:
        found = shutil.which(self.command[0]) if self.command else None
        if found is None:
            install = f"put {self.command[0]!r} on the worker's PATH" if self.command else "name its command"
            raise HarnessMissing(harness=self.name, install=install)
        return found

    def _inherited(self) -> Mapping[str, str]:
        """The worker's, without what is ours; where the gateway asks the provider, without the provider's keys too."""
        hidden = () if self.model is None else _KEYS
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OUTLAST_", *COLLECTOR_KEYS)) and not name.endswith(hidden)
        }

    def _environ(self, home: Path, door: Door) -> Mapping[str, str]:
        kept = {name: value for name, value in self._inherited().items() if not name.startswith("XDG_")}
        given = _filled({} if self.model is None else self.model.env, door)
        return {**kept, **past_proxies(os.environ), "HOME": str(home), **self.env, **given}


def _filled(texts: Mapping[str, str], door: Door) -> Mapping[str, str]:
    return {
        name: Template(text).safe_substitute(base_url=door.base_url, token=door.token)
        for name, text in texts.items()
    }
