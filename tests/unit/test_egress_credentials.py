"""Credentials are added outside of the sandbox, to what they are for and nothing else, and nothing of them comes in."""

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.tls import TLSAttribute

from outlast.clock import ManualClock, SystemClock
from outlast.errors import WorkspaceError
from outlast.workspaces.egress import (
    Credential,
    CredentialUsed,
    Network,
    Outside,
    TurnedAway,
    WorkerSecrets,
    from_call,
    from_env,
    network,
    open_egress,
)
from outlast.workspaces.egress.authority import forget_authorities, open_authority
from outlast.workspaces.egress.inside import variables
from outlast.workspaces.egress.scrub import Scrub
from outlast.workspaces.unix import connect
from tests.egress.stage import (
    SECRET,
    SOON_S,
    TOKEN,
    WHO,
    Host,
    Speak,
    Stage,
    answering,
    host,
    keyed,
    near,
    ok,
    stage,
)

BASIC = base64.b64encode(f"git:{SECRET}".encode())
ALL_OF_IT = (SECRET.encode(), BASIC, base64.b64encode(SECRET.encode()))


def asked(path: str = "/", *headers: str, method: str = "GET", where: str) -> str:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines)


@asynccontextmanager
async def forge(speak: Speak, folder: Path) -> AsyncGenerator[Host]:
    async with host(speak, name="forge.test", folder=folder) as found:
        yield found


async def within(on: Stage, port: int, said: str) -> bytes:
    async with on.inside(f"forge.test:{port}") as line:
        await line.say(said)
        return await line.all()


async def answered(
    tmp_path: Path, answer: bytes, path: str = "/", *headers: str, rules: dict[str, Any] | None = None
) -> tuple[bytes, bytes, Stage]:
    """What a client hears and the host is told, where a credential is for the host."""
    async with (
        forge(answering(answer), tmp_path) as there,
        stage(network(credentials=[keyed(there.port, **rules or {})]), there) as on,
    ):
        heard = await within(on, there.port, asked(path, *headers, where=f"forge.test:{there.port}"))
    return heard, there.all, on


async def test_a_request_is_given_its_credential_outside(tmp_path: Path) -> None:
    heard, told, on = await answered(
        tmp_path, ok(b"let in"), "/team/site.git/info/refs?service=git-upload-pack"
    )
    assert heard.endswith(b"let in")
    assert f"authorization: bearer {SECRET}" in told.decode().lower()
    (used,) = on.told
    assert isinstance(used, CredentialUsed)
    assert (used.who, used.credential, used.method, used.host) == (WHO, "forge", "GET", "forge.test")
    assert (used.path, used.status) == ("/team/site.git/info/refs", 200)
    assert SECRET not in repr(on.told)


@pytest.mark.parametrize(
    ("rules", "header"),
    [
        ({"kind": "basic", "user": "git"}, b"authorization: Basic " + BASIC),
        ({"kind": "header", "header": "PRIVATE-TOKEN"}, f"private-token: {SECRET}".encode()),
    ],
)
async def test_it_is_shown_as_its_kind_says(tmp_path: Path, rules: dict[str, Any], header: bytes) -> None:
    _, told, _ = await answered(tmp_path, ok(), rules=rules)
    assert header in told


async def test_what_the_sandbox_brings_of_its_own_is_taken_off(tmp_path: Path) -> None:
    own = (
        "Authorization: Bearer mine",
        "Cookie: mine=1",
        "PRIVATE-TOKEN: mine",
        "Proxy-Authorization: mine",
        "X-HTTP-Method-Override: mine",
        "X-Original-URL: /mine",
        "Private_Token: mine",
        "x_http-method_override: mine",
        "X: 1",
    )
    _, told, _ = await answered(
        tmp_path, ok(), "/", *own, "Connection: x-kept", rules={"kind": "header", "header": "Private-Token"}
    )
    assert b"mine" not in told
    assert told.count(SECRET.encode()) == 1
    assert b"x: 1" in told


