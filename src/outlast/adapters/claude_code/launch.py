"""How Claude Code is started: the same way at the first start of a session and at every resume.

Pure: flags, settings and environment from values. Each switch has its reason in `docs/internals/claude-code.md`; those
that keep the gates closed stand in the settings that are given on the command line, since they alone stand above the
settings of user, project and directory, and above what a tool writes there while the session runs.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Door
from outlast.adapters.claude_code.dialogue import SENTINEL
from outlast.adapters.claude_code.hello import TOKEN_VARIABLE
from outlast.adapters.program import past_proxies
from outlast.ids import stable_uuid
from outlast.tracing import COLLECTOR_KEYS
from outlast.wrapping import TYPED

SERVER: Final = "outlast"
"""Name of our MCP server: the application's tool `refund` is `mcp__outlast__refund` to the model."""

CONFIG: Final = ".claude"
"""Name below the session's home of the directory of everything that Claude Code keeps."""

HOOK_TIMEOUT_S: Final = 3600
HELLO_TIMEOUT_S: Final = 10
MCP_TIMEOUT_MS: Final = 3_600_000

DISALLOWED: Final = (
    "AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
    "ExitWorktree", "ListAgents", "Monitor", "PushNotification", "RemoteTrigger", "ReportFindings", "ScheduleWakeup",
    "SendMessage", "TaskOutput", "TaskStop", "TeamCreate", "TeamDelete", "Workflow",
)  # fmt: skip
"""Tools that wait for a person, outlive the turn, talk to other sessions, or move the working directory."""

SWITCHES: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_WORKFLOWS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",
    "DISABLE_AUTOUPDATER": "1",
}
BARE: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
}
"""Where it has no tools of its own: nothing of its directory, of those above and of what a prompt names is read."""
BESIDE: Final = (
    "All files of this session are in {cwd}, and are reached by the tools whose names begin with mcp__outlast__ alone: "
    "paths there are absolute or relative to that. The working directory named elsewhere is empty and plays no part."
)
_ELSEWHERE: Final = (
    "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_GATEWAY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_VERTEX",
)  # fmt: skip
"""Variables that would lead model calls past the gateway, or hooks away: emptied."""
FOR_A_PERSON: Final = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
"""Those of them that stay where a person is at the terminal."""
_FOREIGN: Final = ("ANTHROPIC_", "CLAUDE", "OUTLAST_", *COLLECTOR_KEYS)


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the start of Claude Code depends on."""

    program: Path
    session: str
    """UUID of the session in Claude Code."""
    home: Path
    """Below it is everything that Claude Code keeps of the session; the same at every start."""
    door: Door
    model: str = ""
    """Empty: what the project's settings or Claude Code choose."""
    flags: Sequence[str] = ()
    """More flags of the user; the same at every start."""
    tools: bool = True
    """Offer the application's tools."""
    tool_home: Path | None = None
    """HOME of Claude Code and its tools; None: `home`. No request depends on it."""
    direct: Mapping[str, str] = field(default_factory=lambda: past_proxies({}))
    """Variables that lead past proxies to the gateway, and to whom the user's environment names. They stand above every
    other setting, so that the user's own names must be among them."""
    python: str = sys.executable
    shell: str = ""
    """What its commands are run with; empty: its own choice."""
    shown: str = ""
    """Where its files are, if it works beside them, without any tool of its own (`outlast.offering`)."""


def session_uuid(tenant: str, session: str) -> str:
    """The name of an outlast session in Claude Code: the same on every machine."""
    return stable_uuid("claude-code", tenant, session)


def prompt_uuid(session: str, input_id: str) -> str:
    """The name of an input of `session`, a UUID, in its transcript: of what was typed there, Claude Code's own."""
    if input_id.startswith(TYPED):
        return input_id.removeprefix(TYPED)
    return stable_uuid("claude-code-input", session, input_id)


