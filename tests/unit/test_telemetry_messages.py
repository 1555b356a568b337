"""Messages and answers of every dialect, as OpenTelemetry's conventions have messages."""

from typing import Any

import pytest

from outlast.telemetry.messages import answer_of, as_message, system_of


@pytest.mark.parametrize(
    ("raw", "role", "parts"),
    [
        ({"role": "user", "content": "hello"}, "user", [{"type": "text", "content": "hello"}]),
        (
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"a": 1}}],
            },
            "assistant",
            [{"type": "tool_call", "id": "t1", "name": "Bash", "arguments": {"a": 1}}],
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}]}
                ],
            },
            "user",
            [{"type": "tool_call_response", "id": "t1", "response": "ok"}],
        ),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
            "assistant",
            [{"type": "reasoning", "content": "hm"}],
        ),
        (
            {"role": "user", "content": [{"type": "image", "source": {"data": "AAAA"}}]},
            "user",
            [{"type": "image"}],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": "ok"}],
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ],
            },
            "assistant",
            [{"type": "tool_call", "id": "c1", "name": "look", "arguments": "{}"}],
        ),
        (
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": "ok"}],
        ),
        (
            {
                "role": "assistant",
                "parts": [{"kind": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 1}}],
            },
            "assistant",
            [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 1}}],
        ),
        (
            {"role": "tool", "results": [{"call_id": "c1", "parts": [{"kind": "text", "text": "ok"}]}]},
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": "ok"}],
        ),
        (7, "user", []),
    ],
)
def test_a_message_of_any_dialect_is_told_alike(raw: object, role: str, parts: list[dict[str, Any]]) -> None:
    assert as_message(raw) == {"role": role, "parts": parts}


@pytest.mark.parametrize(
    ("answer", "model", "reasons"),
    [
        (
            {"id": "a", "type": "message", "model": "claude-x", "stop_reason": "end_turn", "content": []},
            "claude-x",
            ["end_turn"],
        ),
        (
            {
                "id": "a",
                "model": "gpt-x",
                "choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}],
            },
            "gpt-x",
            ["stop"],
        ),
        (
            {"id": "a", "object": "response", "model": "gpt-y", "status": "completed", "output": []},
            "gpt-y",
            ["completed"],
        ),
        (
            {"id": "a", "model": "m", "stop": "tools", "message": {"role": "assistant", "parts": []}},
            "m",
            ["tools"],
        ),
        (
            {"id": "a", "content": "x", "response_metadata": {"model_name": "m", "finish_reason": "stop"}},
            "m",
            ["stop"],
        ),
        ({"text": "x"}, "", []),
    ],
)
def test_an_answer_says_which_model_and_why_it_ended(
    answer: dict[str, Any], model: str, reasons: list[str]
) -> None:
    found = answer_of(answer)
    assert (found.model, list(found.reasons)) == (model, reasons)
    assert len(found.messages) == 1


def test_the_instructions_of_a_request_are_text() -> None:
    assert system_of(
        {"system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]}
    ) == ("Be kind.\nBe brief.")
    assert system_of({"instructions": "Be kind."}) == "Be kind."
    assert system_of({}) == ""


def test_no_bytes_of_an_image_are_told() -> None:
    told = as_message({"role": "user", "parts": [{"kind": "image", "data": "c2VjcmV0"}]})
    assert "c2VjcmV0" not in repr(told)
