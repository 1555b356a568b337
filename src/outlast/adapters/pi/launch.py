"""How Pi is started: the same way at the first start of a session and at every resume.

Pure: flags, settings and environment from values. Each switch has its reason in `docs/internals/pi.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Door
from outlast.adapters.pi.session import CONTINUE
from outlast.adapters.program import past_proxies
from outlast.ids import stable_uuid
from outlast.tracing import COLLECTOR_KEYS

HOME: Final = ".outlast-pi"
"""Name below the session's home of the directory of everything that Pi keeps, of each session in one of its own.

They are emptied at each start, so they must be nobody's: HOME may be the user's own."""
EXTENSION: Final = Path(__file__).with_name("extension.js")

APIS: Final[Mapping[str, str]] = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai-responses",
    "openai-completions": "openai-chat",
}
"""What Pi calls an API, and the name of its dialect."""
_PROVIDERS: Final[Mapping[str, str]] = {"anthropic-messages": "anthropic", "openai-responses": "openai"}
"""Pi's own provider of an API, whose list of models stays in force; of the others the model is described by us."""
KNOWN: Final = frozenset(_PROVIDERS.values())
"""Pi's own providers: of these it knows the models."""
_OURS: Final = "outlast"

SWITCHES: Final[Mapping[str, str]] = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
SETTINGS: Final[Mapping[str, Any]] = {
    "cacheWarming": "off",
    "enableInstallTelemetry": False,
    "followUpMode": "all",
    "httpIdleTimeoutMs": "disabled",
    "quietStartup": True,
    "retry": {"enabled": False, "maxRetries": 0, "provider": {"maxRetries": 0}},
    "steeringMode": "all",
    "transport": "sse",
}
"""Settings that stand above the agent's own: the gateway owns the retries, and nothing is asked beside the turn."""
BARE: Final = ("--no-builtin-tools", "--no-context-files", "--no-prompt-templates", "--no-skills")
"""Takes away its own tools, and what it reads by itself of its directory, of those above and of its own."""
_FOREIGN: Final = ("ANTHROPIC_", "OPENAI_", "OUTLAST_", "PI_", *COLLECTOR_KEYS)
_CONTEXT: Final = 200_000
_ANSWER: Final = 32_000


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the start of Pi depends on."""

    node: Path
    program: Path
    session: str
    """UUID of the session in Pi."""
    home: Path
    """Below it is everything that Pi keeps of the session; the same at every start."""
    door: Door
    api: str = "anthropic-messages"
    model: str = ""
    """Empty: Pi's own choice."""
    default: str = ""
    """What that choice is, of the provider that is asked: with a key of another in the environment it would be its."""
    flags: Sequence[str] = ()
    """More flags of the user; the same at every start."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of Pi's settings."""
    tool_home: Path | None = None
    """HOME of Pi and its tools; None: `home`. No request depends on it."""
    shell: str = ""
    """What its commands are run with; empty: its own choice."""
    terminal_url: str = ""
    """Who is told of what is typed at a terminal; empty: nobody is there."""
    bare: bool = False
    """It has no tools of its own, and reads no file that is not named to it here (`outlast.offering`)."""


def session_uuid(tenant: str, session: str) -> str:
    """The name of an outlast session in Pi: the same on every machine."""
    return stable_uuid("pi", tenant, session)


def config_path(session: str) -> str:
    """Path below HOME of what Pi keeps of `session`, a UUID."""
    return f"{HOME}/{session}/agent"


def package_path(session: str) -> str:
    """Path below HOME of a link to Pi's package, since the system prompt names where its documentation is."""
    return f"{HOME}/{session}/program"


def session_path(session: str) -> str:
    """Path below HOME of the file of `session`, a UUID."""
    return f"{config_path(session)}/sessions/{session}.jsonl"


def argv(launch: Launch) -> Sequence[str]:
    """The command line."""
    return [
        str(launch.node), str(launch.program),
        *(() if launch.terminal_url else ("--mode", "rpc")),
        "--session", str(launch.home / session_path(launch.session)),
        "--no-extensions",
        "--extension", str(EXTENSION),
        "--no-themes",
        *(BARE if launch.bare else ()),
        *(() if _trusts(launch.flags) else ("--no-approve",)),
        *(("--provider", provider(launch.api), "--model", launch.model) if launch.model else ()),
        *launch.flags,
    ]  # fmt: skip


def _trusts(flags: Sequence[str]) -> bool:
    return any(flag in {"-a", "--approve", "-na", "--no-approve"} for flag in flags)


def provider(api: str) -> str:
    """Pi's name of the provider that is asked."""
    return _PROVIDERS.get(api, _OURS)


def provider_config(launch: Launch) -> Mapping[str, Any]:
    """What the extension registers: where the models of an API are, and which where Pi does not know them."""
    url = launch.door.base_url + ("" if launch.api == "anthropic-messages" else "/v1")
    if launch.api in _PROVIDERS:
        return {"baseUrl": url}
    model = {
        "id": launch.model,
        "name": launch.model,
        "reasoning": False,
        "input": ["text", "image"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": _CONTEXT,
        "maxTokens": _ANSWER,
    }
    return {"baseUrl": url, "api": launch.api, "models": [model]}


def settings(launch: Launch) -> Mapping[str, Any]:
    """The content of `settings.json`."""
    chosen = (
        {"defaultProvider": provider(launch.api), "defaultModel": launch.default} if launch.default else {}
    )
    shell = {"shellPath": launch.shell} if launch.shell else {}
    return {**chosen, **launch.options, **shell, **SETTINGS}


def environment(launch: Launch, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of the process.

    Args:
        inherited: the worker's own; what is Pi's, a provider's or ours is left out.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
    return {
        **kept,
        **SWITCHES,
        "PI_CODING_AGENT_DIR": str(launch.home / config_path(launch.session)),
        "PI_PACKAGE_DIR": str(launch.home / package_path(launch.session)),
        "OUTLAST_HOOKS_URL": launch.door.hooks_url,
        "OUTLAST_TOOLS_URL": launch.door.tools_url,
        "OUTLAST_ATTEMPT_TOKEN": launch.door.token,
        **({"OUTLAST_TERMINAL_URL": launch.terminal_url} if launch.terminal_url else {}),
        **past_proxies(inherited),
        "HOME": str(launch.tool_home or launch.home),
    }


CONTINUE_COMMAND: Final = f"/{CONTINUE}"
