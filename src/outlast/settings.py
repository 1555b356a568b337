"""The product's own settings: few, typed, each with a default that works.

Read from the environment (`OUTLAST_*`), else from `outlast.toml` in the working directory, else from
`outlast.toml` in the user's configuration directory. Where sessions, files and keys go, and who is told or woken, only
the environment and the user's own file may say. `SETTINGS` is the table that the reference page shows.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

import platformdirs

from outlast.errors import BadSettings

ANTHROPIC: Final = "https://api.anthropic.com"
OPENAI: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Times in seconds."""

    world: str = ""
    tenant: str = "default"
    data_dir: str = ""
    harness_dir: str = ""
    lease_s: float = 10.0
    silence_s: float = 600.0
    concurrency: int = 16
    drain_s: float = 30.0
    anthropic_base_url: str = ANTHROPIC
    openai_base_url: str = OPENAI
    keys_file: str = ""
    prices_file: str = ""
    notify_url: str = ""
    notify_command: str = ""
    notify_secret: str = ""
    waker_url: str = ""
    waker_token: str = ""
    tokens_file: str = ""
    public_url: str = ""
    links_secret: str = ""
    webhook_secret: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_algorithms: str = "RS256,ES256"
    oidc_tenant_claim: str = ""
    oidc_scopes_claim: str = "scope"
    oidc_scopes_prefix: str = "outlast:"
    requests_per_s: float = 100.0
    connections: int = 2000
    log_level: str = "warning"

    @property
    def data(self) -> Path:
        """The directory of everything outlast keeps on this machine."""
        return Path(self.data_dir or platformdirs.user_data_dir("outlast")).expanduser()

    @property
    def tokens(self) -> Path:
        """The file of those who may ask the server."""
        return (
            Path(self.tokens_file).expanduser() if self.tokens_file else self.data / "server" / "tokens.json"
        )

    @property
    def harnesses(self) -> Path:
        """The directory of the programs that outlast installs."""
        return Path(self.harness_dir).expanduser().absolute() if self.harness_dir else self.data / "harnesses"

    @property
    def world_url(self) -> str:
        """The World that sessions live in."""
        return self.world or f"sqlite:{self.data / 'world.db'}"


SETTINGS: Final[Mapping[str, str]] = {
    "world": "Where sessions live, as a URL: `sqlite:/path/to/world.db` or `postgres://user:password@host/database`. "
    "Default: `world.db` in the data directory.",
    "tenant": "Whose sessions the commands open, see and advance: the sessions of two tenants of a World never meet.",
    "data_dir": "What outlast keeps on this machine: the World, homes and workspaces, locks. Default: the platform's.",
    "harness_dir": "Where `outlast install` puts harnesses. Default: `harnesses` in the data directory.",
    "lease_s": "How long a worker's leases stand without renewal. A worker that is paused for longer is killed.",
    "silence_s": "How long a harness may neither ask for anything nor say anything, with no call running that it waits "
    "for. Then it is killed, and another attempt goes on.",
    "concurrency": "How many sessions one worker advances at once.",
    "drain_s": "How long `outlast work` lets turns go on after SIGTERM before it hands them over.",
    "anthropic_base_url": "Where model requests in the Anthropic dialect go.",
    "openai_base_url": "Where model requests in the dialects of OpenAI go, the version included: `…/v1`.",
    "keys_file": "Providers and keys of each tenant, in place of those of the environment.",
    "prices_file": "What models cost, in place of the list prices: TOML or JSON, in US dollars per million tokens.",
    "notify_url": "Who is told when a turn has ended, waits or is parked: each notice is posted there, signed.",
    "notify_command": "In place of a URL, a command that is given each notice on its standard input.",
    "notify_secret": "Signs what is told; needed with `notify_url`.",
    "waker_url": "Who is told that a session is ready, where no worker is resident: `https://…`, `sqs://…` or "
    "`postgres://…`.",
    "waker_token": "Sent as a bearer token to a `waker_url` that is `http(s)://…`.",
    "tokens_file": "Who may ask the server, by tokens of which it holds hashes alone. Default: `server/tokens.json` in "
    "the data directory.",
    "public_url": "Where people reach the server, as `https://…`: links for approvals lead there, and cookies are "
    "sent there alone.",
    "links_secret": "Signs links for approvals. Default: made at first use, a file in the data directory; several "
    "servers must share one.",
    "webhook_secret": "Lets other programs send prompts and signals to the server, signed with it.",
    "oidc_issuer": "An identity provider whose tokens let people and programs in, as `https://…`.",
    "oidc_audience": "Whom those tokens must be meant for; needed with `oidc_issuer`.",
    "oidc_algorithms": "By which algorithms they may be signed, as a,b.",
    "oidc_tenant_claim": "The claim that says whose sessions its holder sees; empty: those of the setting `tenant`.",
    "oidc_scopes_claim": "The claim that says what its holder may: a list, or words with spaces between.",
    "oidc_scopes_prefix": "What a scope of ours begins with there: `outlast:read`.",
    "requests_per_s": "How often one who asks the server may, on average; 0: as often as they like.",
    "connections": "How many connections one server holds at once.",
    "log_level": "What is written to standard error: `debug`, `info`, `warning`, `error`.",
}

