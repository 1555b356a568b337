"""What Claude Code says and is told on its standard streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.claude_code.stream import (
    Answered,
    Asked,
    Begun,
    Finished,
    Garbled,
    HookEnded,
    HookStarted,
    Mirrored,
    Other,
    Retrying,
    Spoken,
    Withdrawn,
    allow,
    deny,
    interrupt,
    prompt,
    read,
)


def line(**said: Any) -> bytes:
    return json.dumps(said).encode()


def test_the_start_tells_version_tools_and_servers() -> None:
    begun = read(
        line(
            type="system",
            subtype="init",
            session_id="s",
            claude_code_version="2.1.332",
            model="m",
            tools=["Bash", "mcp__outlast__refund"],
            mcp_servers=[{"name": "outlast", "status": "connected"}],
        )
    )
    assert begun == Begun("s", "2.1.332", "m", ["Bash", "mcp__outlast__refund"], {"outlast": "connected"})


def test_mirrored_records_are_kept_byte_for_byte() -> None:
    entry = '{"type":"user", "b":1.0,"a":"\\u00e9\\ud83d\\ude00", "big":12345678901234567890}'
    event = read(f'{{"type":"transcript_mirror","filePath":"/h/x.jsonl","entries":[{entry}]}}'.encode())
    assert event == Mirrored("/h/x.jsonl", [entry])


def test_a_permission_request_tells_what_would_run() -> None:
    asked = read(
        line(
            type="control_request",
            request_id="r1",
            request={
                "subtype": "can_use_tool",
                "tool_name": "Bash",
                "input": {"command": "ls"},
                "tool_use_id": "t1",
                "decision_reason_type": "rule",
                "decision_reason_rule_source": "flagSettings",
            },
        )
    )
    assert asked == Asked("r1", "t1", "Bash", {"command": "ls"})


@pytest.mark.parametrize(
    "rule",
    [
        {"matched_ask_rule": {"source": "projectSettings", "tool_name": "Bash"}},
        {
            "matched_ask_rule": {"source": "flagSettings", "tool_name": "*"},
            "decision_reason_rule_source": "projectSettings",
        },
        {"decision_reason_type": "hook"},
    ],
    ids=["for a tool", "for some of its calls", "by a hook"],
)
def test_a_rule_of_the_users_own_settings_is_told_apart(rule: dict[str, object]) -> None:
    request: dict[str, object] = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "t1", **rule}
    asked = read(line(type="control_request", request_id="r1", request=request))
    assert isinstance(asked, Asked)
    assert asked.wanted_by_user


def hook(subtype: str, **said: Any) -> bytes:
    return line(
        type="system",
        subtype=subtype,
        hook_id="h",
        hook_name="PreToolUse:Read",
        **{"hook_event": "PreToolUse", **said},
    )


def test_a_hook_tells_its_tool_when_it_starts_and_its_answer_when_it_ends() -> None:
    assert read(hook("hook_started")) == HookStarted("h", "Read")
    asks = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    assert read(hook("hook_response", output=json.dumps(asks) + "\n")) == HookEnded("h", wants_person=True)
    ours = {"hookSpecificOutput": {"permissionDecision": "allow"}, "outlast": "t1"}
    assert read(hook("hook_response", output=json.dumps(ours))) == HookEnded("h", call="t1")


@pytest.mark.parametrize(
    "output",
    ["", "checked: fine", '{"permissionDecision":"ask"}', '{"hookSpecificOutput":"ask"}', "[" * 100_000],
)
def test_a_hook_that_says_anything_else_asks_for_nobody(output: str) -> None:
    assert read(hook("hook_response", output=output)) == HookEnded("h")


def test_hooks_of_other_events_are_not_taken_for_those_before_a_tool() -> None:
    assert read(hook("hook_started", hook_event="PostToolUse")) == Other("system", "hook_started")
    assert read(hook("hook_response", hook_event="PostToolUse")) == Other("system", "hook_response")


def test_where_there_was_no_answer_the_message_in_its_place_tells_why() -> None:
    assert read(line(type="assistant", error="authentication_failed")) == Spoken("authentication_failed")
    assert read(line(type="assistant", message={}, parent_tool_use_id=None)) == Spoken()
    assert read(line(type="assistant", error="rate_limit", parent_tool_use_id="t1")) == Other("assistant")


def test_the_end_of_a_turn_tells_how_it_ended() -> None:
    done = read(
        line(
            type="result",
            subtype="success",
            is_error=False,
            result="all done",
            terminal_reason="completed",
            total_cost_usd=0.5,
            usage={
                "input_tokens": 3,
                "output_tokens": 4,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": None,
            },
        )
    )
    assert isinstance(done, Finished)
    assert (done.ok, done.text, done.why, done.status) == (True, "all done", "completed", None)
    assert (done.usage.input_tokens, done.usage.cache_read_tokens, done.usage.cost_usd) == (3, 5, 0.5)


def test_a_provider_error_is_no_success_whatever_the_subtype_says() -> None:
    done = read(
        line(type="result", subtype="success", is_error=True, result="API Error: 529", api_error_status=529)
    )
    assert isinstance(done, Finished)
    assert not done.ok
    assert done.status == 529


def test_a_turn_without_a_result_tells_why() -> None:
    done = read(line(type="result", subtype="error_max_turns", is_error=True, errors=["Reached maximum"]))
    assert isinstance(done, Finished)
    assert done.text == "Reached maximum"
    cut = read(
        line(type="result", subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools")
    )
    assert isinstance(cut, Finished)
    assert cut.text == "aborted_tools"


def test_the_rest_is_named_and_never_raises() -> None:
    assert read(line(type="system", subtype="api_retry", attempt=2, error_status=529)) == Retrying(2, 529)
    assert read(line(type="control_cancel_request", request_id="r")) == Withdrawn("r")
    assert read(
        line(type="control_response", response={"subtype": "success", "request_id": "i1"})
    ) == Answered("i1")
    assert read(line(type="control_request", request_id="r", request={"subtype": "hook_callback"})) == Other(
        "control_request", "hook_callback"
    )
    assert read(line(type="stream_event", event={})) == Other("stream_event")
    assert isinstance(read(b"Ignoring 1 permissions.allow entry"), Garbled)
    assert isinstance(read(b'{"type":"transcript_mirror"}'), Garbled)
    assert isinstance(read(b"[1]"), Garbled)


@given(st.binary(max_size=200))
def test_any_line_gets_an_event(noise: bytes) -> None:
    read(noise)


ODD: st.SearchStrategy[Any] = st.one_of(
    st.text(), st.none(), st.integers(), st.just(dict[str, Any]()), st.just(list[Any]())
)
FIELDS = [
    "hook_event",
    "hook_id",
    "hook_name",
    "output",
    "subtype",
    "request",
    "response",
    "request_id",
    "session_id",
    "tools",
    "mcp_servers",
    "usage",
    "errors",
]
KINDS = [
    "system",
    "result",
    "control_request",
    "control_response",
    "control_cancel_request",
    "transcript_mirror",
    "x",
]


@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=5), st.sampled_from(KINDS))
def test_any_object_gets_an_event(said: dict[str, Any], kind: str) -> None:
    read(json.dumps({**said, "type": kind}).encode())
    for subtype in ("init", "hook_started", "hook_response"):
        read(json.dumps({"hook_event": "PreToolUse", **said, "type": kind, "subtype": subtype}).encode())


def test_what_it_is_told_is_one_line_each() -> None:
    asked = Asked("r1", "t1", "Bash", {"command": "ls"})
    for told in (
        prompt("two\nlines", "u"),
        allow(asked, {"command": "ls\n"}),
        deny(asked, "no\nno"),
        interrupt("i1"),
    ):
        assert told.count(b"\n") == 1
        assert told.endswith(b"\n")
    assert json.loads(prompt("hi", "u"))["uuid"] == "u"
    assert json.loads(allow(asked, {"command": "pwd"}))["response"] == {
        "subtype": "success",
        "request_id": "r1",
        "response": {"behavior": "allow", "updatedInput": {"command": "pwd"}},
    }
    assert json.loads(deny(asked, "no"))["response"]["response"] == {"behavior": "deny", "message": "no"}
    assert json.loads(interrupt("i1"))["request"] == {"subtype": "interrupt"}