async def test_it_is_taken_off_where_no_credential_fits_too(tmp_path: Path) -> None:
    async with forge(answering(ok()), tmp_path) as there:
        rules = network([near(there.port)], [keyed(there.port, path="/team")])
        async with stage(rules, there) as on:
            said = asked("/elsewhere", "Authorization: Basic mine", where=f"forge.test:{there.port}")
            assert b" 200 OK" in await within(on, there.port, said)
    assert b"authorization" not in there.all.lower()
    assert SECRET.encode() not in there.all


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/teams"),
        ("GET", "/team/../other"),
        ("GET", "/team/%2e%2e/other"),
        ("GET", "/team/..;/other"),
        ("GET", "/team%2f..%2fother"),
        ("GET", "//team/../other"),
        ("DELETE", "/team/site"),
        ("TRACE", "/team/site"),
        ("trace", "/team/site"),
        ("GET", "/team/..%20/other"),
        ("TRACK", "/team/site"),
        ("CONNECT", "/team/site"),
    ],
)
async def test_where_no_credential_fits_a_host_that_only_they_name_is_not_reached(
    tmp_path: Path, method: str, path: str
) -> None:
    async with forge(answering(ok()), tmp_path) as there:
        rules = network(credentials=[keyed(there.port, path="/team", methods=["GET", "POST"])])
        async with stage(rules, there) as on:
            heard = await within(on, there.port, asked(path, method=method, where=f"forge.test:{there.port}"))
    assert heard.split()[1] in {b"400", b"403", b"405"}
    assert not there.all
    assert [type(event) for event in on.told] == [TurnedAway]


async def test_the_nearest_credential_is_the_one(tmp_path: Path) -> None:
    async with forge(answering(ok(), ok()), tmp_path) as there:
        rules = network(
            credentials=[
                keyed(there.port, name="host", kind="basic", user="host"),
                keyed(there.port, name="team", path="/team", kind="basic", user="team"),
                keyed(there.port, name="any", host="*.test", path="/team", kind="basic", user="any"),
            ]
        )
        async with stage(rules, there) as on:
            await within(on, there.port, asked("/team/site", where=f"forge.test:{there.port}"))
            await within(on, there.port, asked("/other", where=f"forge.test:{there.port}"))
    assert [event.credential for event in on.told if isinstance(event, CredentialUsed)] == ["team", "host"]


async def test_each_request_of_a_connection_is_judged(tmp_path: Path) -> None:
    async with (
        forge(answering(ok(b"1"), ok(b"2")), tmp_path) as there,
        stage(network(credentials=[keyed(there.port, path="/team")]), there) as on,
        on.inside(f"forge.test:{there.port}") as line,
    ):
        where = f"forge.test:{there.port}"
        hidden = asked("/other", where=where)
        await line.say(
            f"POST /team HTTP/1.1\r\nHost: {where}\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}"
        )
        await line.until(b"\r\n\r\n1")
        await line.say(hidden)
        assert b" 403 outlast: GET of this path" in await line.all()
    assert there.all.count(SECRET.encode()) == 1


async def test_inside_of_connect_the_host_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    async with (
        forge(answering(ok()), tmp_path) as there,
        stage(network(credentials=[keyed(there.port)]), there) as on,
    ):
        assert b" 421 " in await within(on, there.port, asked(where="evil.test"))
        assert b" 400 " in await within(on, there.port, asked("http://evil.test/", where="evil.test"))
        with pytest.raises((ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream)):
            async with on.inside(f"forge.test:{there.port}", "evil.test"):
                pass
    assert not there.all


async def test_only_http_1_1_is_spoken_within_tls(tmp_path: Path) -> None:
    async with (
        forge(answering(), tmp_path) as there,
        stage(network(credentials=[keyed(there.port)]), there) as on,
    ):
        async with on.inside(f"forge.test:{there.port}", alpn=["h2", "http/1.1"]) as line:
            chosen = line.stream.extra(TLSAttribute.alpn_protocol)
            assert chosen == "http/1.1"
        async with on.inside(f"forge.test:{there.port}", alpn=["h2"]) as line:
            await line.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert b" 505 outlast: Only HTTP/1.1" in await line.all()


async def test_a_credential_for_https_is_not_given_away_in_the_clear() -> None:
    async with host(answering(ok())) as there:
        rules = network([near(there.port)], [keyed(there.port)])
        async with stage(rules) as on:
            where = f"forge.test:{there.port}"
            own = "Authorization: Basic mine\r\nConnection: close"
            assert b" 200 OK" in await on.ask(
                f"GET http://{where}/ HTTP/1.1\r\nHost: {where}\r\n{own}\r\n\r\n"
            )
    assert SECRET.encode() not in there.all
    assert b"mine" not in there.all


