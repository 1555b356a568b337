"""How Codex is started: the same way at the first start of a session and at every resume.

Pure: command line, environment and the files of its configuration, from values. Each switch has its reason in
`docs/internals/codex.md`.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Door
from outlast.adapters.codex.places import codex_home, stamp
from outlast.adapters.program import past_proxies
from outlast.adapters.shapes import Json, as_list, as_object
from outlast.ids import sha256
from outlast.tool import Tool
from outlast.tracing import COLLECTOR_KEYS

PROVIDER: Final = "outlast"
"""Name of the gateway among the model providers in Codex's configuration."""
TOKEN: Final = "OUTLAST_ATTEMPT_TOKEN"  # noqa: S105 - the name of a variable
HOOKS_URL: Final = "OUTLAST_HOOKS_URL"

APPROVAL: Final = "untrusted"
SANDBOX: Final = "danger-full-access"
HOOK_TIMEOUT_S: Final = 3600
HELLO_TIMEOUT_S: Final = 10

OFF: Final = (
    "apps", "browser_use", "computer_use", "daemon_auto_start", "goals", "image_generation", "in_app_browser",
    "memories", "plugins", "plugin_sharing", "remote_plugin", "shell_snapshot",
    "skill_mcp_dependency_install", "sleep_tool", "tool_suggest",
)  # fmt: skip
"""Features that would act on their own, go on after the turn, or talk to other services."""

ALONE: Final[Mapping[str, Any]] = {"enabled": False}
"""Of the sub-agents: they go on beside the turn, and nobody starts them again after a kill."""

FLAGS: Final[Mapping[str, Any]] = {
    "check_for_update_on_startup": False,
    "hide_agent_reasoning": False,
    "project_doc_max_bytes": 32768,
}
OURS: Final = (
    "approval_policy", "approvals_reviewer", "chatgpt_base_url", "hooks", "model_provider", "model_providers", "notify",
    "openai_base_url", "profile", "profiles", "projects", "sandbox_mode",
)  # fmt: skip
"""Configuration that no user may set: it would lead past a gate, or past the gateway."""
_HIDDEN: Final = ("OUTLAST_*", *COLLECTOR_KEYS)
"""What commands of the model do not find in their environment."""
_FOREIGN: Final = ("CODEX", "OPENAI_", "OUTLAST_", *COLLECTOR_KEYS)
_HEADLESS: Final = (
    ("SessionStart", "session_start", "hello", HELLO_TIMEOUT_S),
    # A turn that goes on with a compaction asks the model for that first.
    ("PreCompact", "pre_compact", "hello", HELLO_TIMEOUT_S),
    ("PreToolUse", "pre_tool_use", "before", HOOK_TIMEOUT_S),
)
"""Event of Codex, its name in the key of a hook, ours, and how long the hook may take."""
TYPED: Final = "prompt"
_AT_TERMINAL: Final = (
    ("UserPromptSubmit", "user_prompt_submit", TYPED, HOOK_TIMEOUT_S),
    ("PreToolUse", "pre_tool_use", "before", HOOK_TIMEOUT_S),
)
"""The same of a Codex at a terminal: that the hooks are in force shows the prompt, which else opens no turn."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the start of Codex depends on."""

    program: Path
    thread: str
    """Name of the session in Codex."""
    home: Path
    """Below it is everything that Codex keeps of the session; the same at every start."""
    door: Door
    model: str = ""
    """Empty: Codex's own choice."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of Codex's configuration, of the user; the same at every start."""
    tool_home: Path | None = None
    """HOME of Codex and its tools; None: `home`. No request depends on it."""
    bash: str = "bash"
    approval: str = APPROVAL
    """When Codex asks whether a tool may run."""
    sandbox: str = SANDBOX
    typed_url: str = ""
    """Who is told of what is typed at a terminal; empty: nobody is there."""

    @property
    def codex_home(self) -> Path:
        return self.home / codex_home(self.thread)


def argv(launch: Launch) -> Sequence[str]:
    """The command line."""
    return [str(launch.program), "app-server"]


