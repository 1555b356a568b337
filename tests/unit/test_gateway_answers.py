from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapter import ToolAsk
from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.anthropic_answers import EVENTS
from outlast.gateway.dialect import Heard
from outlast.gateway.sse import Cutter, Malformed
from outlast.prices import LIST_PRICES, Price, find_price
from outlast.records import Usage
from tests.gateway.messages import (
    MODEL,
    begin,
    calls,
    delta,
    end,
    event,
    read,
    says,
    start,
    stop,
    stream,
    text,
    thinks,
    tool_use,
)

ANTHROPIC = AnthropicMessages()


def hear(frames: Sequence[bytes]) -> tuple[list[Heard], Mapping[str, Any]]:
    reader, cutter = ANTHROPIC.reader(MODEL), Cutter(limit=1 << 20)
    heard = [reader.read(found) for raw in frames for found in cutter.feed(raw)]
    return heard, reader.answer() if heard[-1].flow == "end" else {}


def answer(frames: Sequence[bytes]) -> Mapping[str, Any]:
    return hear(frames)[1]


FULL = stream(
    thinks(0, "hm", " hm", signature="c2ln"),
    [begin(1, {"type": "redacted_thinking", "data": "xyz"}), stop(1)],
    says(2, "I ", "look"),
    calls(3, "t1", "", '{"comm', 'and":"ls", "n":1.0}'),
    calls(4, "t2"),
    end("tool_use"),
)


def test_an_answer_is_the_providers_message() -> None:
    assert answer(FULL) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [
            {"type": "thinking", "thinking": "hm hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "xyz"},
            text("I look"),
            tool_use("t1", command="ls", n=1.0),
            tool_use("t2"),
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 4,
            "cache_read_input_tokens": 2,
            "output_tokens": 7,
        },
    }


def test_everything_from_the_first_end_of_a_block_on_is_held() -> None:
    heard, _ = hear(FULL)
    assert [found.flow for found in heard[:7]] == ["pass", "calm", "pass", "pass", "pass", "pass", "hold"]
    assert {found.flow for found in heard[6:-1]} == {"hold"}
    assert heard[-1].flow == "end"


def test_text_and_thinking_are_for_watchers_also_when_they_are_held() -> None:
    heard, _ = hear(FULL)
    shown = [(found.kind, found.text) for found in heard if found.kind]
    assert shown == [("thinking", "hm"), ("thinking", " hm"), ("text", "I "), ("text", "look")]


def test_a_ping_in_the_midst_of_what_is_held_says_nothing() -> None:
    heard, _ = hear([*stream(says(0, "a")), event("ping"), b": still here\n\n"])
    assert [found.flow for found in heard[-2:]] == ["calm", "calm"]


def test_the_calls_of_an_answer_are_those_that_the_harness_is_to_run() -> None:
    provider_runs = [
        begin(2, {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        stop(2),
    ]
    told = answer(stream(says(0, "so"), calls(1, "t1", '{"a":1}'), provider_runs, end("tool_use")))
    assert ANTHROPIC.asks(told) == [ToolAsk("t1", "Bash", {"a": 1})]


ODD = {
    "an unknown block": stream([begin(0, {"type": "hologram", "data": {"x": 1}}), stop(0)], end()),
    "an unknown delta": stream([begin(0, text("")), delta(0, "smell_delta", smell="rose"), stop(0)], end()),
    "an unknown event": [*stream(says(0, "a")), event("message_mood", mood="good"), *end()],
    "an unknown ending": [*stream(says(0, "a")), *end(verdict="fine")],
    "input that was cut": stream(calls(0, "t1", '{"comm'), end("max_tokens")),
    "the result of a provider's tool": stream(
        [
            begin(0, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}),
            stop(0),
        ],
        end(),
    ),
    "citations": stream(
        [
            begin(0, text("", citations=[])),
            delta(0, "text_delta", text="so"),
            delta(0, "citations_delta", citation={"at": 1}),
            stop(0),
        ],
        end(),
    ),
    "a block that begins with content": stream(
        [begin(0, text("so ")), delta(0, "text_delta", text="so"), stop(0)], end()
    ),
    "an empty thought": stream(
        [begin(0, {"type": "thinking", "thinking": ""}), stop(0)], says(1, "a"), end()
    ),
    "context management": [*stream(says(0, "a")), *end(context_management={"applied_edits": []})],
    "a container": [start(container=None), *says(0, "a"), *end()],
    "no blocks": stream(end()),
}


@pytest.mark.parametrize("name", [*ODD, "everything usual"])
def test_an_answer_served_again_reads_as_it_did(name: str) -> None:
    frames = ODD.get(name, FULL)
    told = answer(frames)
    assert read(ANTHROPIC.frames(told)) == read(frames)
    recorded = msgspec.json.decode(msgspec.json.encode(told))
    assert ANTHROPIC.frames(recorded) == ANTHROPIC.frames(told)
    assert EVENTS not in msgspec.json.decode(ANTHROPIC.body(told))


@pytest.mark.parametrize(
    "name", ["an unknown delta", "an unknown event", "an unknown ending", "input that was cut"]
)
def test_an_answer_that_a_message_cannot_tell_keeps_its_events(name: str) -> None:
    assert EVENTS in answer(ODD[name])


def test_a_usual_answer_keeps_no_events() -> None:
    assert EVENTS not in answer(FULL)
    assert EVENTS not in answer(ODD["an unknown block"])


BROKEN = {
    "a block before the start": [begin(0, text(""))],
    "two starts": [start(), start()],
    "a block out of turn": [start(), begin(1, text(""))],
    "a delta of no block": [start(), delta(0, "text_delta", text="a")],
    "a delta after the end of its block": [*stream(says(0, "a")), delta(0, "text_delta", text="b")],
    "an end of no block": [start(), stop(0)],
    "no reason to stop": [start(), event("message_stop")],
    "an open block at the end": [start(), begin(0, text("")), *end()],
    "no JSON": [b"event: message_start\ndata: {\n\n"],
    "JSON that is no object": [b"event: message_start\ndata: []\n\n"],
    "another name than type": [start(), b'event: ping\ndata: {"type":"content_block_stop","index":0}\n\n'],
    "a call without an id": stream([begin(0, {"type": "tool_use", "name": "Bash", "input": {}}), stop(0)]),
    "a call whose input is a list": stream(calls(0, "t1", "[1]")),
    "half a surrogate pair": [start(), b'event: x\ndata: {"type":"x","a":"\\ud800"}\n\n'],
    "a start with content": [start(content=[text("a")])],
}


@pytest.mark.parametrize("name", BROKEN)
def test_nonsense_is_no_answer(name: str) -> None:
    with pytest.raises(Malformed):
        hear(BROKEN[name])


def test_an_error_in_a_stream_says_what_it_is() -> None:
    heard, _ = hear([start(), event("error", error={"type": "overloaded_error", "message": "Busy"})])
    assert heard[-1] == Heard("error", text="overloaded_error: Busy")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"type":"message","content":[]}',
        b'{"type":"message","content":[1],"stop_reason":"end_turn"}',
        b'{"type":"message","content":[{"type":"tool_use"}],"stop_reason":"tool_use"}',
        b'{"type":"error","error":{}}',
    ],
)
def test_a_body_that_is_no_whole_message_is_no_answer(body: bytes) -> None:
    with pytest.raises(Malformed):
        ANTHROPIC.whole(body)


