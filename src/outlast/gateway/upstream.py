"""Providers and credentials: what a request is sent with.

Credentials stay here: a harness holds a token of its attempt only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec

from outlast.gateway.target import JOINED, Asker, NoCredential, Target, Upstream
from outlast.settings import ANTHROPIC, OPENAI


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A provider's API key. `base_url` may be any compatible one."""

    key: str = field(repr=False)
    base_url: str = ANTHROPIC
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    async def target(self, asker: Asker) -> Target:
        return Target(self.base_url.rstrip("/"), {"x-api-key": self.key, **self.headers})


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token, as a company's own endpoint wants it."""

    token: str = field(repr=False)
    base_url: str = ANTHROPIC
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    async def target(self, asker: Asker) -> Target:
        return Target(self.base_url.rstrip("/"), {"authorization": f"Bearer {self.token}", **self.headers})


@dataclass(frozen=True, slots=True)
class OpenAIKey:
    """A key of OpenAI's API. `base_url` may be any compatible one, and names the version: `…/v1`."""

    key: str = field(repr=False)
    base_url: str = OPENAI
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What goes with it: an organization, a project."""

    async def target(self, asker: Asker) -> Target:
        bearer = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return Target(self.base_url.rstrip("/"), {**bearer, **self.headers}, "/v1")


@dataclass(frozen=True, slots=True)
class ByDialect:
    """A provider for each dialect."""

    upstreams: Mapping[str, Upstream]

    async def target(self, asker: Asker) -> Target:
        found = self.upstreams.get(asker.dialect)
        if found is None:
            known = ", ".join(sorted(self.upstreams))
            reason = f"No provider is set for the dialect {asker.dialect!r}; there is one for {known}."
            raise NoCredential(reason)
        return await found.target(asker)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription's token, as `claude setup-token` gives it."""

    token: str = field(repr=False)
    base_url: str = ANTHROPIC

    async def target(self, asker: Asker) -> Target:
        headers = {"authorization": f"Bearer {self.token}", JOINED: "oauth-2025-04-20"}
        return Target(self.base_url.rstrip("/"), headers)


@dataclass(frozen=True, slots=True)
class Open:
    """A provider that asks for no credential: a model on this machine, the scripted one."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    async def target(self, asker: Asker) -> Target:
        return Target(self.base_url.rstrip("/"), self.headers)


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is set cannot work; `reason` says why, and what to do."""

    reason: str

    async def target(self, asker: Asker) -> Target:
        raise NoCredential(self.reason)


@dataclass(frozen=True, slots=True)
class Login:
    """Claude Code's own login, read anew for each request, since whoever logs in or refreshes it writes the file.

    `file` is its `.credentials.json`.
    """

    file: Path
    base_url: str = ANTHROPIC

    async def target(self, asker: Asker) -> Target:
        try:
            text = await anyio.Path(self.file).read_bytes()
            held: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
            token: object = held["claudeAiOauth"]["accessToken"]
        except (OSError, msgspec.MsgspecError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not token:
            reason = f"There is no login in {self.file}. Run `claude` and log in, or set an API key."
            raise NoCredential(reason)
        return await Subscription(token, self.base_url).target(asker)
