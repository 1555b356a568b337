"""What ends a turn of Claude Code for good, and what another attempt may mend; with lines that the program wrote."""

import json
from typing import Any

import pytest

from outlast.adapters.claude_code.ending import result_of
from outlast.adapters.claude_code.stream import Finished, Spoken, read
from outlast.errors import HarnessError, ModelCallFailed


def ending(text: str, **said: Any) -> Finished:
    """The last line of a turn that a model request ended."""
    fields = {"api_error_status": None, "terminal_reason": "api_error", "is_error": True, **said}
    end = read(json.dumps({"type": "result", "subtype": "success", "result": text, **fields}).encode())
    assert isinstance(end, Finished)
    return end


def test_a_harness_without_a_credential_fails_at_once_and_says_what_to_do() -> None:
    line = {"type": "assistant", "error": "authentication_failed", "is_api_error_message": True}
    spoken = read(json.dumps(line).encode())
    assert isinstance(spoken, Spoken)
    result = result_of(ending("Not logged in · Please run /login"), spoken.error)
    assert result.status == "failed"
    for told in ("Not logged in", "--settings", "ANTHROPIC_API_KEY", "outlast doctor"):
        assert told in result.error


@pytest.mark.parametrize(
    ("text", "error", "status"),
    [
        (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
            "server_error",
            None,
        ),
        ("API Error: Connection closed mid-response", "unknown", None),
        ("API Error: 529 Overloaded", "server_error", 529),
        ("API Error: 429 Slow down", "rate_limit", 429),
    ],
)
def test_what_may_pass_is_left_to_another_attempt(text: str, error: str, status: int | None) -> None:
    with pytest.raises(ModelCallFailed):
        result_of(ending(text, api_error_status=status), error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_what_the_provider_would_answer_again_ends_the_turn_with_its_words(status: int) -> None:
    result = result_of(ending(f"API Error: {status} No.", api_error_status=status), "authentication_failed")
    assert (result.status, result.error) == ("failed", f"API Error: {status} No.")


def test_a_refusal_of_the_gateway_is_no_word_of_the_provider() -> None:
    text = "Failed to authenticate. API Error: 403 outlast lets nothing through: no hello."
    with pytest.raises(HarnessError):
        result_of(ending(text, api_error_status=403), "authentication_failed")


def test_a_turn_that_ended_well_is_done_whatever_was_said_before() -> None:
    end = ending("So be it.", is_error=False, terminal_reason="completed")
    assert result_of(end, "rate_limit").status == "done"
