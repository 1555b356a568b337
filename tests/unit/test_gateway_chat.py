"""The Chat Completions dialect: what passes, what is held, what is recorded, and when two requests are the same."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from outlast.adapter import ToolAsk, ToolResult
from outlast.gateway.dialect import Heard, NotARequest
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_chat_answers import EVENTS
from outlast.gateway.sse import Cutter, Malformed

DIALECT = OpenAIChat()
DONE = b"data: [DONE]\n\n"
USED = {"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": 5}
HEAD: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.5"}


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: %b\n\n" % msgspec.json.encode({**HEAD, "choices": [choice], **more})


def call(index: int | None, call_id: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    piece: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        piece["index"] = index
    if call_id:
        piece |= {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [piece]}


SAYS = [chunk({"role": "assistant", "content": ""}), chunk({"content": "I "}), chunk({"content": "look."})]
TWO = [
    chunk(call(0, "call_1", "ls")),
    chunk(call(0, arguments='{"a":')),
    chunk(call(1, "call_2", "cat", '{"b":2}')),
    chunk(call(0, arguments="1}")),
]
ENDS = [chunk(finish="tool_calls"), chunk(choices=[], usage=USED), DONE]
WHOLE = [*SAYS, *TWO, *ENDS]
ASKS = [ToolAsk("call_1", "ls", {"a": 1}), ToolAsk("call_2", "cat", {"b": 2})]


def heard(frames: Iterable[bytes]) -> tuple[list[Heard], Mapping[str, Any]]:
    reader = DIALECT.reader("gpt-5.5")
    said = [reader.read(frame) for frame in Cutter(1 << 20).feed(b"".join(frames))]
    return said, reader.answer()


def test_text_flows_and_nothing_of_a_tool_passes_before_the_answer_is_written_down() -> None:
    said, answer = heard(WHOLE)
    assert [it.flow for it in said] == ["pass"] * 3 + ["hold"] * 6 + ["end"]
    assert [it.text for it in said if it.kind == "text"] == ["I ", "look."]
    assert DIALECT.asks(answer) == ASKS


def test_a_recorded_answer_is_served_as_it_was_heard() -> None:
    _, answer = heard(WHOLE)
    assert EVENTS not in answer
    assert heard(DIALECT.frames(answer))[1] == answer
    assert DIALECT.frames(answer)[-1] == DONE
    assert DIALECT.whole(DIALECT.body(answer)) == answer


def test_an_answer_without_usage_is_served_without_it() -> None:
    _, answer = heard([*SAYS, chunk(finish="stop"), DONE])
    assert DIALECT.usage(answer, "gpt-5.5") is None
    assert b"usage" not in b"".join(DIALECT.frames(answer))


def test_usage_tells_what_was_cached_and_what_it_costs() -> None:
    usage = DIALECT.usage(heard(WHOLE)[1], "gpt-5.5")
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (8, 4, 5)
    assert usage.cost_usd == pytest.approx((8 * 5 + 4 * 0.5 + 5 * 30) / 1e6)


@pytest.mark.parametrize(
    ("told", "cost_usd"),
    [(0.25, 0.25), (0, 0.0), (True, None), ("1", None), (-1, None), ({"total": 1}, None)],
)
def test_what_a_provider_says_that_a_call_has_cost_goes_before_the_list_price(
    told: object, cost_usd: float | None
) -> None:
    told_so = b'data: {"choices":[],"usage":%b}\n\n' % msgspec.json.encode(
        {"prompt_tokens": 10, "completion_tokens": 1, "cost": told}
    )
    _, answer = heard([*SAYS, chunk(finish="stop"), told_so, DONE])
    usage = DIALECT.usage(answer, "gpt-5.5")
    assert usage is not None
    assert usage.cost_usd == pytest.approx((10 * 5 + 30) / 1e6 if cost_usd is None else cost_usd)


def test_an_empty_reason_to_end_in_every_chunk_ends_nothing() -> None:
    said, answer = heard(
        [chunk({"content": text}, finish="") for text in "ab"] + [chunk(finish="stop"), DONE]
    )
    assert [one.flow for one in said] == ["pass", "pass", "hold", "end"]
    assert answer["choices"][0]["message"]["content"] == "ab"
    with pytest.raises(Malformed):
        heard([chunk({"content": "a"}, finish=""), DONE])


@pytest.mark.parametrize("finish", ["length", "content_filter", "stop"])
def test_why_an_answer_ends_is_served_again(finish: str) -> None:
    _, answer = heard([*SAYS, chunk(finish=finish), DONE])
    assert heard(DIALECT.frames(answer))[1]["choices"][0]["finish_reason"] == finish


def test_a_refusal_of_the_model_is_an_answer() -> None:
    _, answer = heard([chunk({"refusal": "I will "}), chunk({"refusal": "not."}), chunk(finish="stop"), DONE])
    assert answer["choices"][0]["message"]["refusal"] == "I will not."


def test_thinking_is_shown_and_served_again() -> None:
    details = [{"type": "reasoning.text", "text": "hm"}], [{"type": "reasoning.text", "text": "m"}]
    said, answer = heard(
        [
            chunk({"reasoning": "hm", "reasoning_details": details[0]}),
            chunk({"reasoning": "m", "reasoning_details": details[1]}),
            *SAYS,
            chunk(finish="stop"),
            DONE,
        ]
    )
    assert (said[0].kind, said[0].text) == ("thinking", "hm")
    message = answer["choices"][0]["message"]
    assert (message["reasoning"], message["reasoning_details"]) == ("hmm", [*details[0], *details[1]])
    assert heard(DIALECT.frames(answer))[1] == answer


def test_a_stream_that_ends_without_saying_so_is_whole_once_the_answer_has_its_end() -> None:
    reader = DIALECT.reader("m")
    for frame in Cutter(1 << 20).feed(b"".join(WHOLE[:-3])):
        reader.read(frame)
        assert not reader.over()
    reader.read(Cutter(1 << 20).feed(ENDS[0])[0])
    assert reader.over()


@pytest.mark.parametrize(
    "pieces",
    [
        [call(None, "call_1", "ls", '{"a":1}'), call(None, "call_2", "cat", '{"b":2}')],
        [call(None, "call_1", "ls"), call(None, arguments='{"a":1}'), call(None, "call_2", "cat", '{"b":2}')],
        [
            call(0, "call_1", "ls", '{"a":1}'),
            call(1, "call_2", "cat", '{"b":'),
            call(1, "call_2", "cat", "2}"),
        ],
    ],
)
def test_calls_of_servers_that_leave_out_places_or_repeat_ids_are_put_together(
    pieces: list[dict[str, Any]],
) -> None:
    _, answer = heard([*(chunk(piece) for piece in pieces), chunk(finish="tool_calls"), DONE])
    assert DIALECT.asks(answer) == ASKS


def test_arguments_that_are_no_json_are_kept_for_the_harness_to_tell_its_model() -> None:
    _, answer = heard([chunk(call(0, "c", "f", '{"a": ')), chunk(finish="length"), DONE])
    assert DIALECT.asks(answer) == [ToolAsk("c", "f", {"arguments": '{"a": '})]


def test_a_tool_of_free_text_is_asked_for_with_its_text() -> None:
    first = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** "}}
    pieces = [{"tool_calls": [first]}, {"tool_calls": [{"index": 0, "custom": {"input": "Begin"}}]}]
    _, answer = heard([*(chunk(piece) for piece in pieces), chunk(finish="tool_calls"), DONE])
    assert DIALECT.asks(answer) == [ToolAsk("c", "patch", {"input": "*** Begin"})]


@pytest.mark.parametrize(
    "choice",
    [
        {"delta": {"content": "a"}, "logprobs": {"content": [{"token": "a", "logprob": -0.1}]}},
        {"delta": {"audio": {"id": "audio_1", "data": "AAAA"}}},
        {"delta": {"audio": {"transcript": "hm"}}},
        {"delta": {"images": [{"type": "image_url", "image_url": {"url": "data:,"}}]}},
        {"index": 1, "delta": {"content": "another"}},
    ],
    ids=["logprobs", "audio", "transcript", "images", "several answers"],
)
def test_what_providers_add_to_an_answer_is_heard_again_as_it_came(choice: dict[str, Any]) -> None:
    index = choice.get("index", 0)
    added = b"data: %b\n\n" % msgspec.json.encode({**HEAD, "choices": [{"index": index, **choice}]})
    ends = [chunk(finish="stop")]
    if index:
        ends.append(added.replace(b'"delta":{"content":"another"}', b'"delta":{},"finish_reason":"stop"'))
    _, answer = heard([*SAYS, added, *ends, DONE])
    assert heard(DIALECT.frames(answer))[1] == answer
    assert EVENTS not in msgspec.json.decode(DIALECT.body(answer))


def test_an_answer_with_something_unknown_in_it_is_served_from_its_own_chunks() -> None:
    odd = chunk({"mood": "good"})
    _, answer = heard([odd, *SAYS, chunk(finish="stop"), DONE])
    assert odd in DIALECT.frames(answer)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b'data: {"error":{"code":502,"message":"oh"},"choices":[]}\n\n', "502: oh"),
        (b'event: error\ndata: {"message":"oh"}\n\n', "error: oh"),
        (chunk(finish="error"), "the provider broke off"),
    ],
)
def test_an_error_in_the_midst_says_what_it_is(frame: bytes, text: str) -> None:
    reader = DIALECT.reader("m")
    said = [reader.read(cut) for cut in Cutter(1 << 20).feed(b"".join([*SAYS, frame]))][-1]
    assert (said.flow, said.text) == ("error", text)


@pytest.mark.parametrize(
    "frames",
    [
        [DONE],
        [*SAYS, DONE],
        [b"data: {}\n\n"],
        [b'data: {"choices":[3]}\n\n'],
        [b'data: {"choices":[{"index":"x"}]}\n\n'],
        [chunk({"tool_calls": "x"})],
        [chunk({"tool_calls": [1]})],
        [chunk({"function_call": {"name": "f"}})],
        [chunk(call(0, "", "", "{}")), chunk(finish="tool_calls"), DONE],
        [chunk(call(0, "a", "f")), chunk(call(0, "b", "f"))],
        [chunk(call(0, "a", "f")), chunk(call(0, "a", "g"))],
        [chunk(call(0, "a", "f")), chunk(call(1, "a", "f")), chunk(finish="tool_calls"), DONE],
    ],
)
def test_an_answer_that_a_client_might_read_otherwise_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(Malformed):
        heard(frames)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"error":{"message":"x"}}',
        b'{"choices":[]}',
        b'{"choices":[{"index":0,"message":{"content":"x"}}]}',
        b'{"choices":[{"message":{"tool_calls":[{"id":"","function":{"name":"f"}}]},"finish_reason":"stop"}]}',
        b'{"choices":[{"message":{"function_call":{"name":"f"}},"finish_reason":"stop"}]}',
    ],
)
def test_a_body_that_is_no_whole_answer_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        DIALECT.whole(body)


# requests


def asked(*messages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "messages": list(messages), **more}


USER = {"role": "user", "content": "hi"}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for name in ("c1", "c2")
    ],
}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (asked(USER), asked(USER, user="u", prompt_cache_key="k", metadata={"a": "b"})),
        (asked(USER), asked({"role": "user", "content": [{"type": "text", "text": "hi\n"}]})),
        (
            asked(USER),
            asked(
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "x"}}]}
            ),
        ),
        (
            asked(CALLS, result("c1", "a"), result("c2", "b")),
            asked(CALLS, result("c2", "b"), result("c1", "a ")),
        ),
        (asked(CALLS), asked({**CALLS, "content": "", "refusal": None})),
    ],
)
def test_what_does_not_change_the_question_leaves_it_the_same(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert DIALECT.understand(one).match == DIALECT.understand(other).match


def test_results_and_words_since_the_last_answer_are_told_from_those_before() -> None:
    understood = DIALECT.understand(
        asked(USER, CALLS, result("c1", "a"), {"role": "user", "content": "steer"})
    )
    assert dict(understood.results) == {"c1": ToolResult("ok", "a")}
    assert (list(understood.newest), list(understood.earlier)) == (["steer"], ["hi"])


def test_the_log_puts_its_result_where_the_harness_says_otherwise_and_touches_nothing_else() -> None:
    request = asked(USER, CALLS, result("c1", "aborted"))
    assert DIALECT.mend(request, lambda _: None).request is request
    assert DIALECT.mend(request, lambda _: ToolResult("ok", "aborted")).request is request
    mended = DIALECT.mend(request, lambda _: ToolResult("in_doubt", "may have run")).request
    assert mended["messages"] == [USER, CALLS, result("c1", "may have run")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages":3}',
        b'{"model":"m","messages":[],"functions":[{"name":"f"}]}',
        b'{"model":"m","messages":[],"n":2,"tools":[{"type":"function","function":{"name":"f"}}]}',
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(NotARequest):
        DIALECT.read(body)
