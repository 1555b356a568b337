"""A worker behind a proxy of its own: what leaves a sandbox goes through that, as the usual variables say."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from outlast.workspaces.egress import Limits, network
from outlast.workspaces.egress.policy import Refusal
from outlast.workspaces.egress.upstream import Upstreams
from tests.egress.stage import QUICK, SECRET, Line, answering, host, keyed, near, ok, stage

WHO = "Basic " + b64encode(b"worker:pass word").decode()


def leading_on(
    said: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
) -> Callable[[Line], Awaitable[None]]:
    """A proxy that takes `CONNECT` and leads to that port of this machine, whatever the name."""

    async def speak(line: Line) -> None:
        head = await line.head()
        await line.say(said)
        if b" 200 " not in said:
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as on, anyio.create_task_group() as tasks:

            async def back() -> None:
                async for piece in on:
                    await line.say(piece)
                tasks.cancel_scope.cancel()

            tasks.start_soon(back)
            try:
                while True:
                    await on.send(await line.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                tasks.cancel_scope.cancel()

    return speak


async def test_a_tunnel_leads_through_the_proxy_by_its_name() -> None:
    async with host(answering(ok(b"through"))) as there, host(leading_on()) as proxy:
        environ = {
            "https_proxy": f"http://worker:pass%20word@127.0.0.1:{proxy.port}",
            "HTTPS_PROXY": "http://other",
        }
        target = f"forge.test:{there.port}"
        async with stage(network([near(there.port)]), environ=environ) as out, out.client() as line:
            await line.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
            assert b" 200 " in await line.head()
            await line.say("GET / HTTP/1.1\r\nHost: forge.test\r\n\r\n")
            assert b"through" in await line.until(b"through")
        assert proxy.all.startswith(f"CONNECT {target} HTTP/1.1\r\n".encode())
        assert WHO.encode() in proxy.all
        assert b"roxy-" not in there.all


async def test_a_credential_is_added_behind_the_proxy_which_sees_none(tmp_path: Path) -> None:
    tls = host(answering(ok(b"mine")), name="forge.test", folder=tmp_path)
    async with tls as there, host(leading_on()) as proxy:
        environ = {"ALL_PROXY": f"127.0.0.1:{proxy.port}"}
        target = f"forge.test:{there.port}"
        async with (
            stage(network([], [keyed(there.port)]), there, environ=environ) as out,
            out.inside(target) as line,
        ):
            await line.say(f"GET /a HTTP/1.1\r\nHost: {target}\r\n\r\n")
            assert b"mine" in await line.until(b"mine")
        assert SECRET.encode() in there.all
        assert SECRET.encode() not in proxy.all
        assert proxy.all.startswith(f"CONNECT {target} HTTP/1.1\r\n".encode())


async def test_a_plain_request_is_asked_of_the_proxy_by_its_whole_address() -> None:
    async with host(answering(ok(b"one"), ok(b"two"))) as proxy:
        environ = {"http_proxy": f"http://worker:pass%20word@127.0.0.1:{proxy.port}"}
        async with (
            stage(network(["open.test"]), environ=environ, names={"open.test": []}) as out,
            out.client() as line,
        ):
            for path, said in (("a?b", b"one"), ("c", b"two")):
                mine = "Host: open.test\r\nProxy-Authorization: Basic bWluZQ==\r\n\r\n"
                await line.say(f"GET http://open.test/{path} HTTP/1.1\r\n{mine}")
                assert said in await line.until(said)
        assert proxy.all.startswith(b"GET http://open.test/a?b HTTP/1.1\r\nhost: open.test\r\n")
        assert b"GET http://open.test/c HTTP/1.1\r\n" in proxy.all
        assert proxy.all.count(WHO.encode()) == 2
        assert b"bWluZQ==" not in proxy.all
        assert len(proxy.heard) == 1


@pytest.mark.parametrize("no_proxy", ["forge.test", "*", "other.test, .test", "forge.test:{port}", "*.test"])
async def test_what_no_proxy_names_is_reached_straight(no_proxy: str) -> None:
    async with host(answering(ok(b"straight"))) as there:
        environ = {"http_proxy": "http://127.0.0.1:1", "no_proxy": no_proxy.format(port=there.port)}
        async with stage(network([near(there.port)]), environ=environ) as out:
            url = f"http://forge.test:{there.port}/"
            head = f"GET {url} HTTP/1.1\r\nHost: forge.test:{there.port}\r\nConnection: close\r\n\r\n"
            assert b"straight" in await out.ask(head)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", b"asks who it is"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", b"it says 403"),
        (b"SSH-2.0-no-proxy\r\n\r\n", b"hung up"),
        (b"", b"hung up"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, b"hung up"),
    ],
)
async def test_a_proxy_that_does_not_lead_on_is_told_of_without_its_secret(said: bytes, why: bytes) -> None:
    async with host(leading_on(said)) as proxy:
        environ = {"https_proxy": f"http://worker:hunter22@127.0.0.1:{proxy.port}"}
        async with stage(network(["forge.test"]), names={"forge.test": []}, environ=environ) as out:
            heard = await out.ask("CONNECT forge.test:443 HTTP/1.1\r\nHost: forge.test:443\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert why in heard
    assert b"hunter22" not in heard


async def test_a_proxy_that_says_nothing_is_left() -> None:
    async def silent(line: Line) -> None:
        await line.all()

    async with host(silent) as proxy:
        environ = {"https_proxy": f"http://127.0.0.1:{proxy.port}"}
        limits = replace(QUICK, head_s=0.2)
        async with stage(
            network(["forge.test"]), names={"forge.test": []}, environ=environ, limits=limits
        ) as out:
            heard = await out.ask("CONNECT forge.test:443 HTTP/1.1\r\nHost: forge.test:443\r\n\r\n")
    assert b"does not answer" in heard


@pytest.mark.parametrize("named", ["socks5://127.0.0.1:1080", "ftp://a", "http://a:99999", "http://"])
async def test_a_proxy_of_another_kind_is_told_of(named: str) -> None:
    async with stage(network(["forge.test"]), environ={"all_proxy": named}) as out:
        heard = await out.ask("CONNECT forge.test:443 HTTP/1.1\r\nHost: forge.test:443\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert b"kind that is not spoken" in heard


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "127.0.0.1"])
async def test_a_name_that_is_known_here_to_lead_inside_is_refused_behind_a_proxy_too(address: str) -> None:
    environ = {"all_proxy": "http://127.0.0.1:1"}
    async with stage(network(["forge.test"]), names={"forge.test": [address]}, environ=environ) as out:
        heard = await out.ask("CONNECT forge.test:443 HTTP/1.1\r\nHost: forge.test:443\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", []),
        ("*", ["a.test", "b.a.test", "10.1.2.3", "2001:db8::1"]),
        ("a.test", ["a.test", "b.a.test"]),
        (".a.test", ["a.test", "b.a.test"]),
        ("10.0.0.0/8", ["10.1.2.3"]),
        ("10.1.2.3", ["10.1.2.3"]),
        ("2001:db8::/32 a.test:443", ["a.test", "b.a.test", "2001:db8::1"]),
        ("a.test:80,10.1.2.3:80,[2001:db8::1]:80", []),
        ("test.a,xa.test,1", []),
    ],
)
def test_no_proxy_means_names_with_all_below_addresses_networks_and_ports(
    no_proxy: str, direct: Sequence[str]
) -> None:
    proxies = Upstreams({"HTTPS_PROXY": "proxy:3128", "NO_PROXY": no_proxy})
    hosts = ["a.test", "b.a.test", "10.1.2.3", "2001:db8::1"]
    assert [each for each in hosts if proxies.to("https", each, 443) is None] == list(direct)
    assert proxies.to("https", "localhost", 443) is None
    assert proxies.to("", "127.0.0.9", 22) is None


def test_the_variables_are_read_as_other_programs_read_them() -> None:
    proxies = Upstreams({"HTTP_PROXY": "http://u:secret@a:1", "ALL_PROXY": "https://b"})
    plain, other = proxies.to("http", "x.test", 80), proxies.to("", "x.test", 22)
    assert plain is not None
    assert (plain.host, plain.port, plain.encrypted) == ("a", 1, False)
    assert "c2VjcmV0" not in repr(plain)
    assert "Basic" not in repr(plain)
    assert other is not None
    assert (other.host, other.port, other.encrypted, other.headers) == ("b", 443, True, ())
    assert Upstreams({"HTTPS_PROXY": " "}).to("https", "x.test", 443) is None
    with pytest.raises(Refusal):
        Upstreams({"all_proxy": "socks5h://x"}).to("https", "x.test", 443)
    assert Limits().connect_s
