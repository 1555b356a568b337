import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.cli.run import session_name
from outlast.cli.text import age, answer_text, arguments_text, plain, short, tokens
from outlast.ids import check_session_id
from outlast.records import Payload, Usage
from outlast.records.events import Event

BLOCKS: dict[str, object] = {
    "content": [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "input": {}},
        {"type": "text", "text": "b\n"},
    ]
}

LOOP_S: dict[str, object] = {
    "message": {
        "parts": [
            {"kind": "thinking", "text": "hm"},
            {"kind": "text", "text": "a"},
            {"kind": "tool_call", "id": "t1", "name": "look", "arguments": {"text": "no"}},
            {"kind": "text", "text": "b\n"},
        ]
    },
    "stop": "tools",
}


def _payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))


@given(st.text())
def test_nothing_that_was_said_moves_the_cursor_or_colours(text: str) -> None:
    assert not [char for char in plain(text) if char != "\n" and (ord(char) < 32 or 0x7F <= ord(char) < 0xA0)]


@given(st.text(), st.integers(1, 200))
def test_a_short_text_is_one_plain_line_of_its_width(text: str, width: int) -> None:
    line = short(text, width)
    assert len(line) <= width
    assert "\n" not in line


@given(st.text())
def test_every_prompt_makes_a_session_id(prompt: str) -> None:
    assert check_session_id(session_name(prompt))


def test_a_session_is_named_after_the_telling_words_of_its_prompt() -> None:
    assert session_name("Add a pricing page and make its test pass").startswith("pricing-page-")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0 s"), (12, "12 s"), (89.9, "90 s"), (240, "4 min"), (10_800, "3 h"), (200_000, "2 d")],
)
def test_an_age_has_one_unit(seconds: float, said: str) -> None:
    assert age(seconds) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "pytest -q", "timeout": 3}, "pytest -q"),
        ({"order": 81, "cents": 500}, "order=81, cents=500"),
        ({}, ""),
        (None, ""),
        ([1, "a"], '[1,"a"]'),
        ({"command": "a\nb\x1b[31m"}, "a b␛[31m"),
    ],
)
def test_arguments_are_told_by_what_tells_most(arguments: object, said: str) -> None:
    assert arguments_text(_payload(arguments)) == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"text": "hello"}, "hello"),
        (BLOCKS, "a\nb"),
        ({"content": []}, ""),
        ("nonsense", ""),
        ({"content": [{"type": "text", "text": 7}]}, ""),
        (None, ""),
        (LOOP_S, "a\nb"),
    ],
)
def test_the_text_of_an_answer_is_found_whatever_its_shape(answer: object, said: str) -> None:
    assert answer_text(Event("1.0", "call.settled", payload=_payload(answer))) == said


def test_tokens_count_what_was_read_from_and_written_to_the_cache() -> None:
    assert tokens(Usage(4, 311, 2000, 100, 0.011)) == "2,104 → 311 tokens   $0.0110"