async def test_a_forge_without_tls_is_given_its_credential_and_not_hidden_in_a_tunnel() -> None:
    async with (
        host(answering(ok(b"plain"))) as there,
        stage(network(credentials=[keyed(there.port, scheme="http")])) as on,
    ):
        where = f"forge.test:{there.port}"
        said = f"GET http://{where}/a HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n"
        assert b"plain" in await on.ask(said)
        assert b" 403 " in await on.ask(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n")
    assert SECRET.encode() in there.all


async def test_a_host_whose_certificate_nobody_trusts_gets_nothing(tmp_path: Path) -> None:
    async with (
        forge(answering(ok()), tmp_path) as there,
        stage(network(credentials=[keyed(there.port)])) as on,
    ):
        (on.directory / "way/public/authorities.pem").write_bytes(
            open_authority(on.directory / "way", ["forge.test"], SystemClock()).pem
        )
        heard = await within(on, there.port, asked(where=f"forge.test:{there.port}"))
    assert b" 502 outlast: forge.test:" in heard
    assert b"cannot be trusted" in heard
    assert not there.all


ECHOES = {
    "a header": ok(b"x", f"X-Sent: Bearer {SECRET}"),
    "a reason": f"HTTP/1.1 200 Hello {SECRET}\r\nContent-Length: 0\r\n\r\n".encode(),
    "the name of a header": ok(b"x", f"X-{SECRET}: 1"),
    "a cookie": ok(b"x", "Set-Cookie: session=derived", f"Set-Cookie: t={SECRET}"),
    "an error page": ok(b"You sent Authorization: Bearer " + SECRET.encode() + b"!"),
    "basic": ok(b"Basic " + base64.b64encode(SECRET.encode())),
    "a redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: https://git:"
        + SECRET.encode()
        + b"@forge.test/x?token="
        + SECRET.encode()
        + b"\r\nContent-Length: 0\r\n\r\n"
    ),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nBearer s\r\n7\r\n3cret-0\r\nd\r\n"
        b"f-the-f0rge..\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("where", ECHOES)
async def test_a_host_that_says_the_secret_again_is_not_heard(tmp_path: Path, where: str) -> None:
    heard, told, _ = await answered(tmp_path, ECHOES[where])
    assert SECRET.encode() in told
    assert heard.startswith(b"HTTP/1.1 ")
    assert not [form for form in ALL_OF_IT if form in heard]
    assert b"derived" not in heard
    assert SECRET.encode() not in heard.replace(b"\r\n", b"")


async def test_a_redirect_says_no_user_even_of_another_kind(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: https://u:other@forge.test/a@b\r\nContent-Length: 0\r\n\r\n"
    heard, _, _ = await answered(tmp_path, answer)
    assert b"https://forge.test/a@b" in heard


async def test_answers_come_as_they_are_so_that_they_can_be_looked_through(tmp_path: Path) -> None:
    _, told, _ = await answered(tmp_path, ok(), "/", "Accept-Encoding: gzip")
    assert b"accept-encoding: identity" in told
    assert b"gzip" not in told


@pytest.mark.parametrize("size", [1, 2, 7, 19, 64])
def test_whatever_the_pieces_a_secret_is_written_over_and_nothing_else(size: int) -> None:
    secret, text = b"abcabd", b"abcabcabd..abcab abcabdabc"
    scrub = Scrub([secret])
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = b"".join(map(scrub.body, pieces)) + scrub.rest()
    assert found == text.replace(secret, b"******")


def test_what_cannot_be_the_beginning_of_a_secret_is_not_kept_waiting() -> None:
    scrub = Scrub([b"secret"])
    assert scrub.body(b"data: {}\n\n") == b"data: {}\n\n"
    assert scrub.body(b"a se") == b"a "
    assert scrub.body(b"a") == b"sea"


def broken() -> str:
    raise RuntimeError(SECRET)


async def test_a_secret_that_cannot_be_had_is_a_clear_error_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        heard, told, _ = await answered(tmp_path, ok(), rules={"secret": from_call(broken)})
    assert b" 502 outlast: The credential 'forge' cannot be had" in heard
    assert b"the worker's log has the reason" in heard
    assert not told
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text + heard.decode()


async def test_log_lines_say_who_went_where_with_which_credential(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "outlast.egress"):
        await answered(tmp_path, ok(b"body"), "/team?token=query")
    assert "ticket-1: GET forge.test:" in caplog.text
    assert "/team with 'forge': 200" in caplog.text
    assert "query" not in caplog.text
    assert SECRET not in caplog.text


asked_for: list[str] = []


def counted() -> str:
    asked_for.append("")
    return f"{SECRET}-{len(asked_for)}"


async def test_a_credential_that_was_not_taken_is_asked_for_anew(tmp_path: Path) -> None:
    asked_for.clear()
    rejected = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
    async with (
        forge(answering(ok(), ok(), rejected, ok()), tmp_path) as there,
        stage(network(credentials=[keyed(there.port, secret=from_call(counted))]), there) as on,
        on.inside(f"forge.test:{there.port}") as line,
    ):
        for _ in range(4):
            await line.say(f"GET / HTTP/1.1\r\nHost: forge.test:{there.port}\r\n\r\n")
            await line.head()
            line.got = b""
    assert [each.rpartition(b"-")[2][:1] for each in there.all.split(b"\r\n") if SECRET.encode() in each] == [
        b"1",
        b"1",
        b"1",
        b"2",
    ]


async def test_a_worker_without_the_secret_opens_no_way(tmp_path: Path) -> None:
    rules = network(credentials=[Credential("forge.test", from_env("NOT_HERE"), name="forge")])
    with pytest.raises(WorkspaceError, match=r"'forge' cannot be had by this worker.* NOT_HERE is not set"):
        async with open_egress(rules, WHO, tmp_path / "way", outside=Outside(secrets=WorkerSecrets({}))):
            pass


async def test_a_directory_that_others_look_into_holds_no_way(tmp_path: Path) -> None:
    (tmp_path / "way").mkdir(mode=0o755)
    with pytest.raises(WorkspaceError, match="chmod 700"):
        async with open_egress(Network(), WHO, tmp_path / "way"):
            pass


async def test_a_path_too_long_for_a_socket_is_no_trouble(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    async with open_egress(Network(), WHO, directory) as egress:
        (way,) = egress.ways
        assert len(str(way.socket)) > 108
        assert way.socket.stat().st_mode & 0o777 == 0o600
        assert way.socket.parent.stat().st_mode & 0o777 == 0o700
        async with await connect(way.socket) as stream:
            await stream.send(b"GET http://nowhere.test/ HTTP/1.1\r\nHost: nowhere.test\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 403 ")
    assert not way.socket.exists()


async def test_an_attempt_that_ends_late_leaves_the_next_ones_way(tmp_path: Path) -> None:
    began, end = anyio.Event(), anyio.Event()

    async def late() -> None:
        async with open_egress(Network(), WHO, tmp_path / "way"):
            began.set()
            await end.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late)
        await began.wait()
        async with open_egress(Network(), WHO, tmp_path / "way") as egress:
            end.set()
            await anyio.wait_all_tasks_blocked()
            assert egress.ways[0].socket.exists()
    assert not (tmp_path / "way" / "proxy.sock").exists()


async def test_the_key_of_a_sandbox_that_ends_with_its_worker_is_not_written_down(tmp_path: Path) -> None:
    rules, secrets = network([], [keyed(443)]), WorkerSecrets({"FORGE_TOKEN": SECRET})
    for outlived in (False, True):
        async with open_egress(
            rules, WHO, tmp_path / "w", outside=Outside(secrets), outlived=outlived
        ) as egress:
            assert egress.mounts
            written = b"".join(file.read_bytes() for file in (tmp_path / "w").rglob("*") if file.is_file())
            assert (b"PRIVATE KEY" in written) is outlived


def test_keys_that_nobody_used_for_longer_than_a_sandbox_stands_are_removed(tmp_path: Path) -> None:
    now_s = SystemClock().now()
    for name, age_s in (("used", 7.5 * 86_400), ("left", 8.5 * 86_400)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "authority.pem").touch()
        os.utime(tmp_path / name / "authority.pem", (now_s - age_s, now_s - age_s))
    forget_authorities(tmp_path, now_s)
    assert [file.parent.name for file in tmp_path.glob("*/authority.pem")] == ["used"]


def test_an_authority_speaks_for_its_hosts_alone_and_is_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    made = open_authority(tmp_path, ["forge.test", "*.corp.test"], clock)
    assert open_authority(tmp_path, ["*.corp.test", "forge.test"], clock).pem == made.pem
    assert open_authority(tmp_path, ["other.test"], clock).pem != made.pem
    kept = open_authority(tmp_path, ["forge.test"], clock)
    clock.turn(50 * 86400)
    assert open_authority(tmp_path, ["forge.test"], clock).pem != kept.pem
    assert (tmp_path / "authority.pem").stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE" not in made.pem


@pytest.mark.parametrize(
    ("name", "is_trusted"),
    [
        ("forge.test", True),
        ("a.corp.test", True),
        ("evil.test", False),
        ("xforge.test", False),
        ("127.0.0.1", False),
    ],
)
async def test_nobody_is_feigned_but_the_hosts_of_credentials(
    tmp_path: Path, name: str, *, is_trusted: bool
) -> None:
    authority = open_authority(tmp_path, ["forge.test", "*.corp.test"], SystemClock())
    server_in, server_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    client = trusting.wrap_bio(server_out, server_in, server_hostname=name)
    server = authority.context(name).wrap_bio(server_in, server_out, server_side=True)
    failed = ""
    for each in (client, server, client):
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            failed = str(error)
    assert (not failed) is is_trusted, failed


def test_programs_inside_are_told_of_the_way() -> None:
    rules = network(credentials=[Credential("https://forge.test/team", TOKEN), Credential("*.x.test", TOKEN)])
    env = variables(rules)
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://127.0.0.1:3128"
    assert env["SSL_CERT_FILE"] == env["NODE_EXTRA_CA_CERTS"] == "/run/egress/authorities.pem"
    pairs = {
        env[f"GIT_CONFIG_VALUE_{number}"]: env[f"GIT_CONFIG_KEY_{number}"]
        for number in range(int(env["GIT_CONFIG_COUNT"]))
    }
    assert pairs["git@forge.test:"] == "url.https://forge.test/.insteadOf"
    assert "SSL_CERT_FILE" not in variables(Network(), bundle="")


async def test_a_client_that_does_not_trust_the_sandboxs_authority_is_told_of(tmp_path: Path) -> None:
    async with (
        forge(answering(), tmp_path) as there,
        stage(network(credentials=[keyed(there.port)]), there) as on,
    ):
        (on.directory / "way/public/authorities.pem").write_bytes(
            open_authority(tmp_path, ["other.test"], SystemClock()).pem
        )
        with pytest.raises(ssl.SSLError):
            async with on.inside(f"forge.test:{there.port}"):
                pass
        with anyio.fail_after(SOON_S):
            while not on.told:
                await anyio.wait_all_tasks_blocked()
        (event,) = on.told
    assert isinstance(event, TurnedAway)
    assert "does not trust" in event.why


async def test_a_credential_may_be_for_an_address(tmp_path: Path) -> None:
    async with host(answering(ok(b"let in")), name="127.0.0.1", folder=tmp_path) as there:
        rules = network(credentials=[Credential(f"https://127.0.0.1:{there.port}", TOKEN)])
        async with stage(rules, there) as on, on.inside(f"127.0.0.1:{there.port}") as line:
            await line.say(asked(where=f"127.0.0.1:{there.port}"))
            assert (await line.all()).endswith(b"let in")
    assert SECRET.encode() in there.all


async def test_whoever_listens_and_fails_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError(SECRET)

    async with open_egress(Network(), WHO, tmp_path / "way", outside=Outside(told=fail)) as egress:
        reader, writer = await asyncio.open_unix_connection(egress.ways[0].socket)
        writer.write(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 403 " in await reader.read()
        writer.close()
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text


async def test_of_the_authority_only_its_certificate_goes_inside(tmp_path: Path) -> None:
    rules = network(credentials=[Credential("forge.test", TOKEN)])
    outside = Outside(secrets=WorkerSecrets({"FORGE_TOKEN": SECRET}))
    async with open_egress(rules, WHO, tmp_path / "way", outside=outside) as egress:
        (mount,), ((path, bundle),) = egress.mounts, egress.files.items()
        assert not mount.writable
        assert [file.name for file in mount.source.iterdir()] == [Path(path).name]
        assert mount.target == str(Path(path).parent)
        assert egress.env["SSL_CERT_FILE"] == path
        assert (mount.source / Path(path).name).read_bytes() == bundle
    kept = open_authority(tmp_path / "way", ["forge.test"], SystemClock())
    assert bundle.endswith(kept.pem)
    assert bundle.count(b"BEGIN CERTIFICATE") > 50, "what this machine trusts is trusted inside as well"
    assert b"PRIVATE" not in bundle
