"""What HTTP allows and providers, proxies and clients do: what of it the gateway takes, and what it refuses clearly."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast.gateway import ApiKey, Limits
from outlast.gateway.readings import is_reading
from outlast.squeezing import zstd
from outlast.trust import trusted
from tests.gateway.messages import end, read, request, says, stream, user
from tests.gateway.reference import PlainDialogue, until
from tests.gateway.stage import RawProvider, Reply, Stage, stage

HELLO = request(user("hello"))
DONE = stream(says(0, "done"), end())
BODY = msgspec.json.encode(HELLO)


def provider() -> RawProvider:
    return RawProvider(Reply(DONE))


async def raw(on: Stage, head: str, *body: bytes) -> bytes:
    """Say `head`, with the token, and `body` in its pieces; returns everything that is answered."""
    host, port = on.door.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}\nhost: here\nx-api-key: {on.door.token}\n\n".replace("\n", "\r\n").encode())
    try:
        async with asyncio.timeout(10):
            for piece in body:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


# redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
async def test_no_redirect_reaches_a_harness_which_would_follow_it_past_the_log(status: int) -> None:
    elsewhere = {"location": "https://user:secret@elsewhere.example/v1/messages?key=secret"}
    moved = RawProvider(Reply([b"<html>"], "text/html", status, headers=elsewhere))
    async with stage(moved) as on:
        asked, models = await on.ask(HELLO), await on.client.get("/v1/models")
        voids = [why for call in on.attempt.calls.models for why, _ in call.voided]
    for response in (asked, models):
        assert response.status_code == 403
        assert "location" not in response.headers
        assert "set the base URL" in response.json()["error"]["message"]
        assert "https://elsewhere.example" in response.text
        assert "secret" not in response.text
    assert voids == [f"HTTP {status}"]


async def test_a_redirect_that_leads_nowhere_is_refused_all_the_same() -> None:
    moved = RawProvider(Reply([b""], "text/html", 300, headers={"location": "http://x:port/"}))
    async with stage(moved) as on:
        response = await on.ask(HELLO)
    assert response.status_code == 403
    assert "another address" in response.text


async def test_no_provider_tells_a_harness_of_another_way_to_it() -> None:
    async with stage(RawProvider(Reply(DONE, headers={"alt-svc": 'h3="elsewhere.example:443"'}))) as on:
        assert "alt-svc" not in (await on.ask(HELLO)).headers


# what may be read


@pytest.mark.parametrize(
    ("method", "path", "is_one"),
    [
        ("HEAD", "/", True),
        ("GET", "/", True),
        ("GET", "/v1/models", True),
        ("GET", "/models/", True),
        ("GET", "/v1/models/openai/gpt-5/endpoints", True),
        ("GET", "/v1/models/claude-sonnet-4-5@20250929", True),
        ("POST", "/v1/models", False),
        ("DELETE", "/v1/models/ft:mine", False),
        ("GET", "/v1/models/../files", False),
        ("GET", "/v1/models/./x", False),
        ("GET", "/v1/models/%2e%2e/files", False),
        ("GET", "/v1/models/..\\files", False),
        ("GET", "/v1/models/x\r\ny", False),
        ("GET", "/v1/files", False),
        ("GET", "/v1/responses/resp_1", False),
        ("GET", "/v1/chat/completions", False),
        ("GET", "/v1/messages/batches/b/results", False),
        ("GET", "/key/info", False),
        ("GET", "/v1/modelsx", False),
    ],
)
def test_of_a_provider_only_its_models_may_be_read(method: str, path: str, *, is_one: bool) -> None:
    assert is_reading(method, path) is is_one


@pytest.mark.parametrize(
    "target",
    [
        "/v1/files",
        "/v1/responses/resp_1?stream=true",
        "/v1/models/../files",
        "/v1/models/%2e%2e/files",
        "/v1/models/..%2ffiles",
        "/../admin",
    ],
)
async def test_what_stands_behind_the_operators_key_is_not_for_whoever_has_a_token(target: str) -> None:
    said = provider()
    async with said.serving(), stage(ApiKey("sk-secret", said.base_url)) as on:
        answer = await raw(on, f"GET {target} HTTP/1.1\nconnection: close")
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"wants a key of your own" in answer
    assert not said.requests


@pytest.mark.parametrize(
    "path", ["/v1/embeddings", "/v1/responses/compact", "/v1/audio/speech", "/v1/files", "/v1/batches"]
)
@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses", "openai-chat"])
async def test_what_is_no_model_request_is_refused_with_the_reason(path: str, dialect: str) -> None:
    said = provider()
    async with stage(said, dialogue=PlainDialogue(dialect=dialect)) as on:
        response = await on.client.post(path, json={"model": "m"})
    assert response.status_code == 404
    assert f"no POST {path} through" in response.json()["error"]["message"]
    assert not said.requests


async def test_a_request_in_another_dialect_is_told_which_one_is_spoken() -> None:
    async with stage(provider()) as on:
        response = await on.client.post("/v1/chat/completions", json={"model": "m", "messages": []})
    assert response.status_code == 404
    assert "'anthropic', not 'openai-chat'" in response.json()["error"]["message"]


# bodies


PACKERS = {"gzip": gzip.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "zstd"])
async def test_a_compressed_request_is_unpacked_before_it_is_read_and_sent(coding: str) -> None:
    said = provider()
    packed = PACKERS[coding.lower().removeprefix("x-")](BODY)
    async with stage(said) as on:
        response = await on.ask(packed, **{"content-encoding": coding})
        assert read(response.content)["content"] == [{"type": "text", "text": "done"}]
    (sent,) = said.requests
    assert sent.body == BODY
    assert "content-encoding" not in sent.headers


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("zstd", BODY),
        ("zstd", zstd.compress(BODY)[:-4]),
        ("zstd", zstd.compress(BODY) + b"more"),
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY))),
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY)[:-4]),
        ("gzip", gzip.compress(BODY) + b"more"),
        ("deflate", zlib.compress(BODY)),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_what_cannot_be_unpacked_is_refused_with_the_reason(
    coding: str, body: bytes, path: str
) -> None:
    said = provider()
    async with stage(said, path=path) as on:
        response = await on.ask(body, **{"content-encoding": coding})
    assert response.status_code == 415
    assert "send it as it is, or as gzip or zstd" in response.json()["error"]["message"]
    assert not said.requests


@pytest.mark.parametrize("coding", PACKERS)
async def test_a_small_body_that_unpacks_into_a_large_one_is_too_large(coding: str) -> None:
    async with stage(provider(), limits=Limits(request_bytes=100_000)) as on:
        bomb = PACKERS[coding](b" " * 200_000)
        assert (await on.ask(bomb, **{"content-encoding": coding})).status_code == 413


async def test_a_hook_that_cannot_be_unpacked_is_a_refusal() -> None:
    async with stage(provider()) as on:
        headers = {"authorization": f"Bearer {on.door.token}", "content-encoding": "zstd"}
        response = await on.client.post(f"{on.door.hooks_url}/before", content=b"x", headers=headers)
    assert response.status_code == 200
    assert response.json()["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "headers",
    [{}, {"transfer-encoding": "chunked"}],
    ids=["by length", "in chunks"],
)
async def test_whoever_sends_too_much_hears_so_while_it_still_sends(headers: Mapping[str, str]) -> None:
    size, pieces = 1_000_000, 40
    framing = headers or {"content-length": str(size * pieces)}
    lines = "".join(f"\n{name}: {value}" for name, value in framing.items())
    piece = b"x" * size
    chunk = b"%x\r\n%b\r\n" % (size, piece) if headers else piece
    async with stage(provider(), limits=Limits(request_bytes=100_000)) as on:
        body = [chunk] * pieces + ([b"0\r\n\r\n"] if headers else [])
        answer = await raw(on, f"POST /v1/messages HTTP/1.1\nconnection: close{lines}", *body)
    assert answer.startswith(b"HTTP/1.1 413")


# clients


async def test_a_websocket_is_refused_at_once_so_that_the_harness_asks_over_http(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = provider()
    socket = "connection: Upgrade\nupgrade: websocket\nsec-websocket-version: 13\nsec-websocket-key: eA=="
    async with stage(said, dialogue=PlainDialogue(dialect="openai-responses")) as on:
        answer = await raw(on, f"GET /v1/responses HTTP/1.1\n{socket}")
        assert (await on.client.post("/v1/responses", json={"model": "m", "input": "x"})).status_code != 426
    assert answer.startswith(b"HTTP/1.1 426")
    assert b"ask over HTTP" in answer
    assert all(one.line.startswith("POST") for one in said.requests)
    assert "websocket" not in capsys.readouterr().err.lower()


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    async with stage(provider()) as on:
        head = f"POST /v1/messages HTTP/1.1\nexpect: 100-continue\nconnection: close\ncontent-length: {len(BODY)}"
        answer = await raw(on, head, BODY)
    assert answer.startswith(b"HTTP/1.1 100")
    assert b"HTTP/1.1 200" in answer
    assert answer.rstrip().endswith(b"0")


async def test_leave_to_send_too_much_is_not_given() -> None:
    async with stage(provider(), limits=Limits(request_bytes=100)) as on:
        answer = await raw(
            on, "POST /v1/messages HTTP/1.1\nexpect: 100-continue\nconnection: close\ncontent-length: 101"
        )
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_client_of_http_1_0_gets_its_answer_without_chunks() -> None:
    async with stage(provider()) as on:
        answer = await raw(on, f"POST /v1/messages HTTP/1.0\ncontent-length: {len(BODY)}", BODY)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert body == b"".join(DONE)


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/messages HTTP/1.1\ncontent-length: x",
        "POST /v1/messages HTTP/1.1\ncontent-length: 1\ncontent-length: 2",
        "POST /v1/messages HTTP/1.1\ncontent-length: 4\ntransfer-encoding: gzip",
        "POST /v1/messages HTTP/1.1\nbad header",
    ],
    ids=["no length", "two lengths", "another coding", "no header"],
)
async def test_what_two_servers_could_read_otherwise_is_refused(head: str) -> None:
    said = provider()
    async with stage(said) as on:
        answer = await raw(on, head, b"{}")
    assert answer[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 501", b"HTTP/1.1 431"}
    assert not said.requests


# providers


@pytest.mark.parametrize("status", [403, 502])
async def test_an_error_that_is_no_json_is_passed_on_as_it_is(status: int) -> None:
    page = b"<html>A proxy says no</html>"
    async with stage(RawProvider(Reply([page], "text/html", status))) as on:
        response = await on.ask(HELLO)
    assert (response.status_code, response.content) == (status, page)
    assert response.headers["content-type"] == "text/html"


async def test_headers_that_are_no_ascii_pass_both_ways_byte_by_byte() -> None:
    odd = "\u00e9t\u00e9 \u201cquoted\u201d".encode().decode("latin-1")
    seen = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = b"".join(DONE)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-odd: {odd}\r\ncontent-length: {len(body)}"
        writer.write(head.encode("latin-1") + b"\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, stage(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as on:
        headers = {b"x-odd": odd.encode("latin-1")}
        response = await on.client.post("/v1/messages", content=BODY, headers=headers)
    assert response.status_code == 200
    raw_headers = dict(response.headers.raw)
    assert raw_headers[b"x-odd"] == odd.encode("latin-1")
    assert odd.encode("latin-1") in seen[0]


async def test_a_page_in_place_of_an_answer_is_an_error_that_may_pass() -> None:
    async with stage(RawProvider(Reply([b"<html>Log in</html>"], "text/html"))) as on:
        response = await on.ask(HELLO)
    assert response.status_code == 502
    assert "text/html" in response.json()["error"]["message"]


async def test_a_stream_may_come_byte_by_byte_with_marks_comments_and_other_line_ends() -> None:
    told = b"\xef\xbb\xbf" + b"".join(DONE).replace(b"\n", b"\r\n").replace(
        b"event: m", b": a comment\r\nevent: m", 1
    )
    async with stage(RawProvider(Reply([bytes([byte]) for byte in told]))) as on:
        response = await on.ask(HELLO)
        (call,) = on.attempt.calls.models
    assert response.content == told
    assert call.answer is not None
    assert call.answer["content"] == [{"type": "text", "text": "done"}]


async def test_the_kernel_probes_whether_a_silent_provider_is_there_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    go_on = anyio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await go_on.wait()
        writer.close()

    # Not one of the names of this machine that are asked past proxies.
    async with await asyncio.start_server(answer, "127.0.0.2", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with stage(f"http://127.0.0.2:{port}") as on, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(on.ask(HELLO))
            await until(lambda: _timers_of(port) == [KEEPALIVE])
            go_on.set()
            assert (await asked).status_code == 502


KEEPALIVE = 2
"""The timer that is running, in `/proc/net/tcp`."""


def _timers_of(port: int) -> list[int]:
    """The timer of each established connection to `port`."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[5][:2]) for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]


def test_certificates_are_read_once_and_again_where_the_environment_names_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    first = trusted()
    assert trusted() is first
    assert first.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setenv("SSL_CERT_FILE", ssl.get_default_verify_paths().openssl_cafile)
    assert trusted() is not first
