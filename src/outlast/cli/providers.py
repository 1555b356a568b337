"""Chooses where model requests go and with which credential, from the environment."""

from collections.abc import Mapping
from pathlib import Path

from outlast.gateway.upstream import ApiKey, Bearer, Login, Open, Upstream
from outlast.settings import Settings


def upstream_of(settings: Settings, environ: Mapping[str, str]) -> Upstream:
    """The provider for this worker.

    In this order: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` (a proxy's bearer token), `CLAUDE_CODE_OAUTH_TOKEN` or
    the login in the user's `~/.claude` (a subscription), else no credential at all, for servers that want none.
    """
    base_url = environ.get("ANTHROPIC_BASE_URL") or settings.anthropic_base_url
    if key := environ.get("ANTHROPIC_API_KEY"):
        return ApiKey(key, base_url)
    if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
        return Bearer(token, base_url)
    if token := environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return Bearer(token, base_url)
    login = Path(environ.get("HOME", "~")).expanduser() / ".claude" / ".credentials.json"
    if login.is_file():
        return Login(login, base_url)
    return Open(base_url)


def describe(settings: Settings, environ: Mapping[str, str]) -> str:
    """A line for `doctor`: what would be used."""
    upstream = upstream_of(settings, environ)
    base_url = environ.get("ANTHROPIC_BASE_URL") or settings.anthropic_base_url
    kind = {ApiKey: "an API key", Bearer: "a bearer token", Login: "the login in ~/.claude"}.get(
        type(upstream), "no credential"
    )
    return f"{base_url} with {kind}"
