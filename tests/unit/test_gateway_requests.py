from typing import Any

import msgspec
import pytest

from outlast.adapter import ToolResult
from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import NotARequest
from tests.gateway.messages import assistant, request, text, tool_result, tool_use, user

MARK = {"type": "ephemeral"}
ANTHROPIC = AnthropicMessages()


def match(value: dict[str, Any]) -> str:
    return ANTHROPIC.understand(value).match


PLAIN = request(
    user("hello"),
    assistant(text("I look."), tool_use("t1", command="ls"), tool_use("t2", command="pwd")),
    user(tool_result("t1", "a.txt"), tool_result("t2", "/tmp")),
    system="Be good.",
    tools=[{"name": "Bash", "input_schema": {"type": "object"}}],
)
RESULTS = PLAIN["messages"][2]["content"]

SAME: dict[str, dict[str, Any]] = {
    "metadata": {**PLAIN, "metadata": {"user_id": "another"}},
    "whether it streams": {**PLAIN, "stream": False},
    "cache mark on the request": {**PLAIN, "cache_control": MARK},
    "system as blocks, marked": {**PLAIN, "system": [text("Be good.", cache_control=MARK)]},
    "billing header": {
        **PLAIN,
        "system": [text("x-anthropic-billing-header: cc_version=1;"), text("Be good.")],
    },
    "marked tool": {**PLAIN, "tools": [{**PLAIN["tools"][0], "cache_control": MARK}]},
    "text as blocks, marked, with a line end": {
        **PLAIN,
        "messages": [user(text("hello\n", cache_control=MARK)), *PLAIN["messages"][1:]],
    },
    "results in another order": {**PLAIN, "messages": [*PLAIN["messages"][:2], user(*reversed(RESULTS))]},
    "results in messages of their own": {
        **PLAIN,
        "messages": [*PLAIN["messages"][:2], *(user(result) for result in RESULTS)],
    },
    "result as blocks, marked inside": {
        **PLAIN,
        "messages": [
            *PLAIN["messages"][:2],
            user(tool_result("t1", [text("a.txt", cache_control=MARK)], is_error=False), RESULTS[1]),
        ],
    },
    "an answer in two messages": {
        **PLAIN,
        "messages": [
            PLAIN["messages"][0],
            *(assistant(block) for block in PLAIN["messages"][1]["content"]),
            PLAIN["messages"][2],
        ],
    },
}

OTHER: dict[str, dict[str, Any]] = {
    "another model": {**PLAIN, "model": "claude-opus-5"},
    "another system prompt": {**PLAIN, "system": "Be bad."},
    "another tool": {**PLAIN, "tools": []},
    "another text": {**PLAIN, "messages": [user("hello!"), *PLAIN["messages"][1:]]},
    "another result": {
        **PLAIN,
        "messages": [*PLAIN["messages"][:2], user(tool_result("t1", "b.txt"), RESULTS[1])],
    },
    "a result that is an error": {
        **PLAIN,
        "messages": [*PLAIN["messages"][:2], user({**RESULTS[0], "is_error": True}, RESULTS[1])],
    },
    "a cache mark that is an argument": {
        **PLAIN,
        "messages": [
            user("hello"),
            assistant(
                text("I look."), tool_use("t1", command="ls", cache_control=1), tool_use("t2", command="pwd")
            ),
            PLAIN["messages"][2],
        ],
    },
    "one message more": {**PLAIN, "messages": [*PLAIN["messages"], assistant(text("so"))]},
}


@pytest.mark.parametrize("name", SAME)
def test_what_a_resumed_harness_asks_otherwise_is_the_same_request(name: str) -> None:
    assert match(SAME[name]) == match(PLAIN)


@pytest.mark.parametrize("name", OTHER)
def test_what_a_model_would_read_otherwise_is_another_request(name: str) -> None:
    assert match(OTHER[name]) != match(PLAIN)


