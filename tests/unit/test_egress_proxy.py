"""The way out of a sandbox, asked by clients that mean well and by others."""

import ssl
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from outlast.workspaces.egress import (
    Allow,
    Limits,
    Opened,
    TurnedAway,
    network,
)
from tests.egress.stage import SECRET, WHO, Line, answering, host, near, ok, stage


def get(where: str, path: str = "/", *headers: str) -> str:
    return "\r\n".join(
        [f"GET http://{where}{path} HTTP/1.1", f"Host: {where}", *headers, "Connection: close", "", ""]
    )


async def test_a_host_that_is_allowed_is_reached_by_a_plain_request() -> None:
    async with host(answering(ok(b"here"))) as forge, stage(network([near(forge.port)])) as on:
        heard = await on.ask(
            get(f"forge.test:{forge.port}", "/a?b=c", "Proxy-Connection: keep-alive", "X-One: 1")
        )
    assert heard.startswith(b"HTTP/1.1 200 OK")
    assert heard.endswith(b"here")
    assert forge.all.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"x-one: 1" in forge.all.lower()
    assert b"proxy" not in forge.all.lower()


async def test_a_host_that_is_allowed_is_reached_through_connect_unseen() -> None:
    async def echo(line: Line) -> None:
        await line.until(b"ping")
        await line.say(b"pong")

    async with host(echo) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        await line.say(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: other.test\r\n\r\nping")
        heard = await line.all()
    assert heard == b"HTTP/1.1 200 Connection established\r\n\r\npong"
    assert forge.all == b"ping"
    assert on.told == [Opened(WHO, "forge.test", forge.port)]


async def test_several_requests_share_one_connection_on_both_sides() -> None:
    async with host(answering(ok(b"1"), ok(b"2"))) as forge, stage(network([near(forge.port)])) as on:
        where = f"forge.test:{forge.port}"
        first = get(where, "/1").replace("Connection: close\r\n", "")
        async with on.client() as line:
            await line.say(first)
            await line.until(b"\r\n\r\n1")
            await line.say(get(where, "/2"))
            assert (await line.all()).endswith(b"2")
    assert len(forge.heard) == 1


async def test_a_connection_that_a_host_has_ended_is_not_used_again() -> None:
    async with host(answering(ok(b"1"))) as forge, stage(network([near(forge.port)])) as on:
        where = f"forge.test:{forge.port}"
        async with on.client() as line:
            for _ in range(3):
                await line.say(get(where).replace("Connection: close\r\n", ""))
                await line.until(b"\r\n\r\n1")
                line.got = b""
                await anyio.wait_all_tasks_blocked()
    assert len(forge.heard) == 3


REFUSED: Mapping[str, tuple[str, int, str]] = {
    "another host": (
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        403,
        "evil.test:443 is not allowed",
    ),
    "another port": ("CONNECT forge.test:22 HTTP/1.1\r\nHost: x\r\n\r\n", 403, "only port 443 of it"),
    "another host, plainly": (get("evil.test"), 403, "evil.test:80 is not allowed"),
    "a decimal address": ("CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "notation"),
    "an octal address": ("CONNECT 0177.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "leads nowhere"),
    "a hexadecimal address": ("CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "notation"),
    "an address": ("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", 403, "127.0.0.1:443 is not allowed"),
    "a mapped address": (
        "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        403,
        "127.0.0.1:443 is not",
    ),
    "an address of IPv6": ("CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n", 403, "[::1]:443 is not allowed"),
    "a user in the address": (get("forge.test@evil.test"), 400, "leads nowhere"),
    "a user in CONNECT": (
        "CONNECT forge.test@evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
        "leads nowhere",
    ),
    "no port": ("CONNECT forge.test HTTP/1.1\r\nHost: x\r\n\r\n", 400, "leads nowhere"),
    "https without CONNECT": (
        "GET https://forge.test/ HTTP/1.1\r\nHost: forge.test\r\n\r\n",
        400,
        "does not encrypt",
    ),
    "another scheme": ("GET ftp://forge.test/ HTTP/1.1\r\nHost: forge.test\r\n\r\n", 400, "This is a proxy"),
    "no proxy request": ("GET / HTTP/1.1\r\nHost: forge.test\r\n\r\n", 400, "This is a proxy"),
    "another Host": (
        "GET http://open.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        421,
        "another host than open.test:80",
    ),
    "two Hosts": (
        "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\nHost: evil.test\r\n\r\n",
        400,
        "no request",
    ),
    "no Host": ("GET http://open.test/ HTTP/1.1\r\n\r\n", 400, "no request"),
    "two lengths": (
        (
            "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n"
            "\r\n0\r\n\r\nX"
        ),
        400,
        "the length of its body once",
    ),
    "two counted lengths": (
        "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\nabcdef",
        400,
        "no request",
    ),
    "a strange coding": (
        "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        501,
        "coding that is not carried",
    ),
    "chunks of HTTP/1.0": (
        "POST http://open.test/ HTTP/1.0\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "needs HTTP/1.1",
    ),
    "a folded header": (
        "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n x\r\n\r\n",
        421,
        "another host",
    ),
    "a space before the colon": (
        "GET http://open.test/ HTTP/1.1\r\nHost : open.test\r\n\r\n",
        400,
        "no request",
    ),
    "HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "Only HTTP/1.1"),
    "no HTTP": ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "no request"),
    "a huge head": ("GET http://open.test/ HTTP/1.1\r\nX: " + "a" * 70_000, 431, "too long"),
    "a WebSocket": (get("open.test", "/", "Upgrade: websocket"), 501, "WebSocket"),
    "TRACE": ("TRACE http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", 405, "TRACE is not carried"),
    "dots in a path": (
        "GET http://open.test/a/../b HTTP/1.1\r\nHost: open.test\r\n\r\n",
        400,
        "without dots",
    ),
    "a network of the owner's": (get("private.test"), 403, "private network"),
    "this machine": (get("here.test"), 403, "private network"),
    "the clouds' own address": (get("cloud.test"), 403, "never reached by a name"),
    "nowhere": (get("nowhere.test"), 502, "no address"),
    "a name for CONNECT that leads here": (
        "CONNECT here.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        403,
        "private network",
    ),
}
NAMES = {
    "here.test": ["127.0.0.1", "::1"],
    "private.test": ["10.0.0.8"],
    "cloud.test": ["169.254.169.254"],
    "nowhere.test": [],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_it_refuses_with_a_reason(name: str) -> None:
    said, status, reason = REFUSED[name]
    allowed = network([Allow("forge.test", (443,)), "open.test", *NAMES])
    async with stage(allowed, names=NAMES) as on:
        heard = (await on.ask(said)).decode()
    head, _, body = heard.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} outlast: ")
    assert reason in head.partition("\r\n")[0]
    assert reason in body
    assert [type(event) for event in on.told] == [TurnedAway]


class Turning(dict[str, list[str]]):
    """A name that is somewhere else each time that it is asked for."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return self[key][self.asked - 1 :][:1]


async def test_the_address_that_was_judged_is_the_one_that_is_connected_to() -> None:
    names = Turning({"forge.test": ["127.0.0.1", "169.254.169.254"]})
    async with host(answering(ok())) as forge, stage(network([near(forge.port)]), names=names) as on:
        assert b" 200 OK" in await on.ask(get(f"forge.test:{forge.port}"))
        assert names.asked == 1
        assert b"never reached by a name" in await on.ask(get(f"forge.test:{forge.port}"))


async def test_a_name_leads_only_to_those_of_its_addresses_that_may_be() -> None:
    async with host(answering(ok())) as forge:
        names = {"forge.test": ["169.254.169.254", "127.0.0.1"]}
        async with stage(network([near(forge.port)]), names=names) as on:
            assert b" 200 OK" in await on.ask(get(f"forge.test:{forge.port}"))


async def test_a_star_is_for_names_that_lead_into_the_world() -> None:
    async with stage(network(["*"]), names={"evil.test": ["127.0.0.1"]}) as on:
        assert b"private network" in await on.ask(get("evil.test"))
        assert b"is not allowed" in await on.ask(get("93.184.216.34"))


async def test_below_a_suffix_no_name_leads_to_the_workers_own_machine() -> None:
    names = {"a.corp.test": ["127.0.0.1"]}
    async with stage(network([Allow("*.corp.test", (80,), private=True)]), names=names) as on:
        assert b" 403 " in await on.ask(get("a.corp.test"))


async def test_a_redirect_is_the_clients_to_follow_and_is_judged_anew() -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
    async with host(answering(away)) as forge, stage(network([near(forge.port)])) as on:
        heard = await on.ask(get(f"forge.test:{forge.port}"))
        assert b"ocation: http://169.254.169.254/latest" in heard
        assert b"is not allowed" in await on.ask(get("169.254.169.254", "/latest"))


async def test_a_slow_head_is_not_waited_for() -> None:
    quick = Limits(head_s=0.1, linger_s=0.1)
    async with stage(network(["open.test"]), limits=quick) as on:
        assert await on.ask("") == b""
        assert b" 408 " in await on.ask("GET http://open.test/ HTTP/1.1\r\n")


async def test_a_silent_host_is_not_waited_for_forever() -> None:
    async def silent(line: Line) -> None:
        await line.all()

    quick = Limits(idle_s=0.2, linger_s=0.1)
    async with host(silent) as forge, stage(network([near(forge.port)]), limits=quick) as on:
        assert await on.ask(get(f"forge.test:{forge.port}")) == b""
        heard = await on.ask(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert heard.endswith(b"established\r\n\r\n")


async def test_no_session_has_all_connections_of_the_worker() -> None:
    async with stage(network(["open.test"]), limits=Limits(connections=2)) as on, on.client(), on.client():
        await anyio.wait_all_tasks_blocked()
        assert b"503 outlast: too many connections" in await on.ask("")


async def test_a_host_that_breaks_off_breaks_off_for_the_client() -> None:
    async with (
        host(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")) as forge,
        stage(network([near(forge.port)])) as on,
    ):
        heard = await on.ask(get(f"forge.test:{forge.port}"))
        assert heard.endswith(b"half")
    async with host(answering(b"SSH-2.0-x\r\n\r\n")) as forge, stage(network([near(forge.port)])) as on:
        assert b" 502 outlast: The host ended the connection" in await on.ask(get(f"forge.test:{forge.port}"))


async def test_a_body_waits_for_leave_where_its_client_does() -> None:
    async def leave(line: Line) -> None:
        await line.head()
        await line.say("HTTP/1.1 100 Continue\r\n\r\n")
        assert await line.exactly(4) == b"body"
        await line.say(ok(b"taken"))

    async with host(leave) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        where = f"forge.test:{forge.port}"
        await line.say(
            f"PUT http://{where}/ HTTP/1.1\r\nHost: {where}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
        )
        await line.until(b"100 ")
        await line.say("body")
        await line.until(b"taken")


async def test_an_answer_before_the_end_of_the_body_arrives_whole() -> None:
    async def early(line: Line) -> None:
        await line.head()
        await line.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")

    async with host(early) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        where = f"forge.test:{forge.port}"
        await line.say(
            f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await line.until(b"big")
        for _ in range(20):
            await line.say(b"5\r\nabcde\r\n")
        await line.say(b"0\r\n\r\n")


async def test_chunks_go_both_ways_as_they_come() -> None:
    async def back(line: Line) -> None:
        await line.head()
        await line.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await line.until(b"one")
        await line.say(b"3\r\nuno\r\n")
        await line.until(b"two")
        await line.say(b"3\r\ndue\r\n0\r\n\r\n")
        await line.until(b"0\r\n\r\n")

    async with host(back) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        where = f"forge.test:{forge.port}"
        await line.say(
            f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await line.say(b"3\r\none\r\n")
        await line.until(b"uno")
        await line.say(b"3\r\ntwo\r\n0\r\n\r\n")
        await line.until(b"due\r\n0\r\n\r\n")


async def test_an_answer_whose_length_is_said_twice_has_one_behind_us() -> None:
    twice = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    )
    async with host(answering(twice)) as forge, stage(network([near(forge.port)])) as on:
        heard = await on.ask(get(f"forge.test:{forge.port}"))
    assert b"content-length" not in heard.lower()
    assert heard.endswith(b"4\r\nbody\r\n0\r\n\r\n")


async def test_a_client_that_goes_away_ends_what_it_asked_for() -> None:
    gone = anyio.Event()

    async def wait(line: Line) -> None:
        await line.head()
        await line.all()
        gone.set()

    async with host(wait) as forge, stage(network([near(forge.port)])) as on:
        async with on.client() as line:
            await line.say(get(f"forge.test:{forge.port}"))
            while not forge.all:
                await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            await gone.wait()


async def test_only_its_user_reaches_a_way_out_and_only_while_it_lasts() -> None:
    async with stage(network(["open.test"])) as on, on.client():
        await anyio.wait_all_tasks_blocked()
        path = on.directory / "way" / "proxy.sock"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()
    assert SECRET not in str(on.told)


@pytest.mark.parametrize(
    ("name", "pieces", "arrives"),
    [
        ("forge.test", 1, True),
        ("forge.test", 3, True),
        ("evil.test", 1, False),
        ("evil.test", 3, False),
        ("", 1, True),
    ],
)
async def test_within_an_unseen_connection_no_other_host_is_asked_for(
    name: str, pieces: int, *, arrives: bool
) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    hello, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(hello, said, server_hostname=name or None)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    words = said.read()

    async def hear(line: Line) -> None:
        await line.exactly(len(words))
        await line.say(b"heard")

    async with host(hear) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        await line.say(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        await line.head()
        for at in range(0, len(words), -(-len(words) // pieces)):
            await line.say(words[at : at - (-len(words) // pieces)])
            await anyio.wait_all_tasks_blocked()
        assert await line.all() == (b"heard" if arrives else b"")
        assert forge.all == (words if arrives else b"")
        assert [type(event) for event in on.told] == ([Opened] if arrives else [Opened, TurnedAway])


@pytest.mark.parametrize("kind", [0x14, 0x15, 0x17, 0x18])
async def test_no_other_record_of_tls_comes_before_the_first_words(kind: int) -> None:
    async def hear(line: Line) -> None:
        await line.all()

    async with host(hear) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        await line.say(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        await line.head()
        await line.say(bytes([kind, 3, 1, 0, 2, 1, 90]))
        assert await line.all() == b""
        assert [type(event) for event in on.told] == [Opened, TurnedAway]
    assert not forge.all


async def test_first_words_in_crumbs_are_not_looked_at_forever() -> None:
    async def hear(line: Line) -> None:
        await line.all()

    async with host(hear) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        await line.say(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        await line.head()
        await line.say(b"\x16\x03\x01\x00\x01\x01" * 20)
        assert await line.all() == b""
    assert not forge.all


async def test_a_host_that_speaks_first_is_heard() -> None:
    async def greet(line: Line) -> None:
        await line.say(b"220 hello\r\n")
        await line.until(b"QUIT")

    async with host(greet) as forge, stage(network([near(forge.port)])) as on, on.client() as line:
        await line.say(f"CONNECT forge.test:{forge.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        await line.until(b"220 hello")
        await line.say(b"QUIT")
        await line.all()
