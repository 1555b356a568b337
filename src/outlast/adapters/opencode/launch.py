"""How OpenCode is started: the same way at the first start of a session and at every resume.

Pure but for `lay_out`: configuration and environment from values. Each switch has its reason in
`docs/internals/opencode.md`. What keeps the gates closed stands in `OPENCODE_CONFIG_CONTENT`, which stands above the
configuration of user, project and directory, and above what a tool writes there while the session runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Door
from outlast.adapters.opencode.policies import SERVER
from outlast.adapters.program import past_proxies
from outlast.adapters.shapes import Json, as_list, as_object
from outlast.beneath import Beneath
from outlast.tracing import COLLECTOR_KEYS

PLUGIN: Final = Path(__file__).with_name("plugin.js")
USER: Final = "opencode"
"""For OpenCode's own server, beside the password of the attempt."""
MCP_TIMEOUT_MS: Final = 3_600_000

SWITCHES: Final[Mapping[str, str]] = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_EMBEDDED_WEB_UI": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
}
BARE: Final[Mapping[str, str]] = {
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
}
"""Where it has no tools of its own: nothing of its directory and those above is read, be it rules or configuration."""
_FOREIGN: Final = ("ANTHROPIC_", "OPENAI_", "OPENCODE", "OUTLAST_", *COLLECTOR_KEYS)
HOME: Final = ".outlast-opencode"
"""Name below the session's home of the directory of everything that OpenCode keeps, of each session in one of its own.

What an earlier attempt left there is deleted, so they must be nobody's: HOME may be the user's own."""
_XDG: Final[Mapping[str, str]] = {
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
}
_SECRET: Final = (
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_SERVER_PASSWORD",
    "OPENCODE_SERVER_USERNAME",
    "OUTLAST_ATTEMPT_TOKEN",
    "OUTLAST_HOOKS_URL",
    "OUTLAST_SHELL_ENV",
    "OUTLAST_TERMINAL_URL",
    "OUTLAST_TOOLS_URL",
)
INSTALLING: Final[Mapping[str, str]] = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "20000"}
"""For what OpenCode installs for plugins of a project before it loads them: a registry that is not there, or does not
answer, must not hold up the turn for minutes. Of the model's commands this is no business."""
_PROVIDERS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("@ai-sdk/anthropic", "anthropic"),
    "openai": ("@ai-sdk/openai", "openai-responses"),
    "openai-compatible": ("@ai-sdk/openai-compatible", "openai-chat"),
}
"""By OpenCode's name for a provider, what it is spoken to with, and in which dialect. All three are built in."""

_DEFAULT: Final = "anthropic"
_TABLE: Final = "models.json"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as OpenCode names it."""

    provider: str
    model: str

    @property
    def dialect(self) -> str:
        """As in `outlast.adapter.Dialogue.dialect`."""
        return _PROVIDERS[self.provider][1]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the start of OpenCode depends on."""

    program: Path
    version: str
    name: str
    """Of the session, for the directory of what OpenCode keeps of it; the same on every machine."""
    home: Path
    """Below it is everything that OpenCode keeps of the session; the same at every start."""
    door: Door
    password: str
    """For OpenCode's own server."""
    model: ModelName | None = None
    """None: what the project's settings or OpenCode choose."""
    config: Mapping[str, Any] | None = None
    """More configuration of the user; the same at every start."""
    tool_home: Path | None = None
    """HOME of OpenCode and its tools; None: `home`."""
    table: str | None = None
    """What is known of the models (`table.table_of`); None: all that OpenCode has built in."""
    offers: bool = True
    """The application's tools are offered. Prompts that are typed at a terminal have none."""
    denied: Sequence[str] | None = None
    """It has no tools of its own (`outlast.offering`): the permissions by which they are taken away."""
    shell: str = ""
    """What its commands are run with; empty: its own choice."""
    typed_url: str = ""
    """Where the plugin tells what is typed at a terminal; empty without one."""

    @property
    def kept(self) -> Path:
        """Where everything is that OpenCode keeps of the session."""
        return self.home / HOME / self.name


def model_name(text: str) -> ModelName | None:
    """The model that a setting names, `claude-sonnet-4-5` or `openai/gpt-5`; None if it names none.

    Without one of the providers above in front of it, it is Anthropic's.
    """
    if not text:
        return None
    provider, slash, model = text.partition("/")
    return ModelName(provider, model) if slash and provider in _PROVIDERS else ModelName(_DEFAULT, text)


def provider_of(model: ModelName | None) -> str:
    """OpenCode's name for the one provider that is switched on."""
    return _DEFAULT if model is None else model.provider


def argv(launch: Launch) -> Sequence[str]:
    """The command line. It holds no secret: command lines are for every user of the machine to read."""
    return [
        str(launch.program),
        "serve",
        "--hostname", "127.0.0.1",
        "--port", "0",
        "--print-logs",
        "--log-level", "WARN",
    ]  # fmt: skip