def test_understanding_a_request_leaves_it_as_it_is() -> None:
    before = msgspec.json.encode(PLAIN)
    ANTHROPIC.understand(PLAIN)
    assert msgspec.json.encode(PLAIN) == before


def test_the_messages_are_apart_from_the_frame() -> None:
    understood = ANTHROPIC.understand(PLAIN)
    assert "messages" not in understood.frame
    assert understood.frame["max_tokens"] == 100
    assert len(understood.messages) == 3


def test_results_and_words_since_the_last_answer_are_told_from_earlier_ones() -> None:
    understood = ANTHROPIC.understand(
        request(
            *PLAIN["messages"], assistant(tool_use("t3")), user(tool_result("t3", "x"), text("and now this"))
        )
    )
    assert list(understood.results) == ["t3"]
    assert list(understood.newest) == ["and now this"]
    assert list(understood.earlier) == ["hello"]


def test_a_request_whose_results_the_log_does_not_know_otherwise_is_not_touched() -> None:
    known = {"t1": ToolResult("ok", "a.txt"), "t2": ToolResult("ok", [text("/tmp")])}
    assert ANTHROPIC.mend(PLAIN, known.get).request is PLAIN
    assert ANTHROPIC.mend(PLAIN, lambda _: None).request is PLAIN


def test_the_logs_content_takes_the_place_of_a_result() -> None:
    gone = tool_result("t1", "gone", cache_control=MARK, is_error=True)
    marked = {**PLAIN, "messages": [*PLAIN["messages"][:2], user(gone, RESULTS[1])]}
    known = {"t1": ToolResult("ok", "a.txt"), "t2": ToolResult("ok", [text("/tmp")])}
    by_log = ANTHROPIC.mend(marked, known.get)
    mended = by_log.request
    assert mended["messages"][2]["content"] == [tool_result("t1", "a.txt", cache_control=MARK), RESULTS[1]]
    assert by_log.told == {"t1": known["t1"]}, "of the other the harness says the same"
    assert match(dict(mended)) == match(PLAIN)


@pytest.mark.parametrize("status", ["error", "in_doubt", "interrupted", "cancelled"])
def test_a_result_that_is_not_ok_is_an_error_to_the_model(status: Any) -> None:
    mended = ANTHROPIC.mend(PLAIN, {"t2": ToolResult(status, "perhaps")}.get).request
    assert mended["messages"][2]["content"][1] == tool_result("t2", "perhaps", is_error=True)


def test_a_result_that_is_no_text_is_told_as_json_and_blocks_as_blocks() -> None:
    known = {"t1": ToolResult("ok", {"rows": 3}), "t2": ToolResult("ok", [text("/tmp"), text("more")])}
    first, second = ANTHROPIC.mend(PLAIN, known.get).request["messages"][2]["content"]
    assert first["content"] == '{"rows":3}'
    assert second["content"] == [text("/tmp"), text("more")]


def test_a_cache_mark_inside_a_result_stays_inside_it() -> None:
    marked = request(
        *PLAIN["messages"][:2], user(tool_result("t1", [text("gone", cache_control=MARK)]), RESULTS[1])
    )
    mended = ANTHROPIC.mend(marked, {"t1": ToolResult("ok", "a.txt")}.get).request
    assert mended["messages"][2]["content"][0]["content"] == [text("a.txt", cache_control=MARK)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"model":"m","messages":[1]}',
        b'{"model":"m","messages":[{"role":"user"}]}',
        b'{"model":"m","messages":[{"role":"user","content":[1]}]}',
        b'{"model":"m","messages":[],"stream":"yes"}',
        b'{"messages":[]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_request_is_told_apart(body: bytes) -> None:
    with pytest.raises(NotARequest):
        ANTHROPIC.read(body)


