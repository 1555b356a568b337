"""Agents of the Agent Client Protocol under the adapter contract: the real OpenCode, as `opencode acp`."""

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from outlast import programs
from outlast.adapter import Agent
from outlast.adapters.acp import Acp, ModelDoor
from outlast.records.kinds import Policy
from outlast.testing.adapter_contract import Subject
from outlast.testing.models import ToolUse
from outlast.tool import Tool

MODEL = "claude-sonnet-4-5"
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_FILEWATCHER": "1",
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
    "permission": "ask",
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
"""Every tool asks, and a refusal does not end the turn."""
LOOKING: Mapping[str, Policy] = {
    "read": "safe",
    "grep": "safe",
    "glob": "safe",
    "list": "safe",
    "todowrite": "safe",
}


def opencode() -> Path:
    """The program, as `outlast install` put it there; it runs on any processor of its kind."""
    processor = {"x86_64": "x64-baseline", "aarch64": "arm64"}[platform.machine()]
    return (
        programs.find("opencode")
        / f"node_modules/opencode-{platform.system().lower()}-{processor}/bin/opencode"
    )


class OpenCodeAcp(Subject):
    """The real OpenCode, driven as any ACP agent is."""

    name = "opencode-acp"
    dialect = "anthropic"
    recipe = "tests.harnesses.acp:SUBJECT"
    foreign_words = ("[[outlast:",)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        door = ModelDoor("anthropic", files={".config/opencode/opencode.json": json.dumps(CONFIG)})
        adapter = Acp(
            [str(opencode()), "acp"],
            name=self.name,
            model=door,
            files=[".local/share/opencode/*.db"],
            env=QUIET,
            # What it would fetch with npm on its first start.
            links={".config/opencode/node_modules": str(programs.find("opencode") / "node_modules")},
            policies=LOOKING,
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


SUBJECT = OpenCodeAcp()
