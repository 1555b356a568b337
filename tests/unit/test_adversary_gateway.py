"""What a hostile client of the gateway may try, with a token of an attempt and without."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from outlast.gateway import ApiKey, Limits
from outlast.gateway.anthropic_answers import MessageReader
from outlast.gateway.sse import Cutter, frame
from tests.gateway.stage import RawProvider, Reply, Stage, stage


async def raw(told: Stage, lines: Sequence[str], body: bytes = b"") -> bytes:
    host, port = told.door.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "\r\n".join([*lines, "host: here", "connection: close", "", ""])
    writer.write(head.encode() + body)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "target", ["@127.0.0.1:{port}/steal", ".127.0.0.1:{port}/", "v1/models", "http://x/v1"]
)
async def test_no_target_leads_the_credential_to_another_host(target: str) -> None:
    elsewhere = RawProvider(Reply([b"{}"], kind="application/json"))
    async with elsewhere.serving(), stage(ApiKey("sk-secret", "http://provider.invalid")) as told:
        place = target.format(port=elsewhere.base_url.rpartition(":")[2])
        answer = await raw(told, [f"GET {place} HTTP/1.1", f"x-api-key: {told.door.token}"])
    assert elsewhere.requests == []
    assert answer.startswith(b"HTTP/1.1 400")


async def test_of_a_stranger_s_hook_hardly_anything_is_read() -> None:
    async with stage(RawProvider(Reply()), limits=Limits(stranger_bytes=1000)) as told:
        length = 50_000_000
        answer = await raw(told, ["POST /outlast/hooks/before HTTP/1.1", f"content-length: {length}"])
    assert b'"permissionDecision":"deny"' in answer


def test_a_tool_input_that_is_nested_too_deep_is_kept_as_it_came() -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    reader = MessageReader("m", {})
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg", "type": "message", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": deep},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    for event in events:
        (one,) = Cutter(1 << 30).feed(frame(str(event["type"]), msgspec.json.encode(event)))
        reader.read(one)
    assert reader.answer()["outlast_events"]
