"""The eve adapter (`outlast.adapter.Adapter`)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from outlast import programs
from outlast.adapter import Attempt, Door, Resolved, ToolResult, TurnResult
from outlast.adapters.eve.conversation import Conversation
from outlast.adapters.eve.dialogue import EveDialogue
from outlast.adapters.eve.driver import STILL_S, Driver
from outlast.adapters.eve.state import EveState
from outlast.adapters.program import overridden, past_proxies
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessError
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.tracing import COLLECTOR_KEYS

TESTED: Final = ("0.80.1",)
NODE: Final = "24"
MODULE: Final = Path(__file__).with_name("outlast.js")
"""What an agent of eve's needs, to be copied into it."""

_PROGRAM: Final = "node_modules/eve/bin/eve.js"
_FOREIGN: Final = ("EVE_", "OUTLAST_", "WORKFLOW_", *COLLECTOR_KEYS)


@dataclass(frozen=True, slots=True)
class Eve:
    """An agent made with eve, in whose project sessions work, as the harness of an agent.

    Args:
        policies: replay policies of its tools by name or pattern; without, a tool is `never` run again. One that is
            `keyed` must hand `ctx.callId` to the outside as its key: that stays the same when the call runs again.
        still_s: seconds that eve may be silent while no call of the turn is under way. Then it is started anew, and
            a turn that eve leaves undone again and again is parked as stuck.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    still_s: float = STILL_S

    @property
    def name(self) -> str:
        return "eve"

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", program=True)

    def versions(self) -> Mapping[str, str]:
        return {"eve": "of the project"}

    def settings(self) -> Mapping[str, Any]:
        return {}

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """See `outlast.speaking.Speaks`."""
        return EveDialogue.dialect

    def check(self) -> Sequence[str]:
        programs.node(NODE)
        return []

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return Resolved(name, "harness", self._policy_of(name))

    def _policy_of(self, name: str) -> Policy:
        return overridden(name, self.policies) or "never"

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn on: in a new run of eve's, which the log answers as far as it goes.

        Raises:
            HarnessError: eve cannot be started, or ended before its turn.
        """
        project = attempt.places.cwd
        _check(project)
        state = EveState(attempt)
        await state.prepare()
        conversation = Conversation(attempt)
        await conversation.open()
        dialogue = EveDialogue(await _known(attempt), conversation)
        async with attempt.gateway.admit(attempt, dialogue) as door:
            argv = [
                str(programs.node(NODE)),
                str(project / _PROGRAM),
                "start",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
            ]
            env = _environment(door, os.environ)
            async with attempt.processes.start(argv, env=env, cwd=state.project) as process:
                driver = Driver(attempt, state, process, dialogue, still_s=self.still_s)
                result = await driver.run()
            if result.status == "done":
                await conversation.finish()
            return result


async def _known(attempt: Attempt) -> Mapping[str, ToolResult]:
    """How the calls of the turn have ended that have."""
    return {
        call.intent.harness_id: await attempt.outcome(call.intent.call)
        for call in attempt.turn.calls.values()
        if call.intent.kind != "model" and call.intent.harness_id and call.outcome is not None
    }


def _check(project: Path) -> None:
    """Raise `HarnessError` where no agent of a tested eve is built."""
    try:
        said = as_object(msgspec.json.decode((project / "node_modules/eve/package.json").read_bytes()))
    except (OSError, msgspec.DecodeError):
        reason = f"{project} is no project of eve's whose packages are installed"
        raise HarnessError(harness="eve", reason=reason) from None
    if said.get("version") not in TESTED:
        # The order of its events and what it keeps differ between versions.
        reason = f"the project has eve {said.get('version')}; tested is {', '.join(TESTED)}"
        raise HarnessError(harness="eve", reason=reason)
    if not (project / ".output/server/index.mjs").is_file():
        raise HarnessError(
            harness="eve", reason=f"the agent in {project} is not built: run `eve build` there"
        )


def _environment(door: Door, inherited: Mapping[str, str]) -> Mapping[str, str]:
    kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
    node = str(programs.node(NODE).parent)
    return {
        **kept,
        **past_proxies(inherited),
        "PATH": f"{node}:{kept.get('PATH', '')}",
        "EVE_TELEMETRY_DISABLED": "1",
        "OUTLAST_ATTEMPT_TOKEN": door.token,
        "OUTLAST_BASE_URL": f"{door.base_url}/v1",
        "OUTLAST_HOOKS_URL": door.hooks_url,
    }
