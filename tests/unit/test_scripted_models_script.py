import json
from pathlib import Path
from typing import Any

import pytest

from outlast.testing.models import (
    SCRIPT_OVER,
    BadScript,
    Script,
    Step,
    load_script,
    locate,
    parse_script,
)
from outlast.testing.models.anthropic import Anthropic
from tests.unit.plain_messages import assistant, text, user


def test_a_toml_and_a_json_script_say_the_same(tmp_path: Path) -> None:
    toml, plain = tmp_path / "s.toml", tmp_path / "s.json"
    toml.write_text(
        '[[conversations.main]]\ntext = "hi"\ntools = [{ name = "Bash", input = { command = "ls" } }]\n'
        '[[conversations.main]]\nstatus = 529\nretry_after_s = 2.5\ntimes = "always"\n'
    )
    plain.write_text(
        json.dumps(
            {
                "conversations": {
                    "main": [
                        {"text": "hi", "tools": [{"name": "Bash", "input": {"command": "ls"}}]},
                        {"status": 529, "retry_after_s": 2.5, "times": "always"},
                    ]
                }
            }
        )
    )
    assert load_script(toml) == load_script(plain)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"conversations": {"main": [{"text": "a"}, {"txt": "b"}]}}, "conversations.main[1]"),
    ({"conversations": {"main": [{"tools": [{"input": {}}]}]}}, "conversations.main[0]"),
    ({"conversations": {"main": [{}]}}, "conversations.main[0]"),
    ({"conversations": {"main": [{"status": 200}]}}, "conversations.main[0]"),
    ({"conversations": {"main": [{"text": "a", "delay_s": -1}]}}, "conversations.main[0]"),
    ({"conversations": {"main": {"text": "a"}}}, "conversations.main"),
    ({"conversations": {"a b": []}}, "conversations.a b"),
    ({"conversation": {}}, "`conversation`"),
    ({}, "`conversations`"),
]


@pytest.mark.parametrize(("tree", "place"), BAD)
def test_a_bad_script_is_refused_with_its_place(tree: object, place: str) -> None:
    with pytest.raises(BadScript) as refusal:
        parse_script(tree, source="demo.toml")
    assert place in str(refusal.value)
    assert "demo.toml" in str(refusal.value)


def test_a_script_file_that_is_missing_or_torn_is_refused_with_its_name(tmp_path: Path) -> None:
    torn = tmp_path / "torn.json"
    torn.write_text('{"conversations": {')
    for path in (tmp_path / "missing.toml", torn):
        with pytest.raises(BadScript, match=path.name):
            load_script(path)


RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "[script:other] is only quoted here"}
INTERRUPTED = {
    "type": "tool_result",
    "tool_use_id": "t2",
    "is_error": True,
    "content": [text("[Tool call interrupted]")],
}
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "echo [script:other]"}}
STEPS = {
    "first call": ([user("[script:main] go")], "main 0"),
    "after one answer": ([user("[script:main] go"), assistant("a"), user([RESULT])], "main 1"),
    "an answer sent as a message for each block": (
        [
            user("[script:main]"),
            assistant([text("a")]),
            assistant([CALL]),
            user([RESULT]),
            user([INTERRUPTED]),
        ],
        "main 1",
    ),
    "a second prompt without a marker": (
        [user("[script:main]"), assistant("a"), user("more"), assistant("b"), user("and more")],
        "main 2",
    ),
    "a second prompt with a marker": (
        [user("[script:main]"), assistant("a"), user([RESULT, text("now [script:other]")])],
        "other 0",
    ),
    "the same marker again": ([user("[script:main]"), assistant("a"), user("[script:main]")], "main 0"),
    "the last marker of a message": ([user([text("[script:main]"), text("[script:other]")])], "other 0"),
    "what the harness puts in the model's mouth on resume": (
        [user("[script:main]"), assistant("a"), user("x"), assistant("No response requested."), user("y")],
        "main 1",
    ),
    "messages of unknown roles and shapes": (
        [
            user("[script:main]"),
            {"role": "system", "content": "s"},
            assistant([{"type": "new"}, 7]),
            user(None),
        ],
        "main 1",
    ),
    "past the end": ([user("[script:other]"), assistant("a"), user("x"), assistant("b"), user("y")], "over"),
    "no marker": ([user("hello"), assistant("a"), user("x")], "default 1"),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_step_is_read_from_the_request_alone(case: str) -> None:
    messages, said = STEPS[case]
    names = {"main": 3, "other": 2, "default": 2}
    script = Script(
        conversations={name: tuple(Step(text=f"{name} {n}") for n in range(n)) for name, n in names.items()}
    )
    request = Anthropic().parse(json.dumps({"model": "m", "messages": messages}).encode())
    assert locate(script, request.messages).step.text == (SCRIPT_OVER.text if said == "over" else said)