pieces = st.lists(st.text(max_size=8), max_size=4)
inputs = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    blocks: list[list[bytes]] = []
    for index in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["text", "thinking", "tool", "odd"])):
            case "text":
                blocks.append(says(index, *draw(pieces)))
            case "thinking":
                blocks.append(thinks(index, *draw(pieces), signature=draw(st.text(max_size=5))))
            case "tool":
                said = msgspec.json.encode(draw(inputs)).decode()
                cut = draw(st.integers(0, len(said)))
                blocks.append(calls(index, f"t{index}", said[:cut], said[cut:]))
            case _:
                blocks.append([begin(index, {"type": "new", "x": draw(inputs)}), stop(index)])
    return stream(*blocks, end())


@given(answers(), st.lists(st.integers(0, 4000), max_size=20))
def test_chunks_change_neither_the_answer_nor_what_is_let_through(
    frames: list[bytes], cuts: list[int]
) -> None:
    raw = b"".join(frames)
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    chunks = [raw[first:last] for first, last in pairwise(edges)]
    assert answer(chunks) == answer(frames)
    assert hear(chunks)[0] == hear(frames)[0]
    assert read(ANTHROPIC.frames(answer(chunks))) == read(raw)


def test_usage_is_what_the_provider_reported_at_list_price() -> None:
    assert ANTHROPIC.usage(answer(FULL), MODEL) == Usage(
        input_tokens=10,
        output_tokens=7,
        cache_read_tokens=2,
        cache_write_tokens=4,
        cost_usd=round((10 * 2 + 7 * 10 + 2 * 0.2 + 4 * 2.5) / 1_000_000, 9),
    )


def test_a_cut_answer_has_the_usage_reported_so_far() -> None:
    reader, cutter = ANTHROPIC.reader(MODEL), Cutter(limit=1 << 20)
    assert reader.usage is None
    reader.read(cutter.feed(start())[0])
    assert reader.usage is not None
    assert reader.usage.input_tokens == 10


def test_cache_writes_that_are_kept_for_an_hour_cost_more() -> None:
    usage = {"cache_creation_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 10}}
    assert AnthropicMessages({"m": Price(1, 0, 0, 2, 4)}).usage({"usage": usage}, "m") == Usage(
        cache_write_tokens=10, cost_usd=0.00004
    )


def test_a_model_without_a_price_costs_nothing() -> None:
    usage = AnthropicMessages({}).usage(answer(FULL), MODEL)
    assert usage is not None
    assert usage.cost_usd == 0


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("claude-opus-4-5-20251101", 25),
        ("claude-opus-4-20250514", 75),
        ("claude-opus-4-1-20250805", 75),
        ("claude-haiku-4-5", 5),
        ("claude-sonnet-5-5", 10),
        ("gpt-x", None),
    ],
)
def test_the_longest_name_that_fits_has_the_price(model: str, output: float | None) -> None:
    price = find_price(model, LIST_PRICES)
    assert (price and price.output) == output
