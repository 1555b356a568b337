"""What the log puts in the place of a tool's result: images and the harness's own blocks stay what they are."""

from base64 import b64encode
from typing import Any

import pytest

from outlast.adapter import ToolResult
from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import Dialect
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_responses import OpenAIResponses
from outlast.model import ImagePart, TextPart

PNG = b"\x89PNG"
DATA = b64encode(PNG).decode()
URL = f"data:image/png;base64,{DATA}"
PARTS = (TextPart("a chart"), ImagePart(PNG, "image/png"))


def anthropic(content: object) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    return {"model": "m", "messages": [{"role": "user", "content": [result]}]}


def responses(content: object) -> dict[str, Any]:
    return {"model": "m", "input": [{"type": "function_call_output", "call_id": "c1", "output": content}]}


def chat(content: object) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c1", "content": content}]}


def content_in(request: Any) -> object:
    if "input" in request:
        return request["input"][0]["output"]
    message = request["messages"][0]
    return message["content"] if message["role"] == "tool" else message["content"][0]["content"]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
TABLE: list[tuple[Dialect, Any, dict[str, Any], dict[str, Any]]] = [
    (AnthropicMessages(), anthropic, {"type": "text", "text": "a chart"}, IMAGE),
    (
        OpenAIResponses(),
        responses,
        {"type": "input_text", "text": "a chart"},
        {"type": "input_image", "image_url": URL},
    ),
    (
        OpenAIChat(),
        chat,
        {"type": "text", "text": "a chart"},
        {"type": "image_url", "image_url": {"url": URL}},
    ),
]
DIALECTS = pytest.mark.parametrize(
    ("dialect", "request_of", "text", "image"), TABLE, ids=[row[0].name for row in TABLE]
)


@DIALECTS
@pytest.mark.parametrize("several", [True, False])
def test_a_result_that_the_log_has_as_the_harness_words_it_leaves_the_request_as_it_is(
    dialect: Dialect, request_of: Any, text: dict[str, Any], image: dict[str, Any], *, several: bool
) -> None:
    content = [text, image] if several else [text, {**text, "text": "and more"}]
    request = request_of(content)
    assert dialect.mend(request, lambda _: ToolResult("ok", content)).request is request


@DIALECTS
def test_a_result_in_the_harness_own_blocks_takes_the_place_of_what_it_says_otherwise(
    dialect: Dialect, request_of: Any, text: dict[str, Any], image: dict[str, Any]
) -> None:
    mended = dialect.mend(request_of("aborted"), lambda _: ToolResult("ok", [text, image])).request
    assert content_in(mended) == [text, image]


@DIALECTS
def test_an_image_of_the_applications_tool_is_shown_as_one_where_the_api_has_a_place_for_it(
    dialect: Dialect, request_of: Any, text: dict[str, Any], image: dict[str, Any]
) -> None:
    told = content_in(dialect.mend(request_of("aborted"), lambda _: ToolResult("ok", PARTS)).request)
    if dialect.name == "openai-chat":
        assert told == "a chart\n(an image, which cannot be shown here)"
    else:
        assert told == [text, image]
    assert DATA not in str(told) or dialect.name != "openai-chat"
