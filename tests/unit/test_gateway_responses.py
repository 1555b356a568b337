"""The Responses dialect: what passes, what is held, what is recorded, and when two requests are the same."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from outlast.adapter import ToolAsk, ToolResult
from outlast.gateway import sse
from outlast.gateway.dialect import NotARequest
from outlast.gateway.openai_responses import OpenAIResponses
from outlast.gateway.openai_responses_answers import EVENTS
from outlast.gateway.sse import Cutter, Malformed
from outlast.records import Usage

DIALECT = OpenAIResponses()
RS: dict[str, Any] = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm hm"}],
}
MSG: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
}
FC: dict[str, Any] = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "exec_command",
    "arguments": '{"cmd":"ls"}',
    "status": "completed",
}
USED = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-5.5",
    "output": [RS, MSG, FC],
    "usage": USED,
}


def event(kind: str, **fields: Any) -> bytes:
    return sse.frame(kind, msgspec.json.encode({"type": kind, **fields}))


def item_events(index: int, item: Mapping[str, Any], *between: bytes) -> list[bytes]:
    added = event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
    return [added, *between, event("response.output_item.done", output_index=index, item=item)]


def ending(kind: str = "completed", **fields: Any) -> bytes:
    return event(f"response.{kind}", response={**RESPONSE, **fields})


BEGIN = event("response.created", response={**RESPONSE, "status": "in_progress", "output": []})
SAID = event("response.output_text.delta", output_index=1, delta="I look.")
ARGUED = event("response.function_call_arguments.delta", output_index=2, delta="{}")
WHOLE = [BEGIN, *item_events(0, MSG, SAID), *item_events(1, FC, ARGUED), ending(output=[MSG, FC])]


def heard(frames: Iterable[bytes]) -> tuple[list[str], Mapping[str, Any]]:
    reader = DIALECT.reader("gpt-5.5")
    flows = [reader.read(frame).flow for frame in Cutter(1 << 20).feed(b"".join(frames))]
    return flows, reader.answer()


def test_text_flows_and_nothing_of_a_tool_passes_before_the_answer_is_written_down() -> None:
    flows, answer = heard(WHOLE)
    assert flows == ["pass", "pass", "pass", "hold", "hold", "hold", "hold", "end"]
    assert DIALECT.asks(answer) == [ToolAsk("call_1", "exec_command", {"cmd": "ls"})]


def test_a_tool_that_comes_first_is_held_from_its_very_beginning() -> None:
    flows, _ = heard([BEGIN, *item_events(0, FC, ARGUED), ending(output=[FC])])
    assert flows == ["pass", "hold", "hold", "hold", "end"]


def test_an_answer_cut_short_by_the_token_limit_is_whole_and_its_calls_are_written_down() -> None:
    flows, answer = heard([BEGIN, *item_events(0, FC), ending("incomplete", status="incomplete", output=[])])
    assert flows[-1] == "end"
    assert [ask.harness_id for ask in DIALECT.asks(answer)] == ["call_1"]
    assert b"event: response.incomplete" in DIALECT.frames(answer)[-1]


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (event("error", code="server_error", message="oh"), "server_error: oh"),
        (event("error", error={"type": "x", "message": "oh"}), "x: oh"),
        (ending("failed", status="failed", error={"code": "bad", "message": "no"}), "bad: no"),
    ],
)
def test_an_error_in_the_midst_says_what_it_is(frame: bytes, text: str) -> None:
    reader = DIALECT.reader("gpt-5.5")
    (cut,) = Cutter(1 << 20).feed(frame)
    heard = reader.read(cut)
    assert (heard.flow, heard.text) == ("error", text)


def test_a_recorded_answer_is_served_as_it_was_heard() -> None:
    _, answer = heard(WHOLE)
    assert EVENTS not in answer
    again = heard(DIALECT.frames(answer))
    assert again[1] == answer
    assert "I look." in b"".join(DIALECT.frames(answer)).decode()
    assert msgspec.json.decode(DIALECT.body(answer)) == answer


def test_what_an_answer_repeats_of_its_request_is_not_recorded_at_every_call() -> None:
    _, answer = heard([BEGIN, *item_events(0, MSG), ending(tools=[{"name": "x" * 1000}], output=[MSG])])
    assert answer["tools"] == []


def test_usage_tells_what_was_cached_and_what_it_costs() -> None:
    _, answer = heard(WHOLE)
    usage = DIALECT.usage(answer, "gpt-5.5")
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (8, 4, 5)
    assert usage.cost_usd == pytest.approx((8 * 5 + 4 * 0.5 + 5 * 30) / 1e6)
    assert isinstance(usage, Usage)


@pytest.mark.parametrize(
    ("item", "ask"),
    [
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            ToolAsk("c", "apply_patch", {"input": "*** Begin"}),
        ),
        (
            {
                "type": "function_call",
                "call_id": "c",
                "namespace": "mcp__shop",
                "name": "buy",
                "arguments": "{}",
            },
            ToolAsk("c", "mcp__shop__buy", {}),
        ),
        (
            {"type": "local_shell_call", "id": "c", "action": {"type": "exec", "command": ["ls"]}},
            ToolAsk("c", "local_shell", {"type": "exec", "command": ["ls"]}),
        ),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": '},
            ToolAsk("c", "f", {"arguments": '{"a": '}),
        ),
        (
            {"type": "apply_patch_call", "call_id": "c", "status": "completed", "operation": {"path": "x"}},
            ToolAsk("c", "apply_patch", {"operation": {"path": "x"}}),
        ),
    ],
)
def test_every_kind_of_call_that_a_harness_runs_is_asked_for(item: Mapping[str, Any], ask: ToolAsk) -> None:
    assert DIALECT.asks({"output": [item]}) == [ask]


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
        [{"type": "tool_search_call", "call_id": "c", "execution": "server"}],
        [{"type": "shell_call", "call_id": "c"}, {"type": "shell_call_output", "call_id": "c"}],
    ],
)
def test_what_the_provider_runs_itself_is_no_call_of_the_harness(items: list[dict[str, Any]]) -> None:
    assert DIALECT.asks({"output": items}) == []


@pytest.mark.parametrize(
    "frames",
    [
        [BEGIN, *item_events(0, {**FC, "call_id": ""}), ending()],
        [BEGIN, *item_events(0, FC), *item_events(1, FC), ending(output=[])],
        [BEGIN, *item_events(0, FC), *item_events(0, MSG), ending(output=[])],
        [BEGIN, *item_events(0, MSG), ending(output=[MSG, FC])],
        [BEGIN, event("response.completed")],
        [b"data: [DONE]\n\n"],
        [b'event: response.created\ndata: {"type":"error"}\n\n'],
    ],
)
def test_an_answer_that_a_client_might_read_otherwise_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(Malformed):
        heard(frames)


def test_what_only_the_provider_can_read_or_run_is_recorded_and_served_again_as_it_came() -> None:
    items: list[dict[str, Any]] = [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "q"}},
        {"id": "ci_1", "type": "code_interpreter_call", "code": "1", "outputs": [], "status": "completed"},
        {"id": "mcp_1", "type": "mcp_call", "name": "look", "server_label": "s", "output": "x"},
        {"id": "cmp_1", "type": "compaction", "encrypted_content": "gBBBB"},
        FC,
    ]
    told = [one for index, item in enumerate(items) for one in item_events(index, item)]
    _, answer = heard([BEGIN, *told, ending(output=items)])
    assert answer["output"] == items
    assert [ask.harness_id for ask in DIALECT.asks(answer)] == ["call_1"]
    assert heard(DIALECT.frames(answer))[1] == answer
    assert DIALECT.whole(DIALECT.body(answer)) == answer


def test_an_answer_with_something_unknown_in_it_is_served_from_its_own_events() -> None:
    odd = event("codex.rate_limits", left=3)
    _, answer = heard([BEGIN, odd, *item_events(0, MSG), ending(output=[MSG])])
    assert odd in DIALECT.frames(answer)


# requests


def asked(*items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "stream": True, "input": list(items), **more}


def said(text: str, role: str = "user") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def output(call: str, text: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": text}


FC_2 = {**FC, "id": "fc_2", "call_id": "call_2"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (asked(said("hi")), asked(said("hi"), client_metadata={"t": 1}, prompt_cache_key="k", stream=False)),
        (asked(said("hi")), {"model": "gpt-5.5", "input": "hi"}),
        (
            asked(said("hi"), FC),
            asked(said("hi"), {k: v for k, v in FC.items() if k not in {"id", "status"}}),
        ),
        (
            asked(FC, FC_2, output("call_1", "a"), output("call_2", "b")),
            asked(FC, FC_2, output("call_2", "b"), output("call_1", "a")),
        ),
        (
            asked(FC, output("call_1", "a")),
            asked(FC, output("call_1", [{"type": "input_text", "text": "a"}])),
        ),
        (asked(said("hi")), asked({"role": "user", "content": "hi\n"})),
    ],
)
def test_what_does_not_change_the_question_leaves_it_the_same(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert DIALECT.understand(one).match == DIALECT.understand(other).match


@pytest.mark.parametrize(
    "other",
    [
        asked(said("ho")),
        asked(said("hi"), instructions="x"),
        asked(said("hi"), tools=[{"type": "function", "name": "x"}]),
        asked(said("hi", "assistant")),
        asked(said("hi"), previous_response_id="resp_1"),
    ],
)
def test_what_changes_the_question_makes_it_another(other: dict[str, Any]) -> None:
    assert DIALECT.understand(asked(said("hi"))).match != DIALECT.understand(other).match


def test_results_and_words_since_the_last_answer_are_told_from_those_before() -> None:
    old, new = output("call_1", "a"), output("call_2", "b")
    understood = DIALECT.understand(asked(said("hi"), FC, old, said("more"), RS, FC_2, new, said("steer")))
    assert dict(understood.results) == {"call_2": ToolResult("ok", "b")}
    assert (list(understood.newest), list(understood.earlier)) == (["steer"], ["hi", "more"])


def test_the_log_puts_its_result_where_the_harness_says_otherwise_and_touches_nothing_else() -> None:
    request = asked(said("hi"), FC, output("call_1", "aborted"))
    assert DIALECT.mend(request, lambda _: None).request is request
    same = DIALECT.mend(request, lambda _: ToolResult("ok", "aborted")).request
    assert same is request
    mended = DIALECT.mend(
        request, lambda _: ToolResult("in_doubt", [{"type": "text", "text": "may have run"}])
    ).request
    assert mended["input"][-1]["output"] == "may have run"
    assert mended["input"][:2] == request["input"][:2]


def test_what_a_search_for_tools_has_found_stays_as_it_is() -> None:
    found = {
        "type": "tool_search_output",
        "call_id": "call_1",
        "execution": "client",
        "tools": [{"name": "x"}],
    }
    request = asked(
        said("hi"), {"type": "tool_search_call", "call_id": "call_1", "execution": "client"}, found
    )
    assert DIALECT.mend(request, lambda _: ToolResult("ok", None)).request is request


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"input": 3}',
        b'{"model":"m","input":"x","background":true}',
        b'{"model":"m","input":"x","conversation":"conv_1"}',
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(NotARequest):
        DIALECT.read(body)
