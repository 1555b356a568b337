import math
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.calls import ToolAsk
from outlast.codec import canonical
from outlast.errors import BadInput, BadPayload, ModelCallFailed, ModelCallRejected
from outlast.model import (
    Answer,
    AssistantMessage,
    ImagePart,
    Message,
    OpaquePart,
    OutputSpec,
    Request,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolSpec,
    answer_json,
    asks_of,
    billed,
    image,
    model_ask,
    read_answer,
    read_request,
    tool_result,
    unreadable_result,
    user,
)
from outlast.records import Usage

PNG = b"\x89PNG\r\n\x1a\n..."
REQUEST = Request(
    model="m-1",
    system="Be brief.",
    messages=(
        user("What is this?", image(PNG)),
        AssistantMessage(
            (
                ThinkingPart("hm", "anthropic", {"type": "thinking", "thinking": "hm", "signature": "s"}),
                TextPart("I look."),
                ToolCallPart("c-1", "look", {"b": 1, "a": [1.5, None]}),
            )
        ),
        ToolMessage((tool_result("c-1", "a cat"),)),
    ),
    tools=(ToolSpec("look", "Looks.", {"type": "object", "properties": {"b": {"type": "integer"}}}),),
    temperature=1,
    output=OutputSpec("Cat", {"type": "object"}),
    extras={"top_k": 3},
)
MATCH = "0VZGU3TrKxf8wrXRjS5M7A"
"""Of `REQUEST`, written down once: whatever changes it makes every open turn of a loop diverge."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
texts = st.builds(TextPart, st.text(max_size=12), objects)
images = st.builds(
    ImagePart, st.binary(max_size=12), st.just("image/png"), st.sampled_from(["", "https://x/y"])
)
thoughts = st.builds(ThinkingPart, st.text(max_size=8), st.sampled_from(["", "anthropic"]), objects)
tool_calls = st.builds(ToolCallPart, st.text(max_size=6), st.text(max_size=6), objects, st.text(max_size=6))
opaques = st.builds(OpaquePart, st.text(max_size=6), objects)
answers = st.builds(
    AssistantMessage, st.lists(texts | thoughts | tool_calls | opaques, max_size=4).map(tuple)
)
messages: st.SearchStrategy[Message] = (
    answers
    | st.lists(texts | images, max_size=3).map(lambda parts: user(*parts))
    | st.lists(
        st.builds(
            tool_result, st.text(max_size=4), st.lists(texts | images, max_size=2), is_error=st.booleans()
        ),
        max_size=3,
    ).map(lambda results: ToolMessage(tuple(results)))
)
requests = st.builds(
    Request,
    model=st.text(max_size=6),
    messages=st.lists(messages, max_size=4).map(tuple),
    system=st.text(max_size=8),
    temperature=st.none() | st.floats(0, 2) | st.integers(0, 2),
    max_tokens=st.integers(0, 9),
    extras=objects,
)


def test_the_hash_of_a_request_is_the_one_that_was_written_down() -> None:
    assert model_ask(REQUEST).match == MATCH


@pytest.mark.crash
def test_another_process_hashes_a_request_the_same() -> None:
    code = "from tests.unit.test_model import *; print(model_ask(REQUEST).match)"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.strip() == MATCH


@given(requests)
def test_a_request_comes_back_from_the_log_and_hashes_the_same(request: Request) -> None:
    ask = model_ask(request)
    stored: tuple[dict[str, Any], list[Any]] = msgspec.json.decode(canonical([ask.frame, ask.messages]))
    again = read_request(*stored)
    assert again == request
    assert model_ask(again).match == ask.match


@given(requests, messages)
def test_another_conversation_has_another_hash(request: Request, message: Message) -> None:
    longer = msgspec.structs.replace(request, messages=(*request.messages, message))
    assert model_ask(longer).match != model_ask(request).match


def test_what_a_request_leaves_at_its_default_is_not_in_its_text() -> None:
    ask = model_ask(Request(model="m", messages=(user("hi"),)))
    assert canonical([ask.frame, ask.messages]) == (
        b'[{"model":"m"},[{"parts":[{"kind":"text","text":"hi"}],"role":"user"}]]'
    )


def test_a_request_that_is_not_json_is_refused_with_a_reason() -> None:
    with pytest.raises(BadPayload):
        model_ask(Request(model="m", messages=(), extras={"x": object()}))


@given(answers, st.sampled_from(["end", "tools", "refusal"]))
def test_an_answer_comes_back_from_the_log(message: AssistantMessage, stop: Any) -> None:
    answer = Answer(message=message, stop=stop, usage=Usage(1, 2, 3, 4, 0.5), model="m", detail={"x": 1})
    assert read_answer(msgspec.json.decode(canonical(answer_json(answer)))) == answer


def test_a_tool_call_that_nobody_can_read_is_told_to_the_model_and_not_run() -> None:
    good, bad = ToolCallPart("1", "f", {"x": 1}), ToolCallPart("2", "g", unreadable='{"x": ')
    answer = Answer(message=AssistantMessage((TextPart("a"), good, TextPart("b"), bad)), stop="tools")
    assert answer.message.text == "ab"
    assert answer.message.tool_calls == (good, bad)
    assert asks_of(answer) == (ToolAsk("1", "f", {"x": 1}),)
    told = unreadable_result(bad)
    assert told.call_id == "2"
    assert told.is_error


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_the_kind_of_an_image_is_recognised(data: bytes, kind: str) -> None:
    assert image(data) == ImagePart(data, kind)


def test_bytes_that_are_no_known_image_need_a_media_type() -> None:
    with pytest.raises(BadInput, match="media type"):
        image(b"%PDF")
    assert image(b"%PDF", "image/x").media_type == "image/x"


def test_a_temperature_is_one_number_however_it_was_written() -> None:
    one = Request(model="m", messages=(), temperature=1)
    assert canonical(model_ask(one).frame) == b'{"model":"m","temperature":1.0}'
    nan = Request(model="m", messages=(), temperature=math.nan)
    assert canonical(model_ask(nan).frame) == b'{"model":"m","temperature":null}'


def test_what_a_failed_call_cost_is_told_with_it() -> None:
    error = ModelCallFailed(status=529, reason="busy.")
    assert (billed(error), error.retry_after_s) == (None, 0.0)
    error.usage = Usage(7)
    assert billed(error) == Usage(7)
    assert billed(ModelCallRejected(status=400, reason="no.")) is None
