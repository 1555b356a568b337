"""Images and files in a conversation: in the log once, however often the harness sends them again."""

import base64
import random
from typing import Any

import pytest

from outlast.codec import Packer
from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import Dialect
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_responses import OpenAIResponses

BYTES = 500_000
IMAGE = base64.b64encode(random.Random(7).randbytes(BYTES)).decode()
URL = f"data:image/png;base64,{IMAGE}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": IMAGE}
TEXT = "look " * 20


def anthropic(turn: int) -> list[dict[str, Any]]:
    call, mark = f"t{turn}", {"cache_control": {"type": "ephemeral"}}
    return [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": call, "name": "Read", "input": {"n": turn}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": TEXT, **mark}]},
    ]


def responses(turn: int) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"c{turn}", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{turn}", "output": TEXT},
    ]


def chat(turn: int) -> list[dict[str, Any]]:
    call = {"id": f"c{turn}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{turn}", "content": TEXT},
    ]


@pytest.mark.parametrize(
    ("dialect", "where", "part", "turn"),
    [
        (AnthropicMessages(), "messages", {"type": "image", "source": SOURCE}, anthropic),
        (OpenAIResponses(), "input", {"type": "input_image", "image_url": URL}, responses),
        (OpenAIChat(), "messages", {"type": "image_url", "image_url": {"url": URL}}, chat),
    ],
    ids=["anthropic", "openai-responses", "openai-chat"],
)
def test_an_image_of_fifty_requests_is_in_the_log_once(
    dialect: Dialect, where: str, part: Any, turn: Any
) -> None:
    conversation: list[dict[str, Any]] = [{"role": "user", "content": [part]}]
    held: set[str] = set()
    stored = 0
    for number in range(50):
        packer = Packer("default", held)
        understood = dialect.understand({"model": "m", where: conversation})
        packer.request(understood.frame, understood.messages)
        stored += sum(len(blob) for blob in packer.blobs.values())
        held |= packer.blobs.keys()
        conversation = [*conversation, *turn(number)]
    assert BYTES <= stored < BYTES + 100_000