@pytest.mark.parametrize(
    ("method", "path", "call", "passes"),
    [
        ("POST", "/v1/messages", True, False),
        ("POST", "/v1/messages/count_tokens", False, True),
        ("GET", "/v1/models", False, True),
        ("HEAD", "/", False, True),
        ("POST", "/v1/messages/batches", False, False),
        ("POST", "/v1/complete", False, False),
        ("DELETE", "/v1/files/1", False, False),
    ],
)
def test_nothing_that_makes_a_model_answer_passes_without_being_a_call(
    method: str,
    path: str,
    call: bool,  # noqa: FBT001 - a table
    passes: bool,  # noqa: FBT001 - a table
) -> None:
    assert ANTHROPIC.is_call(method, path) is call
    assert ANTHROPIC.may_pass(method, path) is passes


# what a harness folds into results

ASIDE = "<system-reminder>\nThe user sent a new message while you were working:\nBlue.\n</system-reminder>"


def steered(*results: dict[str, Any]) -> dict[str, Any]:
    return {**PLAIN, "messages": [*PLAIN["messages"][:2], user(*results)]}


STEERED = {
    "the last": steered(tool_result("t1", "a.txt"), tool_result("t2", f"/tmp\n\n{ASIDE}")),
    "the first": steered(tool_result("t1", f"a.txt\n\n{ASIDE}"), tool_result("t2", "/tmp")),
    "text that loses its space": steered(tool_result("t1", "a.txt"), tool_result("t2", f"\t/tmp\n\n{ASIDE}")),
    "text that keeps it": steered(tool_result("t1", " a.txt\n "), tool_result("t2", "/tmp\t"), text(ASIDE)),
    "a block": steered(tool_result("t1", "a.txt"), tool_result("t2", [text("/tmp\n"), text(ASIDE)])),
    "no result": steered(tool_result("t1", "a.txt"), tool_result("t2", "/tmp"), text(ASIDE)),
}


@pytest.mark.parametrize("steered", STEERED.values(), ids=STEERED)
def test_a_steer_is_the_same_wherever_the_harness_folds_it_in(steered: dict[str, Any]) -> None:
    understood = ANTHROPIC.understand(steered)
    assert understood.match == match(STEERED["no result"]) != match(PLAIN)
    assert understood.newest == [ASIDE]
    assert understood.results["t2"].value == [text("/tmp")]


@pytest.mark.parametrize("content", [f"lost\n\n{ASIDE}", [text("lost"), text(ASIDE)]])
def test_a_result_that_the_log_knows_better_keeps_the_steer_that_was_folded_into_it(content: object) -> None:
    mended = ANTHROPIC.mend(
        steered(tool_result("t1", content)), {"t1": ToolResult("ok", "found")}.get
    ).request
    understood = ANTHROPIC.understand(mended)
    assert understood.results["t1"].value == [text("found")]
    assert understood.newest == [ASIDE]
    same = steered(tool_result("t1", f"found\n\n{ASIDE}"))
    assert ANTHROPIC.mend(same, {"t1": ToolResult("ok", "found")}.get).request is same


@pytest.mark.parametrize(
    "content",
    [
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>",
        f"quoted {ASIDE}",
        f"{ASIDE} and more",
    ],
)
def test_a_result_that_only_looks_like_a_steer_stays_a_result(content: str) -> None:
    assert ANTHROPIC.understand(steered(tool_result("t1", content))).newest == []


def test_what_frames_a_conversation_is_the_same_wherever_an_attempt_works() -> None:
    def framed(home: str, cwd: str) -> str:
        asked = {**PLAIN, "system": f"Your files are in {cwd}, what you keep is in {home}/.agent."}
        return ANTHROPIC.understand(asked, [home, cwd]).match

    there = framed("/data/homes/s", "/data/work/s")
    assert framed("/other/homes/f", "/other/work/f") == there
    assert framed("/data/work/s", "/data/homes/s") == there  # each by what it is
    assert framed("/data/homes", "/data/homes/s") == there  # one within the other
    assert ANTHROPIC.understand(PLAIN, ["/", ""]).match == match(PLAIN)
    said = {**PLAIN, "messages": [*PLAIN["messages"], *request(user("/data/homes/s"))["messages"]]}
    assert ANTHROPIC.understand(said, ["/data/homes/s"]).match == match(said)
