"""A client that hangs, floods or lies hurts nobody else: beside each a well-behaved one is answered as always."""

import json
import socket
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, suppress
from statistics import median
from typing import Final, Self

import httpx
import pytest

from tests.acceptance.served import Server, opened_server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]
PATIENT_S: Final = 1.0
"""What a well-behaved client may wait at most, on a machine that does other things too."""


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    environ = {"OUTLAST_REQUESTS_PER_S": "0", "OUTLAST_CONNECTIONS": "20000"}
    with opened_server(environ=environ) as opened:
        opened.post("/v1/sessions", {"session": "s", "agent": "nobody"})
        opened.post("/v1/sessions/s/turns", {"text": "hi"})
        yield opened


class Neighbour:
    """A well-behaved client that reads and writes, again and again, while the block lasts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self.took_s: list[float] = []
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._end.set()
        self._thread.join()

    def _live(self) -> None:
        number = 0
        while not self._end.is_set():
            number += 1
            began = time.monotonic()
            try:
                # A connection of its own each time: it must also get in.
                headers = {"authorization": f"Bearer {self._server.token}"}
                with httpx.Client(base_url=self._server.url, headers=headers, timeout=20.0) as client:
                    read = client.get("/v1/sessions/s")
                    wrote = client.post("/v1/sessions/s/signals", json={"name": "x", "id": f"x{number % 50}"})
                if (read.status_code, wrote.status_code) != (200, 202):
                    self.wrong.append(f"{read.status_code} {wrote.status_code}")
            except httpx.HTTPError as error:
                self.wrong.append(repr(error))
            self.took_s.append(time.monotonic() - began)

    def wait(self, times: int = 3) -> None:
        """Let it ask a few times more."""
        asked, until_s = len(self.took_s), time.monotonic() + 60.0
        while len(self.took_s) < asked + times and time.monotonic() < until_s:
            time.sleep(0.01)

    def check(self) -> None:
        """It was answered all the time, and soon."""
        assert not self.wrong, self.wrong[:5]
        assert len(self.took_s) >= 3
        assert median(self.took_s) < PATIENT_S, sorted(self.took_s)[-5:]


def _head(server: Server, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: server", f"authorization: Bearer {server.token}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _said(server: Server, sent: bytes, limit_s: float = 20.0) -> bytes:
    """What the server says to these bytes, until it closes or says nothing more."""
    with closing(socket.create_connection(server.address, timeout=limit_s)) as connection:
        with suppress(ConnectionError):
            connection.sendall(sent)
        found = bytearray()
        with suppress(ConnectionError, TimeoutError):
            while piece := connection.recv(65536):
                found += piece
                connection.settimeout(0.5)
        return bytes(found)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, 400),
        (b"\xff\xfe\x00 / HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 50_000 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n", 400),
        (b"POST /v1/login HTTP/1.1\r\nhost: s\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", 400),
        (b"POST /v1/login HTTP/1.1\r\nhost: s\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/login HTTP/1.1\r\nhost: s\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/login HTTP/1.1\r\nhost: s\r\ncontent-length: 99999999999999\r\n\r\n{", 413),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_no_more(server: Server, sent: bytes, status: int) -> None:
    with Neighbour(server) as neighbour:
        answers = [_said(server, sent) for _ in range(3)]
    # A client that still sends when it is refused may be hung up on before it reads why.
    assert all(not said or said.startswith(f"HTTP/1.1 {status} ".encode()) for said in answers), answers[0][
        :300
    ]
    neighbour.check()


@pytest.mark.parametrize(
    "path",
    ["/v1/sessions/../../etc/passwd", "/v1/sessions/%2e%2e%2fetc", "/v1/sessions/s/documents/..%2f..%2fx",
     "/page/../../../pyproject.toml", "/page/%2e%2e/%2e%2e/app.py", "/page//etc/passwd", "//evil.example/",
     "/v1/sessions/%00",
     "/v1/sessions/%ff%fe", "/v1/sessions/s/files?path=../../etc/passwd",
     "/v1/sessions/s/files/content?path=/etc/passwd",
     "/v1/sessions/s/files/content?path=%00", "/v1/sessions/s/blobs/..%2f..%2fworld.db", "/v1/sessions/s%0d%0ax:y",
     "/v1/sessions/s/events?after=9999999999999999999.0", "/v1/sessions/s/events?after=-1.0",
     "/v1/sessions/s/events?after=1e5.0", "/v1/sessions/s/events?after=" + "9" * 39 + ".0", "/v1/sessions?after=forged",
     "/v1/sessions/s/turns?after=99999999999999999999", "/v1/sessions/" + "s" * 60_000],
)  # fmt: skip
def test_a_path_or_a_cursor_that_lies_leads_nowhere(server: Server, path: str) -> None:
    said = _said(server, _head(server, "GET", path, "connection: close"))
    status = int(said.split(b" ", 2)[1])
    assert status in {200, 400, 404}, said[:300]
    if status == 200:
        assert path == "/v1/sessions?after=forged"
    assert b"root:" not in said
    assert b"Traceback" not in said
    assert b"[project]" not in said


def test_a_body_that_comes_slowly_or_never_is_given_up(server: Server) -> None:
    head = _head(server, "POST", "/v1/sessions/s/turns", "content-length: 1000000")
    with ExitStack() as held, Neighbour(server) as neighbour:
        slow = [held.enter_context(closing(socket.create_connection(server.address))) for _ in range(50)]
        for connection in slow:
            connection.sendall(head)
            connection.sendall(b'{"text": "')
        began = time.monotonic()
        for connection in slow:
            connection.settimeout(30.0)
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 25.0
    neighbour.check()


def test_a_body_that_is_too_long_is_not_taken_in(server: Server) -> None:
    before = server.memory_mb()
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = _head(server, "POST", "/v1/sessions/s/turns", "transfer-encoding: chunked")
    with Neighbour(server) as neighbour:
        for _ in range(5):
            said = _said(server, head + piece * 800)
            assert not said or said.startswith(b"HTTP/1.1 413 "), said[:200]
    neighbour.check()
    assert server.memory_mb() - before < 120


def test_json_that_is_deep_or_wide_is_an_error_and_no_more(server: Server) -> None:
    bodies = [
        b"[" * 900_000,
        b'{"a":' * 150_000,
        b'{"text": "' + b"\\u0000" * 100_000 + b'"}',
        b"\xff" * 100_000,
    ]
    with Neighbour(server) as neighbour:
        for body in bodies:
            answer = server.api.post("/v1/sessions/s/signals", content=body)
            assert answer.status_code == 400, answer.text[:200]
    neighbour.check()


def test_a_reader_that_takes_nothing_costs_its_place_and_no_more(server: Server) -> None:
    long = json.dumps({"text": "x" * 500_000})
    for number in range(40):
        answer = server.api.post("/v1/sessions/s/turns", content=long.replace('"}', f'{number}"}}'))
        assert answer.status_code in {202, 409}
    before = server.memory_mb()
    with ExitStack() as held, Neighbour(server) as neighbour:
        for _ in range(100):
            connection = held.enter_context(closing(socket.socket()))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(server.address)
            connection.sendall(_head(server, "GET", "/v1/sessions/s/export"))
        neighbour.wait(10)
    neighbour.check()
    assert server.memory_mb() - before < 250


def _flood(server: Server, count: int, first: bytes) -> None:
    with ExitStack() as held, Neighbour(server) as neighbour:
        for _ in range(count):
            connection = held.enter_context(closing(socket.socket()))
            connection.connect(server.address)
            connection.sendall(first)
        neighbour.wait(10)
    neighbour.check()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nx: "], ids=["silent", "half a head"])
def test_many_connections_keep_nobody_out(server: Server, first: bytes) -> None:
    _flood(server, 1_000, first)


@pytest.mark.full
@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nx: "], ids=["silent", "half a head"])
def test_ten_thousand_connections_keep_nobody_out(server: Server, first: bytes) -> None:
    _flood(server, 10_000, first)


def test_who_holds_more_connections_than_there_are_is_put_out_first() -> None:
    with opened_server(environ={"OUTLAST_CONNECTIONS": "50"}) as server:
        server.post("/v1/sessions", {"session": "s", "agent": "nobody"})
        _flood(server, 300, b"")


def test_strangers_who_guess_tokens_are_told_to_wait_and_nobody_else_is() -> None:
    with opened_server() as server:
        server.post("/v1/sessions", {"session": "s", "agent": "nobody"})
        with httpx.Client(base_url=server.url) as stranger, Neighbour(server) as neighbour:
            found = [
                stranger.get("/v1/sessions", headers={"authorization": f"Bearer ol_{n}"}).status_code
                for n in range(200)
            ]
        neighbour.check()
        assert set(found) == {401, 429}
        assert found.count(429) > 100
