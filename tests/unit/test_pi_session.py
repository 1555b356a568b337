"""Where a session file of Pi is cut so that Pi goes on with a turn, and what is written into it."""

from typing import Any

import msgspec
import pytest

from outlast.adapter import ToolResult
from outlast.adapters.pi import session
from outlast.adapters.pi.results import as_told, content_of, result_of

COMPACTION: dict[str, Any] = {}
PEN = session.Pen("p1", 1_764_000_000_123)


def line(id: str, parent: str | None, **said: Any) -> str:  # noqa: A002 - its name there
    return msgspec.json.encode({"id": id, "parentId": parent, **said}).decode()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def answer(*calls: str, stop: str = "") -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [
        {"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in calls
    ]
    return {"role": "assistant", "content": blocks, "stopReason": stop or ("toolUse" if calls else "stop")}


def result(call: str) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call, "content": [], "isError": False}


def file(*messages: dict[str, Any], before: int = 0) -> list[str]:
    """A file whose turn begins behind `before` messages of an earlier one."""
    lines = [session.header("/w", PEN)]
    parent: str | None = None
    for at, message in enumerate(messages):
        if at == before:
            mark = {"type": "custom", "customType": session.TURN, "data": {"input": "in-1"}}
            lines.append(line("turn", parent, **mark))
            parent = "turn"
        said = {"type": "compaction"} if message is COMPACTION else {"type": "message", "message": message}
        lines.append(line(f"m{at}", parent, **said))
        parent = f"m{at}"
    return lines


def kept(lines: list[str], steers: int = 0) -> int:
    entries = session.parse(lines)
    begins = session.turn_begins(entries, "in-1")
    assert begins is not None
    return session.fit(entries, begins, steers)


@pytest.mark.parametrize(
    "last",
    [
        [answer("a", "b"), result("a"), result("b")],
        [answer("a"), result("a"), user("blue")],
        [answer("a", "b"), result("a")],
        [answer("a")],
        [answer()],
        [answer(stop="error")],
        [answer("a", stop="aborted"), result("a")],
        [answer("a"), COMPACTION],
        [answer(stop="error"), COMPACTION],
    ],
    ids=[
        "a whole batch", "a steer", "half a batch", "no result", "the last word", "a failure", "stopped",
        "a summary before the result", "a summary for a failure",
    ],
)  # fmt: skip
def test_pi_asks_again_for_the_last_answer(last: list[dict[str, Any]]) -> None:
    lines = file(user("go"), answer("x"), result("x"), *last)
    assert kept(lines, steers=1) == 5


def test_a_turn_without_an_answer_stays_as_it_is() -> None:
    assert kept(file(user("go"))) == 3
    assert kept(file(user("go"), user("blue"), user("red")), steers=1) == 4


def test_what_was_summed_up_stays_so() -> None:
    lines = file(user("go"), answer("a"), result("a"), COMPACTION, user("blue"), user("no, red"))
    assert kept(lines, steers=0) == 6
    assert kept(lines, steers=1) == 7
    assert kept(lines, steers=2) == 8


def test_what_of_a_turn_is_there_is_counted_without_the_turns_before() -> None:
    entries = session.parse(
        file(user("old"), answer(), user("go"), answer("a"), result("a"), user("blue"), before=2)
    )
    begins = session.turn_begins(entries, "in-1")
    assert begins is not None
    assert session.found(entries, begins) == session.Turn(begun=True, answers=1, steers=1)
    assert session.turn_begins(entries, "in-2") is None


def test_an_answer_that_failed_is_none() -> None:
    entries = session.parse(file(user("go"), answer(stop="error"), answer("a"), result("a")))
    assert session.found(entries, 1).answers == 1


def test_steers_of_a_cut_turn_that_no_request_carried_leave_its_history() -> None:
    entries = session.parse(file(user("go"), answer("a"), result("a"), user("blue")))
    assert session.unsaid(entries, 1, 0) == 5
    assert session.unsaid(entries, 1, 1) == 6


def test_calls_without_a_result_are_those_of_the_last_answer() -> None:
    entries = session.parse(file(user("go"), answer("a"), result("a"), answer("b", "c"), result("b")))
    assert session.dangling(entries) == [session.Dangling("c", "bash")]


def test_a_new_entry_stands_behind_the_last() -> None:
    entries = session.parse(file(user("go"), answer("a")))
    told = as_told(ToolResult("in_doubt", "It may have happened."))
    entry = msgspec.json.decode(session.say_result(entries, session.Dangling("a", "bash"), told, PEN))
    assert (entry["parentId"], entry["id"], entry["timestamp"]) == ("m1", "p1", "2025-11-24T16:00:00.123Z")
    assert entry["message"]["isError"] is True
    assert entry["message"]["content"] == [{"type": "text", "text": "It may have happened."}]


def test_the_first_entry_of_a_file_has_no_parent() -> None:
    entries = session.parse([session.header("/w", PEN)])
    assert msgspec.json.decode(session.begin_turn(entries, "in-1", PEN))["parentId"] is None


def test_what_made_pi_go_on_leaves_the_file_and_its_children_their_grandparent() -> None:
    told = {"type": "custom_message", "customType": session.CONTINUE, "content": ""}
    lines = [
        *file(user("go")),
        line("c1", "m0", **told),
        line("c2", "c1", **told),
        line("after", "c2", type="message", message=answer("a")),
        line("last", "after", type="message", message=result("a")),
    ]
    first, rest = session.without_continues(lines)
    assert first == 3
    assert [(one["id"], one["parentId"]) for one in session.parse(rest)] == [
        ("after", "m0"),
        ("last", "after"),
    ]
    assert session.without_continues(file(user("go"))) == (3, ())


def test_a_torn_end_is_left_out() -> None:
    assert len(session.parse([*file(user("go")), '{"type":"mess'])) == 3


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "one"}],
        [{"type": "text", "text": "one"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}],
        [],
    ],
    ids=["text", "image", "nothing"],
)
def test_a_result_is_given_back_as_it_was(content: list[dict[str, Any]]) -> None:
    for failed in (False, True):
        kept_result = result_of(content, is_error=failed)
        assert as_told(kept_result) == {"content": content, "isError": failed}


def test_a_result_of_another_shape_is_told_as_text() -> None:
    assert content_of(ToolResult("ok", {"a": 1})) == [{"type": "text", "text": '{"a":1}'}]


def test_the_file_names_the_directory_of_this_machine_and_is_otherwise_as_it_was() -> None:
    lines = [session.header("/there", PEN), line("a", None, type="message")]
    first, *rest = session.placed(lines, "/here")
    assert msgspec.json.decode(first) == {**msgspec.json.decode(lines[0]), "cwd": "/here"}
    assert rest == lines[1:]
    assert session.placed(lines, "/there") == lines
    assert session.placed([], "/here") == []
