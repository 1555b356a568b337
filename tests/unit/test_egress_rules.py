"""What a sandbox may reach, as it is written down."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import BadInput, WorkspaceError
from outlast.workspaces.egress import (
    Allow,
    Credential,
    Secret,
    Who,
    WorkerSecrets,
    from_call,
    from_env,
    from_file,
    network,
    read_network,
)
from outlast.workspaces.egress.paths import below, normal
from outlast.workspaces.egress.secrets import prove
from tests.unit import egress_secrets

WHO = Who("default", "ticket-1")
TOKEN = from_env("FORGE_TOKEN")
SEGMENTS = st.text("abzAZ09-._~%!$&'()*+,;=:@/\\", max_size=12)


def test_what_is_allowed_is_text_with_ports() -> None:
    assert Allow.read("Packages.example.com") == Allow("packages.example.com", (80, 443))
    assert Allow.read("forge.example:3000") == Allow("forge.example", (3000,))
    assert Allow.read("forge.example:*") == Allow("forge.example", ())
    assert Allow.read("*.example.com") == Allow("*.example.com")
    assert Allow.read("[2001:db8::1]:80") == Allow("2001:db8::1", (80,))
    assert Allow.read("[2001:db8::1]") == Allow("[2001:0db8::1]")


def test_a_credential_may_be_for_a_url() -> None:
    given_whole = Credential("http://Forge.example:3000/team", TOKEN)
    assert given_whole == Credential("forge.example", TOKEN, "/team", scheme="http", port=3000)
    assert (given_whole.name, given_whole.header_name) == ("forge.example/team", "authorization")
    assert Credential("github.com", TOKEN).port == 443


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://packages.example.com",
        "packages.example.com/simple",
        "packages.example.com:https",
        "packages.example.com:0",
        "127.1",
        "*.10.0.0.1",
        "a.*",
        "**",
        "*.",
        "é.fr",
    ],
)
def test_what_means_no_host_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadInput, match=r"\w"):
        Allow.read(text)


@pytest.mark.parametrize(
    ("host", "more", "reason"),
    [
        ("*", {}, "every host"),
        ("https://user:hunter2@forge.example", {}, "does not stand in a URL"),
        ("ftp://forge.example", {}, "https or http"),
        ("https://forge.example/a?b", {}, "query"),
        ("https://forge.example/a", {"path": "/b"}, "once"),
        ("https://forge.example:99999", {}, "Port"),
        ("forge.example", {"path": "team"}, "no path"),
        ("forge.example", {"path": "/team/../other"}, "no path"),
        ("forge.example", {"kind": "basic"}, "needs a user"),
        ("forge.example", {"kind": "basic", "user": "a:b"}, "needs a user"),
        ("forge.example", {"kind": "header"}, "name of a header"),
        ("forge.example", {"kind": "header", "header": "Host"}, "name of a header"),
        ("forge.example", {"kind": "header", "header": "X: y"}, "name of a header"),
        ("forge.example", {"kind": "cookie"}, "basic, bearer or header"),
        ("forge.example", {"scope": "tenant"}, "agent or session"),
        ("forge.example", {"port": 70000}, "no port"),
    ],
)
def test_a_credential_that_cannot_be_meant_is_refused(host: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Credential(host, TOKEN, **more)


def test_every_network_of_ones_own_is_not_opened_by_one_star() -> None:
    with pytest.raises(BadInput, match="every network"):
        Allow("*", private=True)


def test_two_credentials_are_told_apart_by_name() -> None:
    with pytest.raises(BadInput, match="a name of its own"):
        network(credentials=[Credential("forge.example", TOKEN), Credential("forge.example", TOKEN)])


def test_one_host_is_no_list_of_hosts() -> None:
    with pytest.raises(BadInput, match=r"\['packages.example.com'\]"):
        network("packages.example.com")


def test_what_is_written_down_is_json_reads_back_and_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "hunter2-hunter2")
    found = network(
        ["packages.example.com", "*.example.com:*", Allow("db.internal", (5432,), private=True)],
        [
            Credential(
                "https://forge.example/team", TOKEN, kind="basic", user="git", methods=["get", "POST"]
            ),
            Credential("api.example", from_call(egress_secrets.of_session), scope="session", name="api"),
            Credential("other.example", from_file("/run/secrets/x"), kind="header", header="X-Key"),
        ],
    )
    text = json.dumps(found.reference())
    assert "hunter2" not in text + repr(found)
    assert read_network(json.loads(text)) == found


@pytest.mark.parametrize(
    "reference",
    [
        {"allow": [{"host": "a", "colour": "red"}]},
        {"allow": ["packages.example.com"]},
        {"credentials": [{"host": "a"}]},
        {"credentials": [{"host": "a", "secret": {"source": "vault", "name": "x"}}]},
        {"allow": 1},
    ],
)
def test_what_cannot_be_read_back_is_said(reference: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_network(reference)


@pytest.mark.parametrize("function", [lambda: "", str.upper, "no function", "a:b.c"])
def test_a_function_that_no_worker_could_import_says_no_secret(function: Any) -> None:
    with pytest.raises(BadInput):
        from_call(function)


@pytest.mark.parametrize(
    ("secret", "missing"),
    [
        (from_env("NOT_THERE"), "variable NOT_THERE is not set"),
        (from_file("/nowhere/at/all"), "/nowhere/at/all cannot be read"),
        (from_call("tests.unit.egress_secrets:gone"), "cannot be imported"),
        (from_call("nowhere.at_all:secret"), "cannot be imported"),
    ],
)
def test_a_worker_without_the_secret_says_which_and_what_to_do(secret: Secret, missing: str) -> None:
    with pytest.raises(WorkspaceError, match=missing):
        WorkerSecrets({}).check(Credential("forge.example", secret), WHO)


async def test_secrets_come_from_where_they_are_said_to_be(tmp_path: Any) -> None:
    file = tmp_path / "ticket-1"
    file.write_text("of-a-file\n")
    secrets = WorkerSecrets({"TOKEN": "of-a-variable", "TOKEN_default": "of-a-tenant"})
    for secret, scope, said in [
        (from_env("TOKEN"), "agent", "of-a-variable"),
        (from_env("TOKEN_{tenant}"), "session", "of-a-tenant"),
        (from_file(f"{tmp_path}/{{session}}"), "session", "of-a-file\n"),
        (from_call(egress_secrets.of_agent), "agent", "of-a-function"),
        (from_call(egress_secrets.of_session), "session", "of-ticket-1"),
    ]:
        credential = Credential("forge.example", secret, scope=scope)  # pyright: ignore[reportArgumentType]
        secrets.check(credential, WHO)
        assert await secrets.say(credential, WHO) == said


@pytest.mark.parametrize("said", ["", " \n", "two\nlines", "é", "nul\0"])
def test_what_does_not_fit_into_a_header_is_no_secret(said: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        prove(Credential("forge.example", TOKEN), said)


def test_a_secret_is_shown_as_its_kind_says_and_not_in_a_repr() -> None:
    basic = prove(Credential("f.example", TOKEN, kind="basic", user="git"), "hunter2\n")
    assert (basic.header, basic.value) == (b"authorization", b"Basic Z2l0Omh1bnRlcjI=")
    header = prove(Credential("f.example", TOKEN, kind="header", header="PRIVATE-TOKEN"), "hunter2")
    assert (header.header, header.value) == (b"private-token", b"hunter2")
    assert "hunter2" not in repr(basic)
    assert b"hunter2" in basic.forms


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/team/site.git", "/team/site.git"),
        ("/%7eteam/%73ite", "/~team/site"),
        ("/api/v4/projects/team%2fsite", "/api/v4/projects/team%2Fsite"),
        ("/@scope%2fpackage", "/@scope%2Fpackage"),
        ("/a//b", "/a//b"),
        ("/.well-known/...", "/.well-known/..."),
    ],
)
def test_a_path_has_one_form(path: str, same: str) -> None:
    assert normal(path) == same


@pytest.mark.parametrize(
    "path",
    [
        "team",
        "/team/../other",
        "/team/./x",
        "/team/..",
        "/team/%2e%2e/other",
        "/team/.%2E/other",
        "/team%2f..%2fother",
        "/team/..%2fother",
        "/team/..;x=y/other",
        "/team/%252e%252e/other",
        "/team/%25252e/other",
        "/team%252f..",
        "/team\\..\\other",
        "/team%5c..%5cother",
        "/team%00/x",
        "/team/..%20/other",
        "/team/%0a..%09;x/other",
        "/team/%c0%ae%c0%ae/other",
        "/team/%C1%9c../other",
        "/team/%zz",
        "/team/%",
        "/te am",
        "/team#x",
    ],
)
def test_a_path_that_hosts_read_in_several_ways_is_none(path: str) -> None:
    assert normal(path) is None


@given(SEGMENTS, SEGMENTS)
def test_nothing_below_a_path_leads_out_of_it(first: str, second: str) -> None:
    found = normal(f"/team/{first}/{second}")
    if found is not None:
        assert below("/team", found)
        assert not {".", ".."} & set(found.replace("%2F", "/").split("/"))
        assert normal(found) == found


@pytest.mark.parametrize(
    ("prefix", "path", "is_below"),
    [
        ("/team", "/team", True),
        ("/team", "/team/x", True),
        ("/", "/x", True),
        ("/team/", "/team/x", True),
        ("/team", "/teams", False),
        ("/team/", "/team", False),
        ("/team", "/", False),
    ],
)
def test_a_path_is_above_what_begins_with_its_segments(prefix: str, path: str, *, is_below: bool) -> None:
    assert below(prefix, path) is is_below
