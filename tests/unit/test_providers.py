"""Where model requests go and with which credential: chosen from the environment, refused where it cannot work."""

from pathlib import Path

import msgspec
import pytest

from outlast.adapter import Adapter
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.claude_code.sdk import ClaudeAgentSDK
from outlast.adapters.codex import Codex
from outlast.adapters.eve import Eve
from outlast.adapters.opencode import OpenCode
from outlast.adapters.pi import Pi
from outlast.adapters.scripted import Scripted
from outlast.cli.clouds import LoadedClouds
from outlast.cli.providers import choose, refuse_unusable, upstream_of
from outlast.errors import BadInput, BadSettings
from outlast.gateway import Asker, NoCredential, Target
from outlast.gateway.target import Asked
from outlast.gateway.tenant_keys import read_tenant_keys
from outlast.settings import ANTHROPIC, OPENAI, Settings

BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1"}
VERTEX = {"CLAUDE_CODE_USE_VERTEX": "1"}


async def target(
    environ: dict[str, str], dialect: str, settings: Settings | None = None, tenant: str = ""
) -> Target:
    upstream = upstream_of(settings or Settings(), environ)
    return await upstream.target(Asker(dialect, tenant or "default", "s"))


@pytest.mark.parametrize(
    ("environ", "base_url", "headers"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, ANTHROPIC, {"x-api-key": "k"}),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "https://proxy/llm/"},
            "https://proxy/llm",
            {"authorization": "Bearer t"},
        ),
        (
            {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: a: b\nX-Two: 2"},
            ANTHROPIC,
            {"x-api-key": "k", "x-team": "a: b", "x-two": "2"},
        ),
        ({"ANTHROPIC_BASE_URL": "http://localhost:11434"}, "http://localhost:11434", {}),
        (
            {"CLAUDE_CODE_OAUTH_TOKEN": "t"},
            ANTHROPIC,
            {"authorization": "Bearer t", "anthropic-beta": "oauth-2025-04-20"},
        ),
    ],
)
async def test_anthropics_dialect_goes_where_claude_codes_own_variables_say(
    environ: dict[str, str], base_url: str, headers: dict[str, str], tmp_path: Path
) -> None:
    found = await target({"HOME": str(tmp_path), **environ}, "anthropic")
    assert (found.base_url, dict(found.headers)) == (base_url, headers)


@pytest.mark.parametrize("dialect", ["openai-responses", "openai-chat"])
async def test_openais_dialects_go_where_its_own_variables_say(dialect: str, tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "https://openrouter.ai/api/v1",
    }
    found = await target({**environ, "OPENAI_ORG_ID": "o"}, dialect)
    assert found.url("/v1/responses?x=1") == "https://openrouter.ai/api/v1/responses?x=1"
    assert found.headers == {"authorization": "Bearer k", "openai-organization": "o"}
    set_here = await target(environ, dialect, Settings(openai_base_url="http://litellm:4000"))
    assert set_here.url("/v1/chat/completions") == "http://litellm:4000/chat/completions"


async def test_a_login_is_shown_to_nobody_but_the_one_it_is_for(tmp_path: Path) -> None:
    login = tmp_path / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_bytes(msgspec.json.encode({"claudeAiOauth": {"accessToken": "secret"}}))
    environ = {"HOME": str(tmp_path)}
    assert "secret" in str((await target(environ, "anthropic")).headers["authorization"])
    assert not (await target({**environ, "ANTHROPIC_BASE_URL": "http://other"}, "anthropic")).headers
    elsewhere = {**environ, "ANTHROPIC_BASE_URL": "http://other", "CLAUDE_CODE_OAUTH_TOKEN": "t"}
    with pytest.raises(NoCredential, match="ANTHROPIC_AUTH_TOKEN"):
        await target(elsewhere, "anthropic")


async def test_codex_own_key_is_used_and_its_chatgpt_login_is_not(tmp_path: Path) -> None:
    file = tmp_path / ".codex" / "auth.json"
    file.parent.mkdir()
    environ = {"HOME": str(tmp_path)}
    file.write_bytes(msgspec.json.encode({"OPENAI_API_KEY": "k"}))
    assert (await target(environ, "openai-responses")).headers["authorization"] == "Bearer k"
    file.write_bytes(msgspec.json.encode({"OPENAI_API_KEY": None, "tokens": {"access_token": "secret"}}))
    with pytest.raises(NoCredential, match="ChatGPT login"):
        await target(environ, "openai-responses")
    with pytest.raises(BadInput, match="OPENAI_API_KEY"):
        refuse_unusable(Settings(), environ, Codex(), {})