_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "lease_s": (0.5, 600.0),
    "silence_s": (1.0, 86400.0),
    "concurrency": (1, 1000),
    "drain_s": (0.0, 86400.0),
    "requests_per_s": (0.0, 100_000.0),
    "connections": (1, 100_000),
}
_OWNERS: Final = frozenset(
    {
        "world",
        "tenant",
        "data_dir",
        "harness_dir",
        "anthropic_base_url",
        "openai_base_url",
        "keys_file",
        "prices_file",
        "notify_url",
        "notify_command",
        "notify_secret",
        "waker_url",
        "waker_token",
        "tokens_file",
        "public_url",
        "links_secret",
        "webhook_secret",
        "oidc_issuer",
        "oidc_audience",
        "oidc_algorithms",
        "oidc_tenant_claim",
        "oidc_scopes_claim",
        "oidc_scopes_prefix",
    }
)
"""Where sessions, files and keys go, and what runs, is the user's to say: a cloned repository may bring an
`outlast.toml`."""
_LEVELS: Final = ("debug", "info", "warning", "error")
_DEFAULTS: Final[Mapping[str, object]] = {field.name: field.default for field in fields(Settings)}


def read_settings(environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> Settings:
    """The settings as this process finds them.

    Args:
        environ: by default the process's own; a variable that is empty counts as not set.
        cwd: the directory of the nearer `outlast.toml`.

    Raises:
        BadSettings: a value is of the wrong type, out of range, or its name is not known.
    """
    environ = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    user_file = Path(platformdirs.user_config_dir("outlast")) / "outlast.toml"
    for file in (user_file, (cwd or Path.cwd()) / "outlast.toml"):
        for name, value in _read(file).items():
            if file != user_file and name in _OWNERS:
                reason = f"a directory's file may not set it; set OUTLAST_{name.upper()}, or put it into {user_file}"
                raise BadSettings(name=name, value=value, reason=reason, source=str(file))
            found[name] = _checked(name, value, str(file))
    for name in _DEFAULTS:
        variable = f"OUTLAST_{name.upper()}"
        if environ.get(variable):
            found[name] = _checked(name, _from_text(name, environ[variable]), variable)
    return Settings(**found)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(
            name="file", value=file.name, reason=f"it cannot be read ({error})", source=str(file)
        ) from None


def _from_text(name: str, text: str) -> object:
    """The value of an environment variable; a text that does not fit stays as it is, for `_checked` to refuse."""
    try:
        return text if isinstance(_DEFAULTS[name], str) else type(_DEFAULTS[name])(text)
    except ValueError:
        return text


def _checked(name: str, value: object, source: str) -> object:
    """Return `value` as the setting's own type, if it fits."""
    fault = _fault(name, value)
    if fault is not None:
        raise BadSettings(name=name, value=value, reason=fault, source=source)
    return float(value) if isinstance(_DEFAULTS[name], float) and isinstance(value, int) else value


def _fault(name: str, value: object) -> str | None:
    match _DEFAULTS.get(name):
        case None:
            return f"there is no such setting; known are {', '.join(sorted(_DEFAULTS))}"
        case str():
            return _fault_of_text(name, value)
        case int():
            fits, whole = isinstance(value, int) and not isinstance(value, bool), "whole "
        case _:
            fits, whole = isinstance(value, int | float) and not isinstance(value, bool), ""
    low, high = _RANGES[name]
    if not fits or not low <= cast("float", value) <= high:
        return f"it must be a {whole}number from {low:g} to {high:g}"
    return None


def _fault_of_text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        return "it must be a text"
    if name == "log_level" and value not in _LEVELS:
        return f"it must be one of {', '.join(_LEVELS)}"
    if value and name.endswith(("_base_url", "public_url")) and not value.startswith(("http://", "https://")):
        return "it must begin with http:// or https://"
    return None
