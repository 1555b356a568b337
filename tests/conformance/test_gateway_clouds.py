"""Anthropic's models in the clouds, through the gateway: stand-ins that check what reaches them, signature and all."""

import base64
import binascii
import hmac
import struct
from dataclasses import dataclass, field
from hashlib import sha256  # noqa: TID251 - AWS signs with it, and nothing of ours is to be trusted here
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from outlast.gateway.aws import BedrockKey, Chain
from outlast.gateway.bedrock import Bedrock
from outlast.gateway.target import Upstream
from outlast.gateway.vertex import Vertex
from tests.gateway.messages import calls, end, request, says, stream, thinks, user
from tests.gateway.messages import read as read_stream
from tests.gateway.stage import RawProvider, Reply, Said, Stage, stage

REGION = "eu-west-1"
SECRET = "secret-key"
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc"
ANSWER = stream(thinks(0, "hm"), says(1, "I ", "look"), calls(2, "t1", '{"a":1}'), end("tool_use"))
AWS = "application/vnd.amazon.eventstream"
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def aws_event(payload: bytes, **headers: str) -> bytes:
    """A frame of AWS's event stream; written from its format, since botocore reads them only."""
    told = b""
    for name, value in headers.items():
        text = ":" + name.replace("_", "-")
        told += (
            struct.pack("!B", len(text)) + text.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        )
    prelude = struct.pack("!II", 16 + len(told) + len(payload), len(told))
    head = prelude + struct.pack("!I", binascii.crc32(prelude))
    whole = head + told + payload
    return whole + struct.pack("!I", binascii.crc32(whole))


def as_aws(frames: list[bytes]) -> list[bytes]:
    """A stream of Anthropic's as Bedrock sends it."""
    told = [frame.split(b"data: ", 1)[1].strip() for frame in frames if not frame.startswith(b"event: ping")]
    chunks = [msgspec.json.encode({"bytes": base64.b64encode(data).decode(), "p": "abc"}) for data in told]
    return [aws_event(chunk, event_type="chunk", message_type="event") for chunk in chunks]


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual variables."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")


def bedrock(provider: RawProvider) -> Bedrock:
    return Bedrock(REGION, Chain(), provider.base_url)


def check_signature(said: Said) -> None:
    """Sign what came as "Signature Version 4" says: it must be the same. Nothing of botocore is used."""
    algorithm, _, rest = said.headers["authorization"].partition(" ")
    told = dict(part.strip().split("=", 1) for part in rest.split(","))
    key_id, day, region, service, kind = told["Credential"].split("/")
    names = told["SignedHeaders"].split(";")
    assert (algorithm, key_id, region, service) == ("AWS4-HMAC-SHA256", "AKIDEXAMPLE", REGION, "bedrock")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    lines = [said.line.split()[0], quote(said.line.split()[1], safe="/~"), ""]
    lines += [f"{name}:{said.headers[name]}" for name in names]
    lines += ["", ";".join(names), sha256(said.body).hexdigest()]
    scope = f"{day}/{region}/{service}/{kind}"
    digest = sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in (day, region, service, kind):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join([algorithm, said.headers["x-amz-date"], scope, digest])
    assert told["Signature"] == hmac.digest(key, text.encode(), "sha256").hex()


async def asked(on: Stage, model: str = MODEL, **more: Any) -> httpx.Response:
    body = {**request(user("hello")), "model": model, **more}
    return await on.ask(body, **{"anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14"})


async def test_a_stream_of_bedrock_is_the_one_that_anthropic_would_have_sent() -> None:
    said = RawProvider(Reply(as_aws(ANSWER), kind=AWS))
    async with said.serving(), stage(bedrock(said)) as on:
        response = await asked(on)
        assert response.headers["content-type"] == "text/event-stream"
        assert read_stream(response.content) == read_stream(ANSWER)
        assert set(on.attempt.calls.intents) == {"t1"}
        usage = on.attempt.calls.models[0].usage
        assert usage is not None
        assert usage.input_tokens == 10


