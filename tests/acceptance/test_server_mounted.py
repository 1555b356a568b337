"""The server in another application, below a path of its own; and whoever an identity provider knows."""

import json
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.routing import Mount

from outlast.asgi import app
from outlast.clock import ManualClock, SystemClock
from outlast.errors import BadSettings, WorldUnavailable
from outlast.server.access import Doorkeepers, Scope
from outlast.server.oidc import Issuer, Provider
from outlast.server.serving import App
from outlast.server.tokens import Tokens
from outlast.worlds.memory import open_memory

AUDIENCE = "outlast"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("OUTLAST_WORLD", f"sqlite:{tmp_path / 'world.db'}")
    return tmp_path


def _mounted(server: App) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with server.open():
            yield

    return Starlette(routes=[Mount("/agents", server)], lifespan=lifespan)


async def test_the_server_is_mounted_below_a_path(data: Path) -> None:
    tokens = Tokens(data / "tokens.json")
    token = tokens.add("ann", SystemClock())
    whole = _mounted(app(tokens, world=open_memory))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(whole), base_url="http://host") as client:
        closed = await client.get("/agents/healthz")
        assert (closed.status_code, "app.open()" in closed.text) == (503, True)
        async with whole.router.lifespan_context(whole):
            assert (await client.get("/agents/healthz")).status_code == 200
            headers = {"authorization": f"Bearer {token}"}
            made = await client.post(
                "/agents/v1/sessions", json={"session": "s", "agent": "a"}, headers=headers
            )
            assert made.status_code == 200, made.text
            assert (await client.get("/agents/v1/sessions", headers=headers)).json()["sessions"]
            assert (await client.get("/v1/sessions", headers=headers)).status_code == 404
            login = await client.post(
                "/agents/v1/login", json={"token": token}, headers={"x-outlast": "page"}
            )
            assert "Path=/agents" in login.headers["set-cookie"]


