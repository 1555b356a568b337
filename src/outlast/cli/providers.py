"""Chooses where model requests go and with which credential, from the environment, for each dialect."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from outlast.adapter import Adapter
from outlast.cli.clouds import LoadedClouds
from outlast.cli.lazy import loaded
from outlast.errors import BadInput, BadSettings
from outlast.gateway.target import Upstream
from outlast.gateway.tenant_keys import OPENAI_DIALECTS, TenantKeys, read_tenant_keys
from outlast.gateway.upstream import ApiKey, Bearer, ByDialect, Login, Open, OpenAIKey, Subscription, Unusable
from outlast.settings import ANTHROPIC, OPENAI, Settings
from outlast.speaking import Speaks

NO_CREDENTIAL: Final = "no credential"
DIALECTS: Final = ("anthropic", *OPENAI_DIALECTS)
_BEDROCK: Final = "CLAUDE_CODE_USE_BEDROCK"
_VERTEX: Final = "CLAUDE_CODE_USE_VERTEX"
_SECRETS: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "ANTHROPIC_CUSTOM_HEADERS",
)
_OPENAI_SECRETS: Final = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
_SET: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the requests of a dialect go."""

    upstream: Upstream
    told: str
    """For `doctor`: the address and the kind of credential, without the secret."""
    fault: str = ""
    """Why it cannot work, and what to do; empty if nothing speaks against it."""


def upstream_of(settings: Settings, environ: Mapping[str, str]) -> Upstream:
    """The providers for this worker: those of `keys_file` by tenant, else those that the environment names."""
    if settings.keys_file:
        return TenantKeys(Path(settings.keys_file).expanduser(), LoadedClouds())
    return ByDialect({dialect: choose(settings, environ, dialect).upstream for dialect in DIALECTS})


def choose(settings: Settings, environ: Mapping[str, str], dialect: str) -> Choice:
    """The provider for a dialect.

    Of Anthropic's, in this order: `CLAUDE_CODE_USE_BEDROCK`, `CLAUDE_CODE_USE_VERTEX`, `ANTHROPIC_API_KEY`,
    `ANTHROPIC_AUTH_TOKEN` (a proxy's bearer token), `CLAUDE_CODE_OAUTH_TOKEN` or the login in the user's `~/.claude`
    (a subscription, at Anthropic's own address only). Of OpenAI's: `OPENAI_API_KEY` or the key with which Codex has
    logged in. Else no credential at all, for servers that want none.
    """
    if settings.keys_file:
        return _of_tenant(settings, dialect)
    environ = _readable(environ)
    if fault := _misnamed(settings, environ, dialect):
        return Choice(Unusable(fault), "nowhere", fault)
    chosen = (_openai if dialect in OPENAI_DIALECTS else _anthropic)(settings, environ)
    return Choice(Unusable(chosen.fault), chosen.told, chosen.fault) if chosen.fault else chosen


def refuse_unusable(
    settings: Settings, environ: Mapping[str, str], adapter: Adapter, chosen: Mapping[str, Any]
) -> None:
    """Let nobody begin a turn whose first model request could only fail.

    Args:
        chosen: the session's settings.

    Raises:
        BadInput: the harness asks its model in a dialect whose provider cannot work.
    """
    fault = fault_of(settings, environ, adapter, chosen)
    if fault:
        raise BadInput(detail=f"{adapter.name} has no model provider here. {fault}")


def fault_of(
    settings: Settings, environ: Mapping[str, str], adapter: Adapter, chosen: Mapping[str, Any]
) -> str:
    """Why a session of `adapter` with the settings `chosen` could ask no model, and what to do; else empty."""
    if not isinstance(adapter, Speaks):
        return ""
    try:
        dialect = adapter.dialect(chosen)
    except BadSettings as error:
        return str(error)
    if not dialect:
        return ""
    if dialect not in DIALECTS:
        return f"It speaks {dialect!r}; the gateway speaks {', '.join(DIALECTS)}."
    fault = choose(settings, environ, dialect).fault
    return f"It asks its model in the dialect {dialect}: {fault}" if fault else ""