async def test_a_request_to_bedrock_is_mapped_and_signed() -> None:
    said = RawProvider(Reply(as_aws(ANSWER), kind=AWS))
    async with said.serving(), stage(bedrock(said)) as on:
        await asked(on)
        await asked(on, ARN)
        first, second = said.requests
        assert first.line.split()[1] == f"/model/{MODEL}/invoke-with-response-stream"
        assert second.line.split()[1].startswith(
            "/model/arn:aws:bedrock:eu-west-1:1:application-inference-profile%2Fabc/"
        )
        body = first.json
        assert (body["anthropic_version"], body["messages"]) == ("bedrock-2023-05-31", [user("hello")])
        assert body["anthropic_beta"] == ["interleaved-thinking-2025-05-14"]
        assert not {"model", "stream"} & body.keys()
        for sent in said.requests:
            check_signature(sent)
            assert SECRET not in str(sent.headers)
            assert on.door.token not in str(sent.headers)


async def test_an_answer_of_bedrock_in_one_piece_is_recorded_and_served() -> None:
    body = msgspec.json.encode(MESSAGE)
    said = RawProvider(
        Reply([body], kind="application/json", headers={"x-amzn-bedrock-input-token-count": "3"})
    )
    async with said.serving(), stage(bedrock(said)) as on:
        response = await asked(on, stream=False)
        assert (response.json(), said.requests[0].line.split()[1]) == (MESSAGE, f"/model/{MODEL}/invoke")
        assert "x-amzn-bedrock-input-token-count" not in response.headers


async def test_an_api_key_of_bedrock_needs_no_signature() -> None:
    said = RawProvider(Reply(as_aws(ANSWER), kind=AWS))
    async with said.serving(), stage(Bedrock(REGION, BedrockKey("k"), said.base_url)) as on:
        await asked(on)
        assert said.requests[0].headers["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (429, "ThrottlingException", "rate_limit_error"),
        (400, "ValidationException", "invalid_request_error"),
        (503, "ServiceUnavailableException", "api_error"),
    ],
)
async def test_an_error_of_bedrock_is_told_in_the_words_that_the_harness_knows(
    status: int, name: str, kind: str
) -> None:
    body = b'{"message":"Too many tokens"}'
    headers = {"x-amzn-errortype": f"{name}:http://internal", "retry-after": "3"}
    said = RawProvider(Reply([body], kind="application/json", status=status, headers=headers))
    async with said.serving(), stage(bedrock(said)) as on:
        response = await asked(on)
        assert (response.status_code, response.headers["retry-after"]) == (status, "3")
        assert response.json() == {
            "type": "error",
            "error": {"type": kind, "message": f"{name}: Too many tokens"},
        }
        assert on.attempt.calls.models[0].voided[0][0] == f"HTTP {status}"


async def test_an_exception_in_the_midst_of_bedrocks_stream_voids_the_call() -> None:
    broke = aws_event(b'{"message":"Busy"}', exception_type="throttlingException", message_type="exception")
    said = RawProvider(Reply([*as_aws(ANSWER[:5]), broke], kind=AWS))
    async with said.serving(), stage(bedrock(said)) as on:
        response = await asked(on)
        assert b"event: error" in response.content
        assert b"rate_limit_error" in response.content
        assert not on.attempt.calls.intents
        assert "Busy" in on.attempt.calls.models[0].voided[0][0]


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\x00" * 16,
        as_aws(ANSWER)[0][:-1] + b"x",
        aws_event(b"not json", event_type="chunk", message_type="event"),
        aws_event(b'{"bytes":"*"}', event_type="chunk", message_type="event"),
        aws_event(b'{"bytes":"W10="}', event_type="chunk", message_type="event"),
    ],
)
async def test_nonsense_from_bedrock_is_no_answer(bytes_: bytes) -> None:
    said = RawProvider(Reply([bytes_], kind=AWS), Reply(as_aws(ANSWER), kind=AWS))
    async with said.serving(), stage(bedrock(said)) as on:
        assert (await asked(on)).status_code == 502
        assert on.attempt.calls.models[0].voided[0][0].startswith("nonsense")
        assert (await asked(on)).status_code == 200