async def test_the_server_alone_is_opened_by_its_lifespan(data: Path) -> None:
    server = app(Tokens(data / "tokens.json"), world=open_memory)
    said: list[str] = []
    asked = iter(["lifespan.startup", "lifespan.shutdown"])
    transport = httpx.ASGITransport(server)

    async def receive() -> dict[str, Any]:
        kind = next(asked)
        if kind == "lifespan.shutdown":
            async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
                said.append(str((await client.get("/readyz")).status_code))
        return {"type": kind}

    async def send(message: Mapping[str, Any]) -> None:
        said.append(message["type"])

    await server({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "200", "lifespan.shutdown.complete"]


class IdentityProvider:
    """An identity provider with one key, which can be turned over, and a count of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False
        self.kid = "k1"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                body = json.dumps(provider.documents().get(self.path, {})).encode()
                self.send_response(503 if provider.away else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

    def documents(self) -> Mapping[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {
            "/.well-known/openid-configuration": {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"},
            "/keys": {"keys": [{**public, "kid": self.kid, "use": "sig", "alg": "RS256"}, {"kty": "odd"}]},
        }

    def turn(self) -> None:
        """Sign with another key from now on."""
        self.kid = "k2"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(
        self, *, kid: str | None = None, key: Any = None, algorithm: str = "RS256", **claims: Any
    ) -> str:
        now_s = int(SystemClock().now())
        said = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ann",
            "iat": now_s,
            "exp": now_s + 600,
            "scope": "openid outlast:read outlast:decide other:write",
            "org": "shop",
            **claims,
        }
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, key or self.key, algorithm, headers={"kid": kid or self.kid})


@pytest.fixture
def provider() -> Generator[IdentityProvider]:
    found = IdentityProvider()
    serving = threading.Thread(target=found.server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        serving.join()
        found.server.server_close()


def _issuer(provider: IdentityProvider, clock: ManualClock) -> Issuer:
    return Issuer(Provider(provider.issuer, AUDIENCE, tenant_claim="org"), clock)


async def test_a_token_of_the_provider_tells_who_for_whom_and_what(provider: IdentityProvider) -> None:
    issuer = _issuer(provider, ManualClock())
    for _ in range(5):
        found = await issuer.identify(provider.token())
        assert found is not None
        assert (found.name, found.tenant) == ("ann", "shop")
        assert found.scopes == {Scope.READ, Scope.DECIDE}
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]
    listed = await issuer.identify(provider.token(scope=["outlast:admin", "read"]))
    assert listed is not None
    assert listed.scopes == {Scope.ADMIN}


async def test_what_is_not_signed_meant_or_timed_right_lets_nobody_in(provider: IdentityProvider) -> None:
    issuer = _issuer(provider, ManualClock())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    right = provider.token()
    head, body, code = right.split(".")
    unsigned = jwt.encode({"iss": provider.issuer, "aud": AUDIENCE, "sub": "ann"}, "", "none")
    confused = provider.token(key="a secret that is long enough for it", algorithm="HS256")
    wrong = [
        provider.token(key=other),
        provider.token(aud="another"),
        provider.token(iss="https://elsewhere.example"),
        provider.token(exp=int(SystemClock().now()) - 3600),
        provider.token(exp=None),
        provider.token(sub=None),
        provider.token(org=None),
        provider.token(org=7),
        provider.token(kid="unknown"),
        unsigned,
        confused,
        f"{head}.{body}.",
        f"{head}.{body[:-4]}AAAA.{code}",
        "a.b.c",
        "..",
        right + "x" * 20_000,
    ]
    for one in wrong:
        assert await issuer.identify(one) is None, one[:80]
    assert await issuer.identify(right) is not None


async def test_the_provider_is_asked_nothing_about_what_cannot_be_right(provider: IdentityProvider) -> None:
    issuer = _issuer(provider, ManualClock())
    for one in ("ol_token", "a.b.c", provider.token(aud="another"), provider.token(iss="https://x.example")):
        assert await issuer.identify(one) is None
    assert provider.asked == []


async def test_a_new_key_is_found_and_unknown_ones_ask_seldom(provider: IdentityProvider) -> None:
    clock = ManualClock()
    issuer = _issuer(provider, clock)
    assert await issuer.identify(provider.token()) is not None
    provider.turn()
    assert await issuer.identify(provider.token()) is None  # asked a moment ago
    clock.turn(61.0)
    assert await issuer.identify(provider.token()) is not None
    asked = len(provider.asked)
    for number in range(20):
        assert await issuer.identify(provider.token(kid=f"k{number + 10}")) is None
    assert len(provider.asked) == asked


async def test_while_the_provider_is_away_its_keys_still_hold(provider: IdentityProvider) -> None:
    clock = ManualClock()
    issuer = _issuer(provider, clock)
    provider.away = True
    with pytest.raises(WorldUnavailable, match="identity provider"):
        await issuer.identify(provider.token())
    provider.away = False
    clock.turn(5.1)
    assert await issuer.identify(provider.token()) is not None
    provider.away = True
    clock.turn(7200.0)
    assert await issuer.identify(provider.token()) is not None


@pytest.mark.parametrize(
    "said",
    [
        {"/.well-known/openid-configuration": [1]},
        {"/.well-known/openid-configuration": {"issuer": "https://another.example"}},
        {"/keys": None},
        {"/keys": {"keys": None}},
        {"/keys": {"keys": {"kid": "k1"}}},
        {
            "/keys": {
                "keys": [{"kty": "RSA", "kid": "k1", "n": 7, "e": "?"}, {"kty": "EC", "crv": ["P-256"]}, 3]
            }
        },
    ],
)
async def test_a_provider_that_publishes_nonsense_lets_nobody_in_and_breaks_nothing(
    provider: IdentityProvider, said: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    issuer = _issuer(provider, clock)
    sane = provider.documents()
    monkeypatch.setattr(provider, "documents", lambda: {**sane, **said})
    with pytest.raises(WorldUnavailable):
        await issuer.identify(provider.token())
    monkeypatch.setattr(provider, "documents", lambda: sane)
    clock.turn(61.0)
    assert await issuer.identify(provider.token()) is not None
    monkeypatch.setattr(provider, "documents", lambda: {**sane, **said})
    clock.turn(7200.0)
    assert await issuer.identify(provider.token()) is not None, "the keys that it had still hold"


async def test_while_the_provider_is_away_who_asks_waits_for_one_try_at_most(
    provider: IdentityProvider,
) -> None:
    clock = ManualClock()
    issuer = _issuer(provider, clock)
    provider.away = True
    for _ in range(20):
        with pytest.raises(WorldUnavailable):
            await issuer.identify(provider.token())
    assert len(provider.asked) == 1
    provider.away = False
    clock.turn(5.1)
    assert await issuer.identify(provider.token()) is not None


async def test_tokens_of_a_file_and_of_a_provider_stand_beside_each_other(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.add("bob", SystemClock())
    both = Doorkeepers(tokens, _issuer(provider, ManualClock()))
    names = [await both.identify(one) for one in (token, provider.token(), "nobody's")]
    assert [None if one is None else one.name for one in names] == ["bob", "ann", None]


@pytest.mark.parametrize(
    "provider",
    [
        Provider("http://id.example", AUDIENCE),
        Provider("https://id.example", ""),
        Provider("https://id.example", AUDIENCE, ("HS256",)),
        Provider("https://id.example", AUDIENCE, ("none",)),
        Provider("https://id.example", AUDIENCE, ()),
    ],
)
def test_a_provider_that_would_let_in_anybody_is_refused(provider: Provider) -> None:
    with pytest.raises(BadSettings):
        Issuer(provider, ManualClock())