def config(launch: Launch) -> Mapping[str, Any]:
    """The configuration that stands above every other."""
    name = launch.model
    given: Mapping[str, Any] = launch.config or {}
    provider = provider_of(name)
    own = as_object(as_object(given.get("provider")).get(provider))
    options = {
        **as_object(own.get("options")),
        "baseURL": f"{launch.door.base_url}/v1",
        "apiKey": launch.door.token,
    }
    models = as_object(own.get("models"))
    chosen: Json = {}
    if name is not None:
        models = {**models, name.model: as_object(models.get(name.model))}
        chosen = {"model": f"{name.provider}/{name.model}"}
    return {
        **given,
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        **chosen,
        # No other provider: with a key of its own from elsewhere its calls would go past the gateway.
        "enabled_providers": [provider],
        "provider": {provider: {"npm": _PROVIDERS[provider][0], "options": options, "models": models}},
        "plugin": [*as_list(given.get("plugin")), PLUGIN.as_uri()],
        # A refusal is an answer that the model reads, and not the end of the turn.
        "experimental": {**as_object(given.get("experimental")), "continue_loop_on_deny": True},
        "permission": _permissions(launch, given.get("permission")),
        "mcp": {
            **(as_object(given.get("mcp")) if launch.denied is None else {}),
            **({SERVER: mcp_config(launch)} if launch.offers else {}),
        },
    }


def _permissions(launch: Launch, given: object) -> Json:
    """The rules of the user, and behind them, where the last that fits counts, those that must stand."""
    denied = dict.fromkeys(launch.denied or (), "deny")
    own = {name: rule for name, rule in _permission(given).items() if name not in denied}
    return {**own, "doom_loop": "allow", **denied}


def _permission(given: object) -> Json:
    """Rules of the user; one word is a rule for everything."""
    return {"*": given} if isinstance(given, str) else as_object(given)


def mcp_config(launch: Launch) -> Mapping[str, Any]:
    """The application's tools, as a server that OpenCode connects to."""
    return {
        "type": "remote",
        "url": launch.door.tools_url,
        "headers": {"Authorization": f"Bearer {launch.door.token}"},
        "oauth": False,
        "enabled": True,
        "timeout": MCP_TIMEOUT_MS,
    }


def environment(launch: Launch, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of the process.

    Args:
        inherited: the worker's own; what is OpenCode's, a provider's or ours is left out.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
    table = {} if launch.table is None else {"OPENCODE_MODELS_PATH": str(launch.kept / _TABLE)}
    return {
        **kept,
        **SWITCHES,
        **(BARE if launch.denied is not None else {}),
        **INSTALLING,
        **table,
        **{name: str(launch.kept / below) for name, below in _XDG.items()},
        "HOME": str(launch.tool_home or launch.home),
        **past_proxies(inherited),
        "OPENCODE_CONFIG_CONTENT": _json(config(launch)),
        "OPENCODE_SERVER_PASSWORD": launch.password,
        "OPENCODE_SERVER_USERNAME": USER,
        "OUTLAST_ATTEMPT_TOKEN": launch.door.token,
        "OUTLAST_HOOKS_URL": launch.door.hooks_url,
        "OUTLAST_TOOLS_URL": launch.door.tools_url,
        "OUTLAST_SHELL_ENV": _json(shell_environment(inherited)),
        **({"SHELL": launch.shell} if launch.shell else {}),
        **({"OUTLAST_TERMINAL_URL": launch.typed_url} if launch.typed_url else {}),
    }


def screen_argv(launch: Launch, base_url: str, session: str, cwd: Path) -> Sequence[str]:
    """The command line of OpenCode's screen, which shows a session of the process at `base_url`."""
    return [str(launch.program), "attach", base_url, "--dir", str(cwd), "--session", session]


def screen_environment(launch: Launch, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of that screen: it has the password of the process, and nothing that opens the gateway."""
    kept = environment(launch, inherited)
    ours = {"OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"}
    return {name: value for name, value in kept.items() if name in ours or name not in _SECRET}


def shell_environment(inherited: Mapping[str, str]) -> Mapping[str, str]:
    """What the model's commands find otherwise than OpenCode: no secret of the attempt, and the user's directories."""
    own = {name: inherited.get(name, "") for name in (*_XDG, *INSTALLING)}
    return {**dict.fromkeys(_SECRET, ""), **own}


def lay_out(launch: Launch) -> None:
    """Make the directories, and what keeps OpenCode from installing a package that nothing here needs.

    It installs `@opencode-ai/plugin` beside each configuration unless a lock there names it. What an earlier attempt
    left in the database goes: the session is put back as the log has it.
    """
    ours = Beneath(launch.home)
    data_dir = launch.kept / _XDG["XDG_DATA_HOME"] / "opencode"
    ours.make(data_dir)
    for file in data_dir.glob("opencode*.db*"):
        ours.remove(file)
    config_dir = launch.kept / _XDG["XDG_CONFIG_HOME"] / "opencode"
    ours.make(config_dir / "node_modules")
    needs = {"dependencies": {"@opencode-ai/plugin": launch.version}}
    lock = {"name": "opencode", "lockfileVersion": 3, "packages": {"": needs}}
    ours.write(config_dir / "package.json", _json(needs).encode())
    ours.write(config_dir / "package-lock.json", _json(lock).encode())
    if launch.table is not None:
        ours.write(launch.kept / _TABLE, launch.table.encode())


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
