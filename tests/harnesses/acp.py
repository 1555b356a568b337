"""Agents of the Agent Client Protocol under the adapter contract: a small one of ours, and `opencode acp`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from outlast import programs
from outlast.adapter import Agent
from outlast.adapters.acp import Acp, ModelDoor
from outlast.adapters.opencode.versions import installed
from outlast.records.kinds import Policy
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.attachment_cases import IMAGES
from outlast.testing.adapter_contract.edit_cases import EDITS
from outlast.testing.models import ToolUse
from outlast.tool import Tool
from tests.harnesses.refusing import NO_FILES

MODEL = "claude-sonnet-4-5"
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
    # What is built in of the models of others, it would go through before its first request.
    "OPENCODE_MODELS_PATH": str(Path(__file__).with_name("no_models.json")),
}
CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "snapshot": False,
    "lsp": False,
    "formatter": False,
    "enabled_providers": ["door"],
    "model": f"door/{MODEL}",
    "small_model": f"door/{MODEL}",
    "permission": {"*": "ask", "task": "deny"},
    "experimental": {"continue_loop_on_deny": True},
    "agent": {"title": {"disable": True}},
    "provider": {
        "door": {
            "npm": "@ai-sdk/anthropic",
            "name": "Door",
            "options": {"baseURL": "${base_url}/v1", "apiKey": "${token}"},
            "models": {
                MODEL: {"name": "Model", "limit": {"context": 200_000, "output": 8_000}, "tool_call": True}
            },
        }
    },
}
"""Every tool asks, and a refusal does not end the turn. Sub-agents would wait for a leave that nobody is asked for."""
LOOKING: Mapping[str, Policy] = {
    "read": "safe",
    "grep": "safe",
    "glob": "safe",
    "list": "safe",
    "todowrite": "safe",
}


STAND_IN_COMMAND: Final = (sys.executable, "-P", str(Path(__file__).with_name("stand_in.py")))
STAND_IN_DOOR: Final = ModelDoor(
    "anthropic", env={"STAND_IN_BASE_URL": "${base_url}", "STAND_IN_KEY": "${token}"}
)
_NO_SUB_AGENTS: Final = "The agent that stands for those of the protocol has no sub-agents."
_SILENT_SUB_AGENTS: Final = (
    "OpenCode asks for leave for the tools of its sub-agents, but tells nobody over the protocol, and waits for ever: "
    "they are switched off."
)
SUB_AGENTS: Final = (
    "a_sub_agent_is_carried_to_its_report",
    "a_sub_agent_killed_when_its_tool_has_acted_repeats_nothing",
    "a_sub_agent_killed_while_its_model_streams_is_carried_on",
    "a_sub_agent_killed_before_its_report_is_delivered_is_carried_on",
    "two_sub_agents_that_ask_for_the_same_are_kept_apart",
    "two_sub_agents_that_ask_for_the_same_are_carried_on",
)
"""Cases of sub-agents."""
_CUT_COMPACTION: Final = (
    "OpenCode sums a conversation up, and the turn goes on; cut off in or behind that, it goes on over the protocol "
    "from the whole conversation, and where more had happened since the turn is parked as diverged."
)
COMPACTIONS: Final = (
    "a_compaction_by_the_harness_is_no_divergence",
    "a_compaction_killed_when_it_is_asked_for_is_carried_on",
    "a_compaction_killed_before_it_is_delivered_is_carried_on",
    "a_turn_killed_right_after_its_compaction_is_carried_on",
    "a_turn_killed_in_a_tool_after_its_compaction_is_carried_on",
)
"""Cases of compactions."""
_NO_COMPACTION: Final = "The agent that stands for those of the protocol compacts nothing."
_UNKNOWN_EDITS: Final = (
    "What the tools of any agent do to files is not known: each is `never`, but for those named."
)
_NO_HOOKS: Final = (
    "The protocol has no hooks: an agent asks for leave on the connection by which it is driven."
)
_NO_STEERS: Final = "The protocol has no word for a steer: it becomes the next prompt."
_NO_VERSIONS: Final = "Which versions of an agent are good is for its user to say: outlast has tested none."
OF_THE_PROTOCOL: Final[Mapping[str, str]] = {
    "a_steer_is_carried_by_a_request_and_consumed_by_its_commit": _NO_STEERS,
    "a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing": _NO_VERSIONS,
    "a_hook_that_fails_blocks_the_tool": _NO_HOOKS,
    "a_hook_that_is_gone_blocks_the_tool": _NO_HOOKS,
    "a_hook_that_answers_nonsense_blocks_the_tool": _NO_HOOKS,
    "a_hook_that_breaks_off_blocks_the_tool": _NO_HOOKS,
    "a_hook_that_hangs_holds_the_tool_back_until_the_turn_is_cancelled": _NO_HOOKS,
    **dict.fromkeys(EDITS, _UNKNOWN_EDITS),
}
"""What no agent can hold that is driven by the protocol alone."""


class StandIn(Subject):
    """A small agent of ours, driven as any ACP agent is, its model calls through the gateway."""

    name = "acp"
    dialect = "anthropic"
    recipe = "tests.harnesses.acp:STAND_IN"
    lacks: ClassVar[Mapping[str, str]] = {
        **OF_THE_PROTOCOL,
        **dict.fromkeys(IMAGES, NO_FILES),
        **dict.fromkeys(SUB_AGENTS, _NO_SUB_AGENTS),
        **dict.fromkeys(COMPACTIONS, _NO_COMPACTION),
    }
    foreign_words = ("[[outlast:",)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        adapter = Acp(STAND_IN_COMMAND, name=self.name, model=STAND_IN_DOOR, files=[".stand-in/*.jsonl"])
        return Agent(self.name, adapter, tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=f"outlast__{tool}", input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="run", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="note", input={"path": path, "text": text})

    def is_program(self, command: bytes) -> bool:
        return b"stand_in.py" in command and b"supervise.py" not in command


class OpenCodeAcp(Subject):
    """The real OpenCode, driven as any ACP agent is."""

    name = "opencode-acp"
    dialect = "anthropic"
    recipe = "tests.harnesses.acp:OPENCODE"
    lacks: ClassVar[Mapping[str, str]] = {
        **OF_THE_PROTOCOL,
        **dict.fromkeys(IMAGES, NO_FILES),
        **dict.fromkeys(SUB_AGENTS, _SILENT_SUB_AGENTS),
        **dict.fromkeys(COMPACTIONS, _CUT_COMPACTION),
        "a_fork_goes_on_in_another_directory": (
            "OpenCode goes on in the directory that its own files name, whichever it is told over the protocol."
        ),
    }
    foreign_words = ("[[outlast:",)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        door = ModelDoor("anthropic", files={".config/opencode/opencode.json": json.dumps(CONFIG)})
        adapter = Acp(
            [str(installed().program), "acp"],
            name=self.name,
            model=door,
            files=[".local/share/opencode/*.db"],
            env=QUIET,
            # What it would fetch with npm on its first start.
            links={".config/opencode/node_modules": str(programs.find("opencode") / "node_modules")},
            policies=LOOKING,
            sub_agents=False,
        )
        return Agent(self.name, adapter, tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=f"outlast_{tool}", input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="bash", input={"command": command, "description": "A step"})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write", input={"filePath": path, "content": text})

    def is_program(self, command: bytes) -> bool:
        return b"/bin/opencode\0acp" in command and b"supervise.py" not in command


STAND_IN = StandIn()
OPENCODE = OpenCodeAcp()