@pytest.mark.parametrize(
    ("adapter", "chosen", "environ", "says"),
    [
        (ClaudeCode(), {}, {}, "ANTHROPIC_API_KEY"),
        (Codex(), {}, {}, "OPENAI_API_KEY"),
        (Codex(), {}, {"ANTHROPIC_API_KEY": "k"}, "OPENAI_API_KEY"),
        (Codex(), {}, {**BEDROCK, "AWS_REGION": "eu-west-1"}, "Anthropic's dialect only"),
        (ClaudeCode(), {}, BEDROCK, "AWS_REGION"),
        (ClaudeCode(), {}, VERTEX, "ANTHROPIC_VERTEX_PROJECT_ID"),
        (
            ClaudeCode(),
            {},
            {"CLAUDE_CODE_OAUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "http://x"},
            "subscription",
        ),
        (ClaudeAgentSDK(), {}, {"OPENAI_API_KEY": "k"}, "ANTHROPIC_API_KEY"),
        (OpenCode(), {}, {"OPENAI_API_KEY": "k"}, "ANTHROPIC_API_KEY"),
        (
            OpenCode(),
            {"model": "openai/gpt-5"},
            {"ANTHROPIC_API_KEY": "k"},
            "openai-responses: Set OPENAI_API_KEY",
        ),
        (OpenCode(), {"model": "openai-compatible/x"}, {"ANTHROPIC_API_KEY": "k"}, "openai-chat"),
        (Pi(), {"api": "anthropic-messages"}, {"OPENAI_API_KEY": "k"}, "ANTHROPIC_API_KEY"),
        (Pi(), {"api": "openai-responses"}, {"ANTHROPIC_API_KEY": "k"}, "OPENAI_API_KEY"),
        (Pi(), {"api": "openai-completions"}, {"OPENAI_API_KEY": "k"}, "name one"),
        (Pi(), {"api": "smoke-signals"}, {"OPENAI_API_KEY": "k"}, "Pi speaks"),
        (Eve(), {}, {"ANTHROPIC_API_KEY": "k"}, "OPENAI_API_KEY"),
    ],
)
def test_what_could_only_fail_is_refused_before_the_first_prompt(
    adapter: Adapter, chosen: dict[str, str], environ: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=says):
        refuse_unusable(Settings(), {"HOME": str(tmp_path), **environ}, adapter, chosen)


@pytest.mark.parametrize(
    ("adapter", "chosen", "environ"),
    [
        (ClaudeCode(), {}, {"ANTHROPIC_API_KEY": "k"}),
        (ClaudeCode(), {}, {**BEDROCK, "AWS_REGION": "eu-west-1"}),
        (ClaudeCode(), {}, {**VERTEX, "ANTHROPIC_VERTEX_PROJECT_ID": "p"}),
        (Codex(), {}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}),
        (OpenCode(), {"model": "openai/gpt-5"}, {"OPENAI_API_KEY": "k"}),
        (Pi(), {"api": "openai-completions", "model": "m"}, {"OPENAI_API_KEY": "k"}),
        (Scripted(), {}, {}),
    ],
)
def test_what_may_work_is_let_begin(
    adapter: Adapter, chosen: dict[str, str], environ: dict[str, str], tmp_path: Path
) -> None:
    refuse_unusable(Settings(), {"HOME": str(tmp_path), **environ}, adapter, chosen)


@pytest.mark.parametrize(
    ("dialect", "environ", "says"),
    [
        ("anthropic", {"ANTHROPIC_BASE_URL": "proxy.example"}, "ANTHROPIC_BASE_URL is no address"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "ftp://proxy.example"}, "http:// or https://"),
        ("openai-chat", {"OPENAI_BASE_URL": "https://x.example/openai?api-version=1"}, "query"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "https://proxy.example/v1/"}, "add themselves"),
        ("anthropic", {"ANTHROPIC_CUSTOM_HEADERS": "x-team: ok\nx-two: …secret"}, "CUSTOM_HEADERS holds"),
        ("openai-chat", {"OPENAI_BASE_URL": "https://me:secret@x.example/v1"}, "password"),
        ("anthropic", {"ANTHROPIC_API_KEY": "sk-\n-secret"}, "ANTHROPIC_API_KEY holds"),
        ("openai-responses", {"OPENAI_API_KEY": "sk-…secret"}, "OPENAI_API_KEY holds"),
        ("anthropic", {**BEDROCK, "AWS_REGION": "x", "ANTHROPIC_BEDROCK_BASE_URL": "x"}, "BEDROCK_BASE_URL"),
    ],
)
async def test_what_no_request_could_be_sent_with_is_said_and_not_shown(
    dialect: str, environ: dict[str, str], says: str, tmp_path: Path
) -> None:
    chosen = choose(Settings(), {"HOME": str(tmp_path), **environ}, dialect)
    assert says in chosen.fault
    assert "secret" not in f"{chosen.fault}{chosen.told}{chosen!r}"
    with pytest.raises(NoCredential, match=r"Set|Let|Leave"):
        await chosen.upstream.target(Asker(dialect, "default", "s"))


