"""Chooses where model requests go and with which credential, from the environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outlast.gateway.upstream import ApiKey, Bearer, Login, Open, Subscription, Upstream
from outlast.settings import ANTHROPIC, Settings

NO_CREDENTIAL: Final = "no credential"


def upstream_of(settings: Settings, environ: Mapping[str, str]) -> Upstream:
    """The provider for this worker.

    In this order: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` (a proxy's bearer token), `CLAUDE_CODE_OAUTH_TOKEN` or
    the login in the user's `~/.claude` (a subscription), else no credential at all, for servers that want none.
    """
    return _choose(settings, environ)[0]


def describe(settings: Settings, environ: Mapping[str, str]) -> str:
    """A line for `doctor`: what would be used, without the secret."""
    _, base_url, kind = _choose(settings, environ)
    return f"{base_url} with {kind}"


def _choose(settings: Settings, environ: Mapping[str, str]) -> tuple[Upstream, str, str]:
    base_url = _base_url(settings, environ)
    if key := environ.get("ANTHROPIC_API_KEY"):
        return ApiKey(key, base_url), base_url, "ANTHROPIC_API_KEY"
    if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
        return Bearer(token, base_url), base_url, "ANTHROPIC_AUTH_TOKEN"
    if token := environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return Subscription(token, base_url), base_url, "CLAUDE_CODE_OAUTH_TOKEN"
    login = _login(environ)
    if login.is_file():
        return Login(login, base_url), base_url, f"the login in {login.parent}"
    return Open(base_url), base_url, NO_CREDENTIAL


def _base_url(settings: Settings, environ: Mapping[str, str]) -> str:
    """Ours where it was set; else the one that the harness's own users set."""
    if settings.anthropic_base_url != ANTHROPIC:
        return settings.anthropic_base_url
    return environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC


def _login(environ: Mapping[str, str]) -> Path:
    directory = environ.get("CLAUDE_CONFIG_DIR") or Path(environ.get("HOME", "~")).expanduser() / ".claude"
    return Path(directory) / ".credentials.json"
