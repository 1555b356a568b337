"""Keys per tenant, from a file of the operator's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import anyio.to_thread
import msgspec

from outlast.errors import BadSettings
from outlast.gateway.target import Asker, NoCredential, Target, Upstream
from outlast.gateway.upstream import ApiKey, Bearer, ByDialect, Open, OpenAIKey
from outlast.settings import ANTHROPIC, OPENAI

OPENAI_DIALECTS: Final = ("openai-responses", "openai-chat")
_OTHERS: Final = 0o077


class _Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str = ""
    token: str = ""
    base_url: str = ""
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.key and self.token:
            msg = "give a `key` or a `token`, not both"
            raise ValueError(msg)
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            msg = "`base_url` must begin with http:// or https://"
            raise ValueError(msg)
        held = (self.key, self.token, self.base_url, *self.headers.values())
        if not all(text.isascii() and text.isprintable() for text in held):
            msg = "something here holds characters that no header can hold"
            raise ValueError(msg)
        if not (self.key or self.token or self.base_url):
            msg = "give a `key`, a `token` or a `base_url`"
            raise ValueError(msg)

    @property
    def small_headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}


class _Bedrock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    region: str
    key: str = ""
    profile: str = ""
    base_url: str = ""

    def __post_init__(self) -> None:
        if bool(self.key) == bool(self.profile):
            msg = (
                "give a `key` of Bedrock or a `profile` of AWS; the worker's own credentials are no tenant's"
            )
            raise ValueError(msg)


class _Vertex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    project: str
    credentials: str
    region: str = "global"
    base_url: str = ""


class _Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    anthropic: _Provider | None = None
    bedrock: _Bedrock | None = None
    vertex: _Vertex | None = None
    openai: _Provider | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.anthropic, self.bedrock, self.vertex)) > 1:
            msg = "give one of `anthropic`, `bedrock` and `vertex`: all are asked in Anthropic's dialect"
            raise ValueError(msg)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tenants: dict[str, _Tenant]


class Clouds(Protocol):
    """Makes the providers that need a library of their own."""

    def bedrock(self, region: str, key: str, profile: str, base_url: str) -> Upstream:
        """Amazon Bedrock, with an API key of it or a profile of AWS; `Unusable` where its library is not here."""
        ...

    def vertex(self, project: str, region: str, credentials: str, base_url: str) -> Upstream:
        """Vertex AI, with the key of a service account in a file; `Unusable` where its library is not here."""
        ...


def read_tenant_keys(file: Path, clouds: Clouds) -> Mapping[str, ByDialect]:
    """The providers of every tenant that `file` names.

    Raises:
        BadSettings: it cannot be read, others may read it, or it does not say what such a file says.
    """
    try:
        mode = file.stat().st_mode
        text = file.read_bytes()
    except OSError as error:
        raise _bad(file, f"it cannot be read ({error.strerror})") from None
    if mode & _OTHERS:
        raise _bad(file, f"others than its owner may read it; run `chmod 600 {file}`")
    try:
        held = msgspec.toml.decode(text, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _bad(file, str(error)) from None  # msgspec names places and types, never a value
    return {name: ByDialect(_upstreams(tenant, clouds)) for name, tenant in held.tenants.items()}


def _bad(file: Path, reason: str) -> BadSettings:
    return BadSettings(name="keys_file", value=str(file), reason=reason, source="keys_file")


def _upstreams(tenant: _Tenant, clouds: Clouds) -> Mapping[str, Upstream]:
    upstreams: dict[str, Upstream] = {}
    if tenant.anthropic is not None:
        upstreams["anthropic"] = _anthropic(tenant.anthropic)
    if (aws := tenant.bedrock) is not None:
        upstreams["anthropic"] = clouds.bedrock(aws.region, aws.key, aws.profile, aws.base_url)
    if (google := tenant.vertex) is not None:
        found = clouds.vertex(google.project, google.region, google.credentials, google.base_url)
        upstreams["anthropic"] = found
    if (openai := tenant.openai) is not None:
        key = OpenAIKey(openai.key or openai.token, openai.base_url or OPENAI, openai.small_headers)
        upstreams |= dict.fromkeys(OPENAI_DIALECTS, key)
    return upstreams


def _anthropic(provider: _Provider) -> Upstream:
    base_url = provider.base_url or ANTHROPIC
    if provider.key:
        return ApiKey(provider.key, base_url, provider.small_headers)
    if provider.token:
        return Bearer(provider.token, base_url, provider.small_headers)
    return Open(base_url, provider.small_headers)


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """Each tenant's own provider and key; a tenant that the file does not name has none.

    The file is read for each request, so that a key can be changed while workers run.
    """

    file: Path
    clouds: Clouds

    async def target(self, asker: Asker) -> Target:
        try:
            tenants = await anyio.to_thread.run_sync(read_tenant_keys, self.file, self.clouds)
        except BadSettings as error:
            raise NoCredential(str(error)) from None
        found = tenants.get(asker.tenant)
        if found is None:
            reason = (
                f"{self.file} names no tenant {asker.tenant!r}. Add [tenants.{asker.tenant}] with a provider."
            )
            raise NoCredential(reason)
        return await found.target(asker)