def argv(launch: Launch, *, resume: bool) -> Sequence[str]:
    """The command line; `resume` if a transcript is in its place."""
    return [
        str(launch.program),
        "-p",
        "--input-format", "stream-json",
        "--output-format", "stream-json",
        "--verbose",
        "--session-mirror",
        "--include-hook-events",
        "--permission-mode", "default",
        "--permission-prompt-tool", "stdio",
        "--setting-sources", "user" if launch.shown else "user,project,local",
        *_bare(launch),
        "--settings", _json(settings(launch)),
        "--disallowedTools", ",".join(DISALLOWED),
        *(("--mcp-config", _json(mcp_config(launch))) if launch.tools else ()),
        *(("--model", launch.model) if launch.model else ()),
        *launch.flags,
        "--resume" if resume else "--session-id", launch.session,
    ]  # fmt: skip


def _bare(launch: Launch) -> Sequence[str]:
    """What takes its own tools away, and says where the files are."""
    if not launch.shown:
        return ()
    return ("--tools", "", "--strict-mcp-config", "--append-system-prompt", BESIDE.format(cwd=launch.shown))


def settings(launch: Launch) -> Mapping[str, Any]:
    """The settings given on the command line."""
    return {
        "disableAllHooks": False,
        # Command lines are for every user of the machine to read: the token stands in the environment only.
        "apiKeyHelper": f"printenv {TOKEN_VARIABLE}",
        "permissions": {"ask": ["*"], "defaultMode": "default"},
        "env": {**_gateway_env(launch), **SWITCHES, **(BARE if launch.shown else {})},
        "hooks": {
            "SessionStart": [_hook(_hello(launch))],
            "PreToolUse": [_hook(_posted(launch, "before", blocks=True))],
            "PostToolUse": [_hook(_posted(launch, "after"))],
            "PostToolUseFailure": [_hook(_posted(launch, "failed"))],
        },
    }


def _hook(handler: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"matcher": "*", "hooks": [handler]}


def _hello(launch: Launch) -> Mapping[str, Any]:
    program = str(Path(__file__).with_name("hello.py"))
    arguments = ["-I", "-S", program, f"{launch.door.hooks_url}/hello"]
    return {"type": "command", "command": launch.python, "args": arguments, "timeout": HELLO_TIMEOUT_S}


def _posted(launch: Launch, event: str, *, blocks: bool = False) -> Mapping[str, Any]:
    handler = {
        "type": "http",
        "url": f"{launch.door.hooks_url}/{event}",
        "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
        "allowedEnvVars": [TOKEN_VARIABLE],
        "timeout": HOOK_TIMEOUT_S,
    }
    return {**handler, "onFailure": "block"} if blocks else handler


def mcp_config(launch: Launch) -> Mapping[str, Any]:
    """The application's tools, as a server that Claude Code connects to."""
    server = {
        "type": "http",
        "url": launch.door.tools_url,
        "headers": {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"},
        "alwaysLoad": True,
        "timeout": MCP_TIMEOUT_MS,
    }
    return {"mcpServers": {SERVER: server}}


def environment(launch: Launch, inherited: Mapping[str, str], *, go_on: bool) -> Mapping[str, str]:
    """The environment of the process.

    Args:
        inherited: the worker's own; what is Claude Code's, Anthropic's or ours is left out.
        go_on: the turn is under way: continue it without a word. False for a new prompt.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
    return {
        **kept,
        **_gateway_env(launch),
        **SWITCHES,
        **(BARE if launch.shown else {}),
        TOKEN_VARIABLE: launch.door.token,
        **past_proxies(inherited),
        "HOME": str(launch.tool_home or launch.home),
        **({"SHELL": launch.shell, "CLAUDE_CODE_SHELL": launch.shell} if launch.shell else {}),
        **(_RESUMING if go_on else {}),
    }


_RESUMING: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1",
    "CLAUDE_CODE_RESUME_PROMPT": SENTINEL,
    "CLAUDE_CODE_RESUME_SHOWS_CUT_OFF_CALLS": "1",
}


def _gateway_env(launch: Launch) -> dict[str, str]:
    return {
        **dict.fromkeys(_ELSEWHERE, ""),
        "CLAUDE_CONFIG_DIR": str(launch.home / CONFIG),
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_BASE_URL": launch.door.base_url,
        **launch.direct,
    }


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