async def test_space_around_a_key_is_no_part_of_it(tmp_path: Path) -> None:
    chosen = choose(Settings(), {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": " sk-key\n"}, "anthropic")
    target = await chosen.upstream.target(Asker("anthropic", "default", "s"))
    assert target.headers["x-api-key"] == "sk-key"


def test_no_secret_is_told(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "secret", "OPENAI_API_KEY": "secret"}
    for dialect in ("anthropic", "openai-chat"):
        chosen = choose(Settings(), environ, dialect)
        assert "API_KEY" in chosen.told
        assert "secret" not in repr(chosen)


# keys per tenant

KEYS = """
[tenants.acme.anthropic]
key = "acme-secret"
[tenants.acme.openai]
key = "acme-openai"
base_url = "https://llm.acme.test/v1"
headers = { X-Team = "red" }
[tenants.default.anthropic]
token = "t"
base_url = "https://proxy.test"
"""


def keys(directory: Path, text: str = KEYS, mode: int = 0o600) -> Settings:
    file = directory / "keys.toml"
    file.write_text(text)
    file.chmod(mode)
    return Settings(keys_file=str(file))


async def test_each_tenant_has_its_own_provider_and_key(tmp_path: Path) -> None:
    settings = keys(tmp_path)
    environ = {"ANTHROPIC_API_KEY": "of-the-environment"}
    acme = await target(environ, "anthropic", settings, "acme")
    assert (acme.base_url, dict(acme.headers)) == (ANTHROPIC, {"x-api-key": "acme-secret"})
    openai = await target(environ, "openai-chat", settings, "acme")
    assert openai.url("/v1/chat/completions") == "https://llm.acme.test/v1/chat/completions"
    assert openai.headers == {"authorization": "Bearer acme-openai", "x-team": "red"}
    default = await target(environ, "anthropic", settings)
    assert (default.base_url, dict(default.headers)) == ("https://proxy.test", {"authorization": "Bearer t"})
    assert OPENAI not in openai.base_url


async def test_a_tenant_without_a_key_is_never_given_anothers(tmp_path: Path) -> None:
    settings = keys(tmp_path)
    with pytest.raises(NoCredential, match="names no tenant 'other'"):
        await target({"ANTHROPIC_API_KEY": "k"}, "anthropic", settings, "other")
    with pytest.raises(NoCredential, match="openai-responses"):
        await target({"OPENAI_API_KEY": "k"}, "openai-responses", settings)
    assert "tenants.default.openai" in choose(settings, {}, "openai-chat").fault
    assert not choose(settings, {}, "anthropic").fault


async def test_a_key_can_be_changed_while_workers_run(tmp_path: Path) -> None:
    settings = keys(tmp_path)
    upstream = upstream_of(settings, {})
    acme = Asker("anthropic", "acme", "s")
    await upstream.target(acme)
    keys(tmp_path, KEYS.replace("acme-secret", "new"))
    assert (await upstream.target(acme)).headers == {"x-api-key": "new"}


CLOUDS = """
[tenants.one.bedrock]
region = "eu-west-1"
key = "of-one"
base_url = "http://bedrock.test"
[tenants.two.bedrock]
region = "us-east-1"
profile = "nobody-has-it"
[tenants.three.vertex]
project = "p"
credentials = "nothing.json"
"""


async def test_a_tenant_may_have_its_models_from_a_cloud_and_never_with_the_workers_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-worker")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-worker")
    settings = keys(tmp_path, CLOUDS)
    asked = Asked("POST", "/v1/messages", [], b'{"model":"m","messages":[]}')
    one = await target({}, "anthropic", settings, "one")
    sent = await one.translator.put(asked, one)
    assert sent.url == "http://bedrock.test/model/m/invoke"
    assert ("authorization", "Bearer of-one") in sent.headers
    two = await target({}, "anthropic", settings, "two")
    with pytest.raises(NoCredential, match="nobody-has-it"):
        await two.translator.put(asked, two)
    with pytest.raises(NoCredential, match=r"nothing\.json holds no key"):
        await target({}, "anthropic", settings, "three")


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (KEYS, 0o644, "chmod 600"),
        ("[tenants.a.anthropic]\n", 0o600, "give a `key`"),
        ('[tenants.a.anthropic]\nkey="k"\ntoken="t"\n', 0o600, "not both"),
        ('[tenants.a.anthropic]\nkeys="secret"\n', 0o600, "keys"),
        ('[tenants.a.google]\nkey="secret"\n', 0o600, "google"),
        ('[tenants.a.openai]\nbase_url="ftp://x"\n', 0o600, "http://"),
        ('[tenants.a.openai]\nkey="…secret"\n', 0o600, "no header"),
        ('[tenants.a.bedrock]\nregion="eu-west-1"\n', 0o600, "give a `key` of Bedrock"),
        ('[tenants.a.bedrock]\nkey="secret"\n', 0o600, "region"),
        ('[tenants.a.vertex]\nproject="p"\n', 0o600, "credentials"),
        (
            '[tenants.a.bedrock]\nregion="r"\nkey="secret"\n[tenants.a.anthropic]\nkey="secret"\n',
            0o600,
            "give one of",
        ),
        ("nonsense", 0o600, "keys_file"),
    ],
)
async def test_a_file_of_keys_that_cannot_be_right_is_refused_without_telling_a_secret(
    text: str, mode: int, says: str, tmp_path: Path
) -> None:
    settings = keys(tmp_path, text, mode)
    with pytest.raises(BadSettings, match=says) as caught:
        read_tenant_keys(Path(settings.keys_file), LoadedClouds())
    assert "secret" not in str(caught.value)
    with pytest.raises(NoCredential):
        await target({}, "anthropic", settings, "a")