async def test_without_a_credential_of_aws_the_harness_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_CONFIG_FILE", "/nowhere"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"),
    ):
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    async with stage(Bedrock(REGION, Chain(), "http://127.0.0.1:9")) as on:
        response = await asked(on)
        assert response.status_code == 403
        assert "AWS_ACCESS_KEY_ID" in response.text


@dataclass
class Tokens:
    """A credential of Google Cloud that is refreshed once."""

    token: str = ""
    refreshed: list[str] = field(default_factory=list[str])

    @property
    def valid(self) -> bool:
        return bool(self.token)

    def refresh(self, request: object) -> None:
        self.token = "fresh"
        self.refreshed.append("once")


def vertex(provider: RawProvider, tokens: Tokens | None = None) -> Vertex:
    return Vertex("proj", "europe-west1", tokens or Tokens(), provider.base_url + "/v1")


async def test_vertex_is_asked_at_its_own_address_with_a_token_that_is_kept() -> None:
    said, tokens = RawProvider(Reply(ANSWER)), Tokens()
    async with said.serving(), stage(vertex(said, tokens)) as on:
        response = await asked(on, "claude-sonnet-4-5@20250929")
        assert read_stream(response.content) == read_stream(ANSWER)
        await asked(on, "claude-sonnet-4-5@20250929")
        first = said.requests[0]
        place = "/v1/projects/proj/locations/europe-west1/publishers/anthropic/models"
        assert first.line.split()[1] == f"{place}/claude-sonnet-4-5@20250929:streamRawPredict"
        assert (first.headers["authorization"], tokens.refreshed) == ("Bearer fresh", ["once"])
        assert "interleaved-thinking-2025-05-14" in first.headers["anthropic-beta"]
        assert (first.json["anthropic_version"], first.json["stream"]) == ("vertex-2023-10-16", True)
        assert "model" not in first.json


async def test_an_answer_of_vertex_in_one_piece_is_recorded() -> None:
    said = RawProvider(Reply([msgspec.json.encode(MESSAGE)], kind="application/json"))
    async with said.serving(), stage(vertex(said)) as on:
        assert (await asked(on, "m", stream=False)).json() == MESSAGE
        assert said.requests[0].line.split()[1].endswith("/m:rawPredict")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}',
        b'[{"error":{"code":429,"message":"Quota exceeded"}}]',
        b'{"type":"error","error":{"type":"rate_limit_error","message":"Quota exceeded"}}',
    ],
)
async def test_an_error_of_vertex_is_told_in_the_words_that_the_harness_knows(body: bytes) -> None:
    said = RawProvider(Reply([body], kind="application/json; charset=UTF-8", status=429))
    async with said.serving(), stage(vertex(said)) as on:
        error = {"type": "rate_limit_error", "message": "Quota exceeded"}
        assert (await asked(on, "m")).json() == {"type": "error", "error": error}


@pytest.mark.parametrize("cloud", [bedrock, vertex])
async def test_what_a_cloud_does_not_offer_is_said_and_goes_nowhere(cloud: Any) -> None:
    said = RawProvider(Reply(ANSWER))
    async with said.serving():
        upstream: Upstream = cloud(said)
        async with stage(upstream) as on:
            counted = await on.client.post("/v1/messages/count_tokens", json=request(user("x")))
            assert (counted.status_code, (await on.client.get("/v1/models")).status_code) == (404, 404)
            for model in ("..", "", 3):
                assert (await on.ask({**request(user("hello")), "model": model})).status_code in {400, 403}
        assert not said.requests
