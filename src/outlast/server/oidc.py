"""An identity provider's tokens: who they are of, for which tenant, and what they may (OpenID Connect).

A token is believed when it is signed by a key that the provider publishes, by an algorithm that was allowed here, is
meant for our audience, comes from the issuer, and its time is not over. The keys are found by its own document
(`/.well-known/openid-configuration`), kept for an hour, and read again, at most once a minute, for a new key.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx
import msgspec

from outlast.clock import Clock
from outlast.errors import BadSettings, ExtraMissing, WorldUnavailable
from outlast.server.access import Identity, Scope
from outlast.settings import Settings
from outlast.trust import trusted

try:
    import jwt
except ImportError as absent:  # pragma: no cover - every environment of ours has it
    raise ExtraMissing(what="An identity provider", install="pip install 'outlast[server]'") from absent

KEPT_S: Final = 3600.0
AGAIN_S: Final = 60.0
PAUSE_S: Final = 5.0
"""While there are no keys, the provider is asked so often at most: who asks us meanwhile does not wait for it."""
TIMEOUT_S: Final = 5.0
LEEWAY_S: Final = 60
"""How far the clocks of two machines may differ."""
_LONGEST: Final = 16_384
_MOST_BYTES: Final = 1024 * 1024
_SYMMETRIC: Final = ("HS", "none", "NONE")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose tokens are believed, and what is read in them."""

    issuer: str
    audience: str
    algorithms: Sequence[str] = ("RS256", "ES256")
    tenant_claim: str = ""
    """Says whose sessions its holder sees; empty: `tenant` for all."""
    tenant: str = "default"
    scopes_claim: str = "scope"
    """A list, or words with spaces between."""
    scopes_prefix: str = "outlast:"


class Issuer:
    """Knows those whom an identity provider knows: a doorkeeper (`outlast.server.access`).

    Args:
        provider: whose tokens.
        clock: for how long keys are kept.

    Raises:
        BadSettings: the provider cannot be used.
    """

    def __init__(self, provider: Provider, clock: Clock) -> None:
        _check(provider)
        self._provider = provider
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_s: float | None = None
        self._failed: tuple[float, str] | None = None
        """When no keys could be read though none are there, and why."""
        self._lock = anyio.Lock()

    async def identify(self, credential: str) -> Identity | None:
        if len(credential) > _LONGEST or credential.count(".") != 2 or not self._may_be_right(credential):
            return None
        header = jwt.get_unverified_header(credential)
        key = await self._key(str(header.get("kid", "")))
        if key is None:
            return None
        try:
            claims: Mapping[str, Any] = jwt.decode(
                credential,
                key,
                algorithms=list(self._provider.algorithms),
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "sub"]},
            )
        except jwt.PyJWTError:
            return None
        return self._identity(claims)

    def _may_be_right(self, credential: str) -> bool:
        """Whether it is worth asking the provider for its keys: issuer, audience and algorithm are ours."""
        try:
            header = jwt.get_unverified_header(credential)
            claims: Mapping[str, Any] = jwt.decode(
                credential,
                options={
                    "verify_signature": False,
                    "verify_aud": True,
                    "verify_iss": True,
                    "verify_exp": True,
                },
                algorithms=list(self._provider.algorithms),
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=LEEWAY_S,
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return False
        return header.get("alg") in self._provider.algorithms and bool(claims.get("sub"))

    def _identity(self, claims: Mapping[str, Any]) -> Identity | None:
        provider = self._provider
        tenant = claims.get(provider.tenant_claim) if provider.tenant_claim else provider.tenant
        if not isinstance(tenant, str) or not tenant:
            return None
        said = claims.get(provider.scopes_claim, "")
        words = said.split() if isinstance(said, str) else _texts(said)
        prefix = provider.scopes_prefix
        names = {word.removeprefix(prefix) for word in words if word.startswith(prefix)}
        scopes = frozenset(scope for scope in Scope if scope.value in names)
        return Identity(str(claims["sub"])[:200], tenant, scopes)

    async def _key(self, kid: str) -> "jwt.PyJWK | None":
        """The provider's key of this name; of one that is not named, its only key."""
        if self._is_stale(kid):
            async with self._lock:  # of many who ask at once, one asks the provider
                if self._is_stale(kid):
                    await self._read()
        if kid:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _is_stale(self, kid: str) -> bool:
        if self._read_s is None:
            return True
        age_s = self._clock.elapsed() - self._read_s
        return age_s > KEPT_S or (kid not in self._keys and age_s > AGAIN_S)

    async def _read(self) -> None:
        """Read the provider's keys; while it cannot be reached, those stay that are there.

        Raises:
            WorldUnavailable: none are there.
        """
        if self._failed is not None and self._clock.elapsed() - self._failed[0] < PAUSE_S:
            raise _away(self._failed[1])
        try:
            with anyio.fail_after(2 * TIMEOUT_S):
                async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=trusted()) as client:
                    place = f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration"
                    described = await _json(client, place)
                    keys = await _json(client, self._keys_at(described))
            self._keys = _keys(keys)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TimeoutError, jwt.PyJWTError) as error:
            if not self._keys:
                self._failed = self._clock.elapsed(), type(error).__name__
                raise _away(type(error).__name__) from error
        self._failed = None
        self._read_s = self._clock.elapsed()

    def _keys_at(self, described: Mapping[str, Any]) -> str:
        if described.get("issuer") != self._provider.issuer:
            raise ValueError("its document names another issuer")
        place = str(described.get("jwks_uri", ""))
        if not _is_safe(place):
            raise ValueError("its keys are not at an https address")
        return place