def environment(launch: Launch, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of the process: the worker's own, without what is Codex's, OpenAI's or ours."""
    kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
    return {
        **kept,
        **past_proxies(inherited),
        "HOME": str(launch.tool_home or launch.home),
        "CODEX_HOME": str(launch.codex_home),
        HOOKS_URL: launch.door.hooks_url,
        TOKEN: launch.door.token,
    }


def files(launch: Launch) -> Mapping[str, str]:
    """The files of its configuration, by their names below `CODEX_HOME`."""
    return {
        "config.toml": _config(launch),
        "hooks.json": json.dumps(hooks(launch), indent=1),
        # It stands in every request; Codex would make one of its own on another machine.
        "installation_id": launch.thread,
    }


def hooks(launch: Launch) -> Mapping[str, Any]:
    """What Codex runs when it starts a session, and before each tool."""
    found: dict[str, Any] = {}
    for event, _, name, timeout_s in _hooks(launch):
        handler = {"type": "command", "command": _command(launch, name), "timeout": timeout_s}
        found[event] = [{**_matcher(name), "hooks": [handler]}]
    return {"hooks": found}


def hook_keys(launch: Launch) -> Mapping[str, str]:
    """Under which names Codex lists our hooks, and the digest by which it knows that they are what was trusted."""
    path = launch.codex_home / "hooks.json"
    return {
        f"{path}:{label}:0:0": _trust(launch, label, name, timeout_s)
        for _, label, name, timeout_s in _hooks(launch)
    }


def _hooks(launch: Launch) -> Sequence[tuple[str, str, str, int]]:
    return _AT_TERMINAL if launch.typed_url else _HEADLESS


def _command(launch: Launch, event: str) -> str:
    script = Path(__file__).with_name("hook.sh")
    elsewhere = f"{HOOKS_URL}={shlex.quote(launch.typed_url)} " if event == TYPED else ""
    # -p: neither a file that $BASH_ENV names, nor functions or options of the environment change what it does.
    return (
        f"{elsewhere}exec {shlex.quote(launch.bash)} --norc --noprofile -p {shlex.quote(str(script))} {event}"
    )


def _matcher(event: str) -> Mapping[str, str]:
    return {"matcher": ".*"} if event == "before" else {}


def _trust(launch: Launch, label: str, event: str, timeout_s: int) -> str:
    handler = {"async": False, "command": _command(launch, event), "timeout": timeout_s, "type": "command"}
    about = {"event_name": label, "hooks": [handler], **_matcher(event)}
    return "sha256:" + sha256(
        json.dumps(about, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    )


def thread_params(launch: Launch, cwd: Path) -> Mapping[str, Any]:
    """What Codex is told to go on with the session's thread."""
    return {
        "threadId": launch.thread,
        "cwd": str(cwd),
        "modelProvider": PROVIDER,
        "approvalPolicy": launch.approval,
        "sandbox": launch.sandbox,
        "excludeTurns": True,
        "config": config_of_user(launch.config),
        **({"model": launch.model} if launch.model else {}),
    }


def config_of_user(config: Mapping[str, Any]) -> Json:
    """The user's configuration under what closes the gates: it stands above `config.toml`, and names may have dots."""
    given: Json = {}
    for name, value in config.items():
        _put(given, name.split("."), value)
    for name in OURS:
        given.pop(name, None)
    features, shell = as_object(given.get("features")), as_object(given.get("shell_environment_policy"))
    return {
        **given,
        "features": {**features, **dict.fromkeys(OFF, False), "hooks": True},
        "agents": {**as_object(given.get("agents")), **ALONE},
        "shell_environment_policy": {**shell, "exclude": [*as_list(shell.get("exclude")), *_HIDDEN]},
    }


def _put(table: Json, path: Sequence[str], value: object) -> None:
    """Set what is at `path`, table in table; a table is put into what is there."""
    first, *rest = path
    inner = as_object(value)
    if not (rest or inner):
        table[first] = value
        return
    below = table[first] = as_object(table.get(first))
    if rest:
        _put(below, rest, value)
        return
    for name, one in inner.items():
        _put(below, name.split("."), one)


def founding(
    launch: Launch, cwd: Path, tools: Mapping[str, Tool], founded_s: float, version: str
) -> Mapping[str, Any]:
    """The first record of a rollout: it makes the thread, under our own name, and says which tools it is offered."""
    at = stamp(founded_s)
    about = {
        "id": launch.thread,
        "session_id": launch.thread,
        "timestamp": at,
        "cwd": str(cwd),
        "originator": PROVIDER,
        "cli_version": version,
        "source": "vscode",
        "model_provider": PROVIDER,
        "dynamic_tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "inputSchema": dict(tool.schema),
            }
            for tool in tools.values()
        ],
        "history_mode": "paginated",
    }
    return {"timestamp": at, "ordinal": 0, "type": "session_meta", "payload": about}


def _config(launch: Launch) -> str:
    provider = {
        "name": PROVIDER,
        "base_url": launch.door.base_url + "/v1",
        "wire_api": "responses",
        "env_key": TOKEN,
        # The worker tries again, with the log in its hand.
        "request_max_retries": 0,
        "stream_max_retries": 0,
        "stream_idle_timeout_ms": 3_600_000,
    }
    tables: list[tuple[str, Mapping[str, Any]]] = [
        ("", {"model_provider": PROVIDER, **FLAGS}),
        (f"model_providers.{PROVIDER}", provider),
        ("features", dict.fromkeys(OFF, False)),
        ("agents", ALONE),
        ("analytics", {"enabled": False}),
        ("feedback", {"enabled": False}),
        ("history", {"persistence": "none"}),
        ("shell_environment_policy", {"exclude": list(_HIDDEN)}),
        *(
            (f"hooks.state.{json.dumps(key)}", {"trusted_hash": trust})
            for key, trust in hook_keys(launch).items()
        ),
    ]
    return "\n".join(_table(name, values) for name, values in tables)


def _table(name: str, values: Mapping[str, Any]) -> str:
    # A JSON string, number, boolean or list of these is the same in TOML.
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([*([f"[{name}]"] if name else []), *lines, ""])
