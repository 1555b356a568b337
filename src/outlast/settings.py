"""The product's own settings: few, typed, each with a default that works.

Read from the environment (`OUTLAST_*`), else from `outlast.toml` in the working directory, else from
`outlast.toml` in the user's configuration directory. `SETTINGS` is the table that the reference page shows.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import platformdirs

from outlast.errors import BadSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Times in seconds."""

    world: str = ""
    data_dir: str = ""
    lease_s: float = 10.0
    concurrency: int = 16
    drain_s: float = 30.0
    anthropic_base_url: str = "https://api.anthropic.com"
    log_level: str = "warning"

    @property
    def data(self) -> Path:
        """The directory of everything outlast keeps on this machine."""
        return Path(self.data_dir or platformdirs.user_data_dir("outlast")).expanduser()

    @property
    def world_url(self) -> str:
        """The World that sessions live in."""
        return self.world or f"sqlite:{self.data / 'world.db'}"


SETTINGS: Final[Mapping[str, str]] = {
    "world": "Where sessions live, as a URL: `sqlite:/path/to/world.db`. Default: `world.db` in the data directory.",
    "data_dir": "What outlast keeps on this machine: the World, homes of harnesses, locks. Default: the platform's.",
    "lease_s": "How long a worker's leases stand without renewal. A worker that is paused for longer is killed.",
    "concurrency": "How many sessions one worker advances at once.",
    "drain_s": "How long `outlast work` lets turns go on after SIGTERM before it hands them over.",
    "anthropic_base_url": "Where model requests in the Anthropic dialect go.",
    "log_level": "What is written to standard error: `debug`, `info`, `warning`, `error`.",
}

_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "lease_s": (0.5, 600.0),
    "concurrency": (1, 1000),
    "drain_s": (0.0, 86400.0),
}
_LEVELS: Final = ("debug", "info", "warning", "error")


def read_settings(environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> Settings:
    """The settings as this process finds them.

    Raises:
        BadSettings: a value is of the wrong type, out of range, or its name is not known.
    """
    environ = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    for file in (Path(platformdirs.user_config_dir("outlast")) / "outlast.toml", (cwd or Path.cwd()) / "outlast.toml"):
        found.update({name: _typed(name, value, str(file)) for name, value in _read(file).items()})
    known = {field.name for field in fields(Settings)}
    for name in known:
        variable = f"OUTLAST_{name.upper()}"
        if environ.get(variable):
            found[name] = _typed(name, environ[variable], variable)
    return Settings(**found)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(name="file", value=str(file), reason=str(error), source=str(file)) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSettings(name="file", value=str(file), reason=str(error), source=str(file)) from None


def _typed(name: str, value: object, source: str) -> object:
    default = {field.name: field.default for field in fields(Settings)}.get(name)
    if default is None:
        known = ", ".join(sorted(SETTINGS))
        raise BadSettings(name=name, value=value, reason=f"there is no such setting; known are {known}", source=source)
    if isinstance(default, str):
        return _text(name, value, source)
    return _number(name, value, type(default), source)


def _text(name: str, value: object, source: str) -> str:
    if not isinstance(value, str):
        raise BadSettings(name=name, value=value, reason="it must be a text", source=source)
    if name == "log_level" and value not in _LEVELS:
        raise BadSettings(name=name, value=value, reason=f"it must be one of {', '.join(_LEVELS)}", source=source)
    return value


def _number(name: str, value: object, kind: type, source: str) -> float | int:
    try:
        number = kind(value)  # pyright: ignore[reportUnknownVariableType] - int or float of JSON or text
    except (TypeError, ValueError):
        raise BadSettings(name=name, value=value, reason="it must be a number", source=source) from None
    low, high = _RANGES[name]
    if isinstance(value, bool) or not low <= number <= high:
        raise BadSettings(name=name, value=value, reason=f"it must be from {low:g} to {high:g}", source=source)
    return number