def _away(why: str) -> WorldUnavailable:
    return WorldUnavailable(world="The identity provider", reason=f"its keys cannot be read ({why})")


async def _json(client: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
    async with client.stream("GET", url) as answer:
        answer.raise_for_status()
        data = bytearray()
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > _MOST_BYTES:
                raise ValueError("its document is too long")
    found: object = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("its document is no object")  # noqa: TRY004 - as every other fault of what it published
    return found  # pyright: ignore[reportUnknownVariableType] - JSON


def _texts(found: object) -> Sequence[str]:
    try:
        return msgspec.convert(found, tuple[str, ...])
    except msgspec.ValidationError:
        return ()


def _keys(found: Mapping[str, Any]) -> Mapping[str, "jwt.PyJWK"]:
    """Those keys that we can use: a provider may publish others beside.

    Raises:
        ValueError: it publishes nothing that can be used; no key at all is its word that none holds any more.
    """
    keys: dict[str, jwt.PyJWK] = {}
    published = found.get("keys")
    if not isinstance(published, list):
        raise ValueError("it publishes no list of keys")  # noqa: TRY004 - as above
    for one in published:  # pyright: ignore[reportUnknownVariableType] - JSON
        if isinstance(one, dict) and one.get("use", "sig") == "sig":  # pyright: ignore[reportUnknownMemberType] - JSON
            try:
                key = jwt.PyJWK(one)  # pyright: ignore[reportUnknownArgumentType] - JSON
            except Exception:  # noqa: BLE001, S112 - whatever a library says to what is no key
                continue
            keys[key.key_id or ""] = key
    if published and not keys:
        raise ValueError("none of its keys can be used")
    return keys


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _check(provider: Provider) -> None:
    """Raises BadSettings."""
    if not _is_safe(provider.issuer):
        raise _unfit("oidc_issuer", provider.issuer, "it must begin with https://")
    if not provider.audience:
        raise _unfit("oidc_audience", "", "a token that is meant for another would let in whoever has it")
    if not provider.algorithms or any(one.startswith(_SYMMETRIC) for one in provider.algorithms):
        said = ",".join(provider.algorithms)
        raise _unfit("oidc_algorithms", said, "only algorithms with a public key can be allowed, as RS256")


def _unfit(name: str, value: str, reason: str) -> BadSettings:
    return BadSettings(
        name=name, value=value, reason=reason, source="the environment or your own outlast.toml"
    )


def issuer_of(settings: Settings, clock: Clock) -> Issuer | None:
    """The identity provider that the settings name, if they do.

    Raises:
        BadSettings
    """
    if not settings.oidc_issuer:
        return None
    algorithms = tuple(one.strip() for one in settings.oidc_algorithms.split(",") if one.strip())
    provider = Provider(
        settings.oidc_issuer,
        settings.oidc_audience,
        algorithms,
        settings.oidc_tenant_claim,
        settings.tenant,
        settings.oidc_scopes_claim,
        settings.oidc_scopes_prefix,
    )
    return Issuer(provider, clock)
