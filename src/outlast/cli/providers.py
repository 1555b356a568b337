"""Chooses where model requests go and with which credential, from the environment, for each dialect."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast.gateway.upstream import (
    ApiKey,
    Bearer,
    ByDialect,
    Login,
    Open,
    OpenAIKey,
    Subscription,
    Upstream,
)
from outlast.settings import ANTHROPIC, OPENAI, Settings

NO_CREDENTIAL: Final = "no credential"
OPENAI_DIALECTS: Final = ("openai-responses", "openai-chat")


@dataclass(frozen=True, slots=True)
class _Choice:
    upstream: Upstream
    base_url: str
    kind: str


def upstream_of(settings: Settings, environ: Mapping[str, str]) -> Upstream:
    """The providers for this worker.

    Of Anthropic's dialect, in this order: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` (a proxy's bearer token),
    `CLAUDE_CODE_OAUTH_TOKEN` or the login in the user's `~/.claude` (a subscription). Of OpenAI's dialects:
    `OPENAI_API_KEY`. Else no credential at all, for servers that want none.
    """
    openai = _choose_openai(settings, environ).upstream
    return ByDialect(
        {"anthropic": _choose_anthropic(settings, environ).upstream, **dict.fromkeys(OPENAI_DIALECTS, openai)}
    )


def describe(settings: Settings, environ: Mapping[str, str], dialect: str = "anthropic") -> str:
    """A line for `doctor`: what would be used for a dialect, without the secret."""
    choose = _choose_openai if dialect in OPENAI_DIALECTS else _choose_anthropic
    chosen = choose(settings, environ)
    return f"{chosen.base_url} with {chosen.kind}"


def _choose_anthropic(settings: Settings, environ: Mapping[str, str]) -> _Choice:
    base_url = _base_url(settings.anthropic_base_url, ANTHROPIC, environ.get("ANTHROPIC_BASE_URL"))
    if key := environ.get("ANTHROPIC_API_KEY"):
        return _Choice(ApiKey(key, base_url), base_url, "ANTHROPIC_API_KEY")
    if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
        return _Choice(Bearer(token, base_url), base_url, "ANTHROPIC_AUTH_TOKEN")
    if token := environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return _Choice(Subscription(token, base_url), base_url, "CLAUDE_CODE_OAUTH_TOKEN")
    login = _login(environ)
    if login.is_file():
        return _Choice(Login(login, base_url), base_url, f"the login in {login.parent}")
    return _Choice(Open(base_url), base_url, NO_CREDENTIAL)


def _choose_openai(settings: Settings, environ: Mapping[str, str]) -> _Choice:
    base_url = _base_url(settings.openai_base_url, OPENAI, environ.get("OPENAI_BASE_URL"))
    key = environ.get("OPENAI_API_KEY", "")
    about = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    headers = {name: environ[variable] for name, variable in about.items() if key and environ.get(variable)}
    return _Choice(OpenAIKey(key, base_url, headers), base_url, "OPENAI_API_KEY" if key else NO_CREDENTIAL)


def _base_url(set_here: str, default: str, set_for_harness: str | None) -> str:
    """Ours where it was set; else the one that the harness's own users set."""
    if set_here != default:
        return set_here
    return set_for_harness or default


def _login(environ: Mapping[str, str]) -> Path:
    directory = environ.get("CLAUDE_CONFIG_DIR") or Path(environ.get("HOME", "~")).expanduser() / ".claude"
    return Path(directory) / ".credentials.json"