def _of_tenant(settings: Settings, dialect: str) -> Choice:
    file = Path(settings.keys_file).expanduser()
    told, clouds = f"{file} for tenant {settings.tenant}", LoadedClouds()
    keys = TenantKeys(file, clouds)
    try:
        tenants = read_tenant_keys(file, clouds)
    except BadSettings as error:
        return Choice(keys, told, str(error))
    provider = "openai" if dialect in OPENAI_DIALECTS else "anthropic"
    found = tenants.get(settings.tenant)
    if found is None or dialect not in found.upstreams:
        return Choice(keys, told, f"It has no [tenants.{settings.tenant}.{provider}]. Add it.")
    upstream = found.upstreams[dialect]
    return Choice(keys, told, upstream.reason if isinstance(upstream, Unusable) else "")


def _anthropic(settings: Settings, environ: Mapping[str, str]) -> Choice:
    if _is_set(environ, _BEDROCK):
        return _bedrock(environ)
    if _is_set(environ, _VERTEX):
        return _vertex(environ)
    base_url = _base_url(settings.anthropic_base_url, ANTHROPIC, environ.get("ANTHROPIC_BASE_URL"))
    headers = _custom_headers(environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    if key := environ.get("ANTHROPIC_API_KEY"):
        return Choice(ApiKey(key, base_url, headers), f"{base_url} with ANTHROPIC_API_KEY")
    if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
        return Choice(Bearer(token, base_url, headers), f"{base_url} with ANTHROPIC_AUTH_TOKEN")
    if base_url.rstrip("/") != ANTHROPIC:
        return _elsewhere(base_url, headers, environ)
    if token := environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return Choice(Subscription(token, base_url), f"{base_url} with CLAUDE_CODE_OAUTH_TOKEN")
    login = _claude_login(environ)
    if login.is_file():
        return Choice(Login(login, base_url), f"{base_url} with the login in {login.parent}")
    fault = "Set ANTHROPIC_API_KEY, or log in with Claude Code once."
    return Choice(Open(base_url), f"{base_url} with {NO_CREDENTIAL}", fault)


def _elsewhere(base_url: str, headers: Mapping[str, str], environ: Mapping[str, str]) -> Choice:
    """A server that is not Anthropic's: a subscription is not for it, and it would learn its token."""
    if environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        fault = (
            "A subscription's token is for Anthropic's own address only: unset CLAUDE_CODE_OAUTH_TOKEN or "
            "ANTHROPIC_BASE_URL, or set ANTHROPIC_AUTH_TOKEN to what that server wants."
        )
        return Choice(Open(base_url), f"{base_url} with CLAUDE_CODE_OAUTH_TOKEN", fault)
    return Choice(Open(base_url, headers), f"{base_url} with {NO_CREDENTIAL}")


def _bedrock(environ: Mapping[str, str]) -> Choice:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    told = f"Amazon Bedrock in {region or 'no region'}"
    if not region:
        return Choice(Unusable(""), told, "Set AWS_REGION to the region whose Bedrock has your models.")
    try:
        bedrock, chain = _loaded("bedrock:Bedrock"), _loaded("aws:Chain")
    except ModuleNotFoundError:
        return Choice(Unusable(""), told, "Run pip install 'outlast[bedrock]'.")
    key = environ.get("AWS_BEARER_TOKEN_BEDROCK")
    signs = _loaded("aws:BedrockKey")(key) if key else chain()
    kind = "AWS_BEARER_TOKEN_BEDROCK" if key else "the credentials of AWS"
    base_url = environ.get("ANTHROPIC_BEDROCK_BASE_URL", "")
    return Choice(bedrock(region, signs, base_url), f"{told} with {kind}")


def _vertex(environ: Mapping[str, str]) -> Choice:
    project = environ.get("ANTHROPIC_VERTEX_PROJECT_ID") or environ.get("GOOGLE_CLOUD_PROJECT") or ""
    region = environ.get("CLOUD_ML_REGION") or "global"
    told = f"Vertex AI in {region} for the project {project or '?'}"
    if not project:
        return Choice(Unusable(""), told, "Set ANTHROPIC_VERTEX_PROJECT_ID to your project of Google Cloud.")
    try:
        vertex = _loaded("vertex:Vertex")
    except ModuleNotFoundError:
        return Choice(Unusable(""), told, "Run pip install 'outlast[vertex]'.")
    base_url = environ.get("ANTHROPIC_VERTEX_BASE_URL", "")
    return Choice(vertex(project, region, base_url=base_url), f"{told} with the credentials of Google Cloud")


def _openai(settings: Settings, environ: Mapping[str, str]) -> Choice:
    base_url = _base_url(settings.openai_base_url, OPENAI, environ.get("OPENAI_BASE_URL"))
    about = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    headers = {name: environ[variable] for name, variable in about.items() if environ.get(variable)}
    if key := environ.get("OPENAI_API_KEY"):
        return Choice(OpenAIKey(key, base_url, headers), f"{base_url} with OPENAI_API_KEY")
    if base_url.rstrip("/") != OPENAI:
        return Choice(OpenAIKey("", base_url), f"{base_url} with {NO_CREDENTIAL}")
    file = _codex_login(environ)
    held = _codex_auth(file)
    if isinstance(key := held.get("OPENAI_API_KEY"), str) and key:
        return Choice(OpenAIKey(key, base_url, headers), f"{base_url} with the key in {file}")
    fault = "Set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that wants no key."
    if _is_set(environ, _BEDROCK) or _is_set(environ, _VERTEX):
        fault = f"{fault} Bedrock and Vertex are asked in Anthropic's dialect only."
    if held.get("tokens"):
        # OpenAI documents this login for Codex's own requests to ChatGPT, not for another program to pass on.
        fault = f"The ChatGPT login in {file} is for Codex alone and is not used. {fault}"
    return Choice(OpenAIKey("", base_url), f"{base_url} with {NO_CREDENTIAL}", fault)


def _readable(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables without the space around them, which a file or a shell leaves behind."""
    return {name: value.strip() for name, value in environ.items()}


def _misnamed(settings: Settings, environ: Mapping[str, str], dialect: str) -> str:
    """What is wrong with what stands in the variables and settings that name a provider and its credential."""
    for name in _OPENAI_SECRETS if dialect in OPENAI_DIALECTS else _SECRETS:
        lines = (
            environ.get(name, "").splitlines()
            if name == "ANTHROPIC_CUSTOM_HEADERS"
            else [environ.get(name, "")]
        )
        if not all(line.isprintable() and line.isascii() for line in lines):
            return f"{name} holds what no header can hold. Set it anew."
    name, address = _address_of(settings, environ, dialect)
    fault = _misaddressed(address)
    if not fault and name.endswith("ANTHROPIC_BASE_URL") and address.rstrip("/").endswith("/v1"):
        fault = "ends in /v1, which clients of Anthropic's API add themselves. Leave that out."
    return f"{name} {fault}" if fault else ""


def _address_of(settings: Settings, environ: Mapping[str, str], dialect: str) -> tuple[str, str]:
    """What says where requests of a dialect go, and what it says; empty of what has an address of its own."""
    if dialect in OPENAI_DIALECTS:
        name, set_here, default = "OPENAI_BASE_URL", settings.openai_base_url, OPENAI
    elif _is_set(environ, _BEDROCK):
        name, set_here, default = "ANTHROPIC_BEDROCK_BASE_URL", "", ""
    elif _is_set(environ, _VERTEX):
        name, set_here, default = "ANTHROPIC_VERTEX_BASE_URL", "", ""
    else:
        name, set_here, default = "ANTHROPIC_BASE_URL", settings.anthropic_base_url, ANTHROPIC
    return (f"OUTLAST_{name}", set_here) if set_here != default else (name, environ.get(name, ""))


def _misaddressed(address: str) -> str:
    if not address:
        return ""
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        return "is no address. Set it to one that begins with http:// or https://."
    if url.scheme not in {"http", "https"} or not url.host:
        return "is no address of a server. Let it begin with http:// or https://."
    if url.userinfo:
        return "holds a name or a password, which everybody would be shown. Set the key by its own variable."
    if url.query or url.fragment:
        return "ends in a query, behind which no path can stand. Leave that out."
    return ""


def _loaded(target: str) -> Any:
    return loaded(f"outlast.gateway.{target}")


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in _SET


def _base_url(set_here: str, default: str, set_for_harness: str | None) -> str:
    """Ours where it was set; else the one that the harness's own users set."""
    if set_here != default:
        return set_here
    return set_for_harness or default


def _custom_headers(lines: str) -> Mapping[str, str]:
    """Headers as Claude Code's users set them: `Name: Value`, one a line."""
    pairs = (line.partition(":") for line in lines.splitlines())
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon and name.strip()}


def _claude_login(environ: Mapping[str, str]) -> Path:
    directory = environ.get("CLAUDE_CONFIG_DIR") or Path(environ.get("HOME", "~")).expanduser() / ".claude"
    return Path(directory) / ".credentials.json"


def _codex_login(environ: Mapping[str, str]) -> Path:
    directory = environ.get("CODEX_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".codex"
    return Path(directory) / "auth.json"


def _codex_auth(file: Path) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
