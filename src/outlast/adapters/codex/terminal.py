"""How Codex is started at its user's own terminal, and how a turn that was typed there goes on without it."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from outlast.adapters.at_terminal import not_given
from outlast.adapters.codex.launch import (
    APPROVAL,
    OURS,
    SANDBOX,
    Launch,
    config_of_user,
)
from outlast.adapters.codex.launch import files as config_files
from outlast.adapters.shapes import Json, as_object
from outlast.errors import BadInput

_CONTEXT: Final = "turn_context"
_MODEL: Final = ("-m", "--model")
_SANDBOX: Final = ("-s", "--sandbox")
_APPROVAL: Final = ("-a", "--ask-for-approval")
_CONFIG: Final = ("-c", "--config")
_FEATURE: Final[Mapping[str, bool]] = {"--enable": True, "--disable": False}
_ALONE: Final = ("--no-alt-screen",)

SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
ASKING: Final = ("on-request", "never")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a turn works under; it stands in its requests."""

    model: str
    approval: str
    sandbox: str


def at_terminal(settings: Mapping[str, Any]) -> bool:
    """Whether the session's turns are typed at a terminal."""
    return "terminal" in settings


def terms_of(settings: Mapping[str, Any], records: Sequence[Json]) -> Terms:
    """Those of a turn: of one that was typed, as its user had set them by then.

    Args:
        records: of the rollout of a session at a terminal.
    """
    now = next((r.get("payload") for r in reversed(records) if r.get("type") == _CONTEXT), None)
    context = as_object(now)
    sandbox = as_object(context.get("sandbox_policy")).get("type")
    return Terms(
        str(context.get("model") or settings.get("model") or ""),
        str(context.get("approval_policy") or settings.get("approval") or APPROVAL),
        str(sandbox if sandbox in SANDBOXES else settings.get("sandbox") or SANDBOX),
    )


def settings_of(words: Sequence[str]) -> Mapping[str, Any]:
    """What a session records of the user's flags.

    Raises:
        BadInput: one of them is not known to leave the session in our hands.
    """
    found: dict[str, Any] = {"approval": ASKING[0], "sandbox": SANDBOXES[1]}
    config: dict[str, Any] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in _ALONE and not equals:
            others.append(name)
            continue
        value = value if equals else rest.pop(0) if rest else ""
        _take(name, value, found, config)
    return {**found, **({"config": config} if config else {}), "terminal": others}


def _take(name: str, value: str, found: dict[str, Any], config: dict[str, Any]) -> None:
    if name in _MODEL:
        found["model"] = value
    elif name in _SANDBOX:
        found["sandbox"] = _one_of(SANDBOXES, name, value)
    elif name in _APPROVAL:
        found["approval"] = _one_of(ASKING, name, value)
    elif name in _FEATURE:
        config[f"features.{value}"] = _FEATURE[name]
    elif name in _CONFIG:
        key, _, given = value.partition("=")
        if key.strip().split(".")[0] in OURS:
            raise BadInput(detail=f"{key} cannot be set for a Codex that is wrapped. Leave it out.")
        config[key.strip()] = _value(given)
    else:
        able = (*_MODEL, *_SANDBOX, *_APPROVAL, *_CONFIG, *_FEATURE, *_ALONE)
        raise not_given("a Codex", name, able)


def _one_of(able: Sequence[str], name: str, value: str) -> str:
    if value not in able:
        raise BadInput(detail=f"{name} is {' or '.join(able)}, not {value!r}.")
    return value


def _value(text: str) -> Any:
    """A value of Codex's configuration as its users give it: JSON where it is some, which is TOML then too; a text."""
    readers: Sequence[Callable[[str], Any]] = (json.loads, str.strip)
    for read in readers:
        try:
            return read(text)
        except ValueError:
            continue
    return text


def argv(launch: Launch, flags: Sequence[str]) -> Sequence[str]:
    """The command line of the program at the terminal."""
    given = config_of_user(launch.config) if launch.config else {}
    return [
        str(launch.program),
        "resume", launch.thread,
        *(("--model", launch.model) if launch.model else ()),
        "--sandbox", launch.sandbox,
        "--ask-for-approval", launch.approval,
        *(word for name, value in given.items() for word in ("--config", f"{name}={_toml(value)}")),
        *flags,
    ]  # fmt: skip


def files(launch: Launch, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The files of its configuration; what its user has been told once, here or without us, it does not tell again."""
    found = dict(config_files(launch))
    own = environ.get("CODEX_HOME") or Path(environ.get("HOME", "/nowhere")) / ".codex"
    seen = {**_notices(Path(own)), **_notices(launch.codex_home)}
    if seen:
        found["config.toml"] = f"notice = {_toml(seen)}\n{found['config.toml']}"
    return found


def _notices(home: Path) -> Json:
    try:
        return as_object(tomllib.loads((home / "config.toml").read_text()).get("notice"))
    except (OSError, ValueError):
        return {}


def _toml(value: Any) -> str:
    table = as_object(value)
    if table:
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in table.items()) + "}"
    # A JSON string, number, boolean or list of these is the same in TOML.
    return json.dumps(value)
