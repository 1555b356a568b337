"""What is made of the events of a stream, also of such as no sound provider sends, and of requests as bodies."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outlast.model import (
    AssistantMessage,
    OpaquePart,
    Request,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolSpec,
    image,
    tool_result,
    user,
)
from outlast.models import anthropic_body, openai_body
from outlast.models.anthropic_answer import AnthropicReader
from outlast.models.openai_answer import OpenAIReader
from outlast.models.reading import Nonsense, merged
from outlast.output import output_of

PNG = b"\x89PNG\r\n\x1a\n..."
BEGUN: dict[str, Any] = {"type": "message_start", "message": {}}
LOOK = ToolSpec("look", "Looks.", {"type": "object"})

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={key: value | values for key, value in fields.items()})


blocks = some(
    type=st.sampled_from(["text", "thinking", "tool_use", "server_tool_use"]),
    id=st.text(),
    name=st.text(),
    input=values,
)
deltas = some(
    type=st.sampled_from(["text_delta", "thinking_delta", "input_json_delta"]),
    text=st.text(),
    partial_json=st.sampled_from(["{", "}", "{}"]),
    citation=values,
    stop_reason=st.sampled_from(["end_turn", "tool_use", "odd"]),
)
kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
anthropic_events = some(
    type=st.sampled_from([*kinds, "message_stop", "ping"]),
    index=st.integers(0, 1),
    message=some(id=st.text(), model=st.text(), usage=some(input_tokens=st.integers())),
    content_block=blocks,
    delta=deltas,
    usage=some(output_tokens=st.integers()),
)
functions = some(name=st.text(), arguments=st.sampled_from(["{", "}", '{"a":1}']))
pieces = some(index=st.integers(0, 1), id=st.text(max_size=2), function=functions)
choices = some(
    delta=some(content=st.text(), reasoning=st.text(), tool_calls=st.lists(pieces, max_size=2)),
    finish_reason=st.sampled_from(["stop", "tool_calls", "odd"]),
)
openai_events = some(
    id=st.text(),
    model=st.text(),
    choices=st.lists(choices, max_size=2),
    usage=some(prompt_tokens=st.integers()),
)


@given(st.lists(anthropic_events, max_size=6))
def test_anthropics_events_in_any_order_and_shape_are_an_answer_or_nonsense(
    events: list[dict[str, Any]],
) -> None:
    reader = AnthropicReader("claude-sonnet-5", {})
    try:
        for event in [BEGUN, *events]:
            list(reader.read(event))
        reader.answer()
    except Nonsense:
        pass
    assert reader.usage is None or reader.usage.cost_usd == 0


@given(st.lists(openai_events, max_size=6))
def test_openais_chunks_in_any_order_and_shape_are_an_answer_or_nonsense(
    events: list[dict[str, Any]],
) -> None:
    reader = OpenAIReader("gpt-5.5", {}, ())
    try:
        for event in events:
            list(reader.read(event))
        ids = [call.id for call in reader.answer().message.tool_calls]
    except Nonsense:
        return
    assert len(set(ids)) == len(ids)
    assert all(ids)


def anthropic_answer(*events: dict[str, Any], stop: str = "end_turn") -> AssistantMessage:
    reader = AnthropicReader("m", {})
    ending = {"type": "message_delta", "delta": {"stop_reason": stop}}
    for event in (
        {"type": "message_start", "message": {"id": "1"}},
        *events,
        ending,
        {"type": "message_stop"},
    ):
        list(reader.read(event))
    return reader.answer().message


def block(index: int, began: dict[str, Any], *grown: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": began},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in grown),
        {"type": "content_block_stop", "index": index},
    ]


def test_what_only_anthropic_understands_goes_back_to_it_unchanged_and_to_no_other() -> None:
    secret = {"type": "redacted_thinking", "data": "abc"}
    search: dict[str, Any] = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    message = anthropic_answer(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, secret),
        *block(
            2,
            search,
            {"type": "input_json_delta", "partial_json": '{"q":"'},
            {"type": "input_json_delta", "partial_json": 'x"}'},
        ),
        *block(3, found),
        *block(
            4,
            {"type": "text", "text": "", "citations": None},
            {"type": "text_delta", "text": "yes"},
            {"type": "citations_delta", "citation": {"n": 1}},
        ),
    )
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert message.parts == (
        ThinkingPart("hm", "anthropic", thought),
        ThinkingPart("", "anthropic", secret),
        OpaquePart("anthropic", search | {"input": {"q": "x"}}),
        OpaquePart("anthropic", found),
        TextPart("yes", {"citations": [{"n": 1}]}),
    )
    request = Request(model="m", messages=(user("hi"), message, user("and?")))
    sent = anthropic_body.body_of(request, max_tokens=1, cache=False)["messages"][1]["content"]
    assert sent == [thought, secret, search | {"input": {"q": "x"}}, found, {"type": "text", "text": "yes"}]
    other = openai_body.body_of(request, max_tokens=0, most="max_tokens")["messages"][1]
    assert other == {"role": "assistant", "content": "yes"}


def test_arguments_that_are_cut_are_kept_as_they_were_written() -> None:
    cut = {"type": "input_json_delta", "partial_json": '{"path": "a'}
    message = anthropic_answer(*block(0, {"type": "tool_use", "id": "t", "name": "w", "input": {}}, cut))
    assert message.tool_calls == (ToolCallPart("t", "w", unreadable='{"path": "a'),)
    request = Request(model="m", messages=(user("x"), message))
    assert openai_body.body_of(request, max_tokens=0, most="")["messages"][1]["tool_calls"][0][
        "function"
    ] == {
        "name": "w",
        "arguments": '{"path": "a',
    }
    assert anthropic_body.body_of(request, max_tokens=1, cache=False)["messages"][1]["content"][0][
        "input"
    ] == {"unreadable": '{"path": "a'}


def openai_calls(*deltas: list[dict[str, Any]], taken: tuple[str, ...] = ()) -> tuple[ToolCallPart, ...]:
    reader = OpenAIReader("m", {}, taken)
    for delta in deltas:
        list(reader.read({"choices": [{"delta": {"tool_calls": delta}}]}))
    list(reader.read({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    answer = reader.answer()
    assert answer.stop == "tools"
    return answer.message.tool_calls


def call(name: str | None, arguments: object, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


def test_calls_without_an_index_or_with_interleaved_pieces_are_told_apart() -> None:
    plain = openai_calls([call("f", '{"a"', id="1"), call("g", "{}", id="2")], [call(None, ":1}", id="1")])
    assert plain == (ToolCallPart("1", "f", {"a": 1}), ToolCallPart("2", "g"))
    woven = openai_calls(
        [call("f", "", index=0, id="1")],
        [call("g", '{"b":', index=1, id="2")],
        [call(None, '{"a":1}', index=0)],
        [call(None, "2}", index=1)],
    )
    assert woven == (ToolCallPart("1", "f", {"a": 1}), ToolCallPart("2", "g", {"b": 2}))
    assert openai_calls([call("f", {"a": 1}, id="1")]) == (ToolCallPart("1", "f", {"a": 1}),)


def test_an_id_that_is_missing_or_used_again_is_made_good() -> None:
    first, second, third = openai_calls(
        [
            call("f", "{}", index=0, id=""),
            call("f", "{}", index=1, id="c0"),
            call("f", "{}", index=2, id="c1"),
        ],
        taken=("c0",),
    )
    assert first.id.startswith("call-")
    assert second.id.startswith("call-")
    assert (first.id != second.id, third.id) == (True, "c1")


def test_reasoning_details_go_back_with_the_results_of_tools() -> None:
    reader = OpenAIReader("m", {}, ())
    said = {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
    assert list(reader.read({"choices": [{"delta": said}]})) == [("thinking", "hm")]
    list(
        reader.read(
            {"choices": [{"delta": {"tool_calls": [call("f", "{}", id="1")]}, "finish_reason": "tool_calls"}]}
        )
    )
    request = Request(model="m", messages=(user("x"), reader.answer().message))
    sent = openai_body.body_of(request, max_tokens=0, most="")["messages"][1]
    assert {key: sent[key] for key in said} == said


def test_a_refusal_is_text_that_stops_as_one() -> None:
    reader = OpenAIReader("m", {}, ())
    shown = [*reader.read({"choices": [{"delta": {"refusal": "I cannot."}, "finish_reason": "stop"}]})]
    answer = reader.answer()
    assert (shown, answer.message.text, answer.stop) == ([("text", "I cannot.")], "I cannot.", "refusal")


def test_how_tools_are_to_be_called_is_said_in_each_dialect() -> None:
    request = Request(
        model="m", messages=(user("x"),), tools=(LOOK,), tool_choice="any", parallel_tools=False
    )
    assert anthropic_body.body_of(request, max_tokens=9, cache=True) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "cache_control": {"type": "ephemeral"},
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }
    body = openai_body.body_of(request, max_tokens=9, most="max_completion_tokens")
    assert (body["tool_choice"], body["parallel_tool_calls"], body["max_completion_tokens"]) == (
        "required",
        False,
        9,
    )
    only = Request(model="m", messages=(), tools=(LOOK,), only_tool="look", stop_sequences=("x",), system="s")
    assert anthropic_body.body_of(only, max_tokens=9, cache=False) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [],
        "stop_sequences": ["x"],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "look"},
        "system": "s",
    }
    body = openai_body.body_of(only, max_tokens=0, most="")
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert (body["stop"], body["messages"]) == (["x"], [{"role": "system", "content": "s"}])


def test_a_shape_that_cannot_be_enforced_is_asked_for_in_words_or_loosely() -> None:
    spec = output_of(dict[str, int]).spec
    request = Request(model="m", messages=(user("x"),), system="Be brief.", output=spec)
    body = anthropic_body.body_of(request, max_tokens=1, cache=False)
    assert "output_config" not in body
    assert body["system"].startswith("Be brief.\n\nAnswer with JSON only")
    assert body["system"].endswith(json.dumps(spec.schema, separators=(",", ":")))
    loose = openai_body.body_of(request, max_tokens=0, most="")["response_format"]["json_schema"]
    assert (loose["strict"], loose["schema"]) == (False, spec.schema)


def test_images_in_the_results_of_tools_reach_both() -> None:
    results = ToolMessage((tool_result("1", [TextPart("seen"), image(PNG)]), tool_result("2", [image(PNG)])))
    request = Request(model="m", messages=(results, user("well?")))
    (said,) = anthropic_body.body_of(request, max_tokens=1, cache=False)["messages"]
    assert [part["type"] for part in said["content"]] == ["tool_result", "tool_result", "text"]
    first, second, shown, asked = openai_body.body_of(request, max_tokens=0, most="")["messages"]
    assert (first["content"], second["content"] != "", asked["content"]) == ("seen", True, "well?")
    assert [part["type"] for part in shown["content"]] == ["text", "image_url", "text", "image_url"]


def test_a_patch_is_merged_as_its_rfc_says() -> None:
    body = {"a": "b", "c": {"d": "e", "f": "g"}}
    assert merged(body, {"a": "z", "c": {"f": None}}) == {"a": "z", "c": {"d": "e"}}
    assert merged({"a": [1]}, {"a": {"b": {"c": None}}}) == {"a": {"b": {}}}
    assert body == {"a": "b", "c": {"d": "e", "f": "g"}}
