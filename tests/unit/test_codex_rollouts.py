"""Rollouts of Codex: brought up to what the log knows, whatever state a kill left them in."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.codex import repair as repairs
from outlast.adapters.codex.places import input_id, rollout_path, stamp, thread_id
from outlast.adapters.codex.repair import Answer, Known, Repair, Steer, Unanswered
from outlast.adapters.codex.rollout import Rollout, as_line, dangling, item_of, parse

AT = "2026-11-30T10:00:00.000Z"
PROMPT = "prompt-1"


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": fields}


def says(text: str, role: str = "assistant") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def call(call_id: str, name: str = "exec_command") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": "{}",
    }


def output(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "id": f"fco_{call_id}", "call_id": call_id, "output": text}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, **fields}}


def told(said: str) -> dict[str, Any]:
    return event("item_completed", item={"type": "UserMessage", "client_id": said})


def rollout(*records: dict[str, Any]) -> list[str]:
    return [as_line({"timestamp": AT, "ordinal": at, **record}) for at, record in enumerate(records)]


BEGUN = (
    {"type": "session_meta", "payload": {"id": "t"}},
    event("task_started"),
    item(**says("<environment_context>here</environment_context>", "user")),
    item(**says("go", "user")),
    told(PROMPT),
)


def repair(lines: Sequence[str], known: Known, *, at: str) -> Repair:
    return repairs.repair(parse(lines), known, at=at)


def closed(lines: Sequence[str], outputs: dict[str, object], *, otherwise: str, at: str) -> Repair:
    return repairs.closed(parse(lines), outputs, otherwise=otherwise, at=at)


def after(lines: Sequence[str], done: Repair) -> list[dict[str, Any]]:
    """The conversation behind the prompt, once repaired."""
    whole = [*lines[: done.keep], *done.lines]
    assert [msgspec.json.decode(line)["ordinal"] for line in whole] == list(range(len(whole)))
    return [found for record in parse(whole)[len(BEGUN) :] if (found := item_of(record))]


def known(*answers: Answer, outputs: dict[str, object] | None = None, **more: Any) -> Known:
    return Known(PROMPT, answers, outputs or {}, **more)


ASKS = Answer([says("I look."), call("a"), call("b")])
ENDS = Answer([says("Done.")])


@pytest.mark.parametrize("keep", [0, 3, len(BEGUN)])
@pytest.mark.parametrize("added", [[], rollout(item(**says("Done.")))])
@pytest.mark.parametrize("torn", [[], ['{"type":']])
def test_a_rollout_that_was_changed_is_what_would_be_read_anew(
    keep: int, added: list[str], torn: list[str]
) -> None:
    lines = [*rollout(*BEGUN), *torn]
    assert Rollout.read(lines).changed(keep, added) == Rollout.read([*lines[:keep], *added])


def test_an_answer_that_the_rollout_lacks_is_written_with_what_its_calls_gave() -> None:
    lines = rollout(*BEGUN)
    done = repair(lines, known(ASKS, outputs={"a": "one", "b": "two"}), at=AT)
    assert done.keep == len(BEGUN)
    found = after(lines, done)
    assert found[:3] == list(ASKS.items)
    assert [(one["call_id"], one["output"]) for one in found[3:]] == [("a", "one"), ("b", "two")]


def test_what_stands_there_already_keeps_its_place() -> None:
    lines = rollout(
        *BEGUN, *(item(**one) for one in ASKS.items), item(**output("b", "two")), event("token_count")
    )
    done = repair(lines, known(ASKS, outputs={"a": "one", "b": "two"}), at=AT)
    assert done.keep == len(lines)
    assert [item_of(record)["call_id"] for record in parse(done.lines)] == ["a"]


def test_a_whole_rollout_is_left_as_it_is() -> None:
    there = [*(item(**one) for one in ASKS.items), item(**output("a", "one")), item(**output("b", "two"))]
    lines = rollout(*BEGUN, *there, event("task_complete"))
    assert repair(lines, known(ASKS, outputs={"a": "one", "b": "two"}), at=AT) == Repair(len(lines), [])


def test_what_an_answer_that_came_to_nothing_left_behind_is_cut_off() -> None:
    lines = rollout(*BEGUN, item(**says("Half an")), event("task_complete"))
    done = repair(lines, known(ENDS), at=AT)
    assert done.keep == len(BEGUN)
    assert after(lines, done) == list(ENDS.items)


def test_an_output_that_the_log_knows_otherwise_is_written_anew() -> None:
    there = [
        *(item(**one) for one in ASKS.items),
        item(**output("a", "Command blocked by hook")),
        item(**output("b", "two")),
    ]
    lines = rollout(*BEGUN, *there)
    done = repair(lines, known(ASKS, outputs={"a": "one", "b": "two"}), at=AT)
    outputs = {one["call_id"]: one["output"] for one in after(lines, done)[3:]}
    assert outputs == {"a": "one", "b": "two"}


def test_an_answer_that_is_to_come_again_is_cut_off_with_all_that_followed() -> None:
    first = Answer([call("z")])
    there = [
        item(**call("z")),
        item(**output("z", "zero")),
        *(item(**one) for one in ASKS.items),
        item(**output("b", "two")),
    ]
    lines = rollout(*BEGUN, *there)
    done = repair(lines, known(first, ASKS, outputs={"z": "zero", "b": "two"}, again=True), at=AT)
    assert done == Repair(len(BEGUN) + 2, [])


def test_a_call_without_an_output_that_does_not_come_again_is_no_rollout() -> None:
    with pytest.raises(Unanswered):
        repair(rollout(*BEGUN), known(ASKS, outputs={"a": "one"}), at=AT)


def test_a_steer_stands_before_the_answer_whose_request_carried_it() -> None:
    steered = Answer(ENDS.items, [Steer("Hurry.", "s")])
    first = Answer([call("a")])
    lines = rollout(*BEGUN, item(**call("a")), item(**output("a", "one")))
    done = repair(lines, known(first, steered, outputs={"a": "one"}), at=AT)
    assert [one["role"] for one in after(lines, done)[2:]] == ["user", "assistant"]
    assert after(lines, done)[2]["content"][0]["text"] == "Hurry."


def test_a_steer_that_no_request_carried_is_cut_off() -> None:
    lines = rollout(
        *BEGUN, item(**call("a")), item(**output("a", "one")), item(**says("Hurry.", "user")), told("s")
    )
    done = repair(lines, known(Answer([call("a")]), outputs={"a": "one"}), at=AT)
    assert done.keep == len(lines) - 2


def test_what_codex_itself_says_of_its_place_stays() -> None:
    aside = item(**says("<environment_context>tomorrow</environment_context>", "user"))
    lines = rollout(*BEGUN, event("task_started"), aside, item(**ENDS.items[0]))
    assert repair(lines, known(ENDS), at=AT).keep == len(lines)


def test_a_note_that_the_turn_was_stopped_is_cut_off() -> None:
    note = item(**says("<turn_aborted>by the user</turn_aborted>", "user"))
    lines = rollout(*BEGUN, item(**call("a")), item(**output("a", "one")), event("turn_aborted"), note)
    assert repair(lines, known(Answer([call("a")]), outputs={"a": "one"}), at=AT).keep == len(lines) - 2


def test_a_turn_that_was_cut_short_gets_an_output_for_each_call() -> None:
    lines = rollout(*BEGUN, *(item(**one) for one in ASKS.items), item(**output("a", "one")))
    done = closed(lines, {"a": "one"}, otherwise="lost", at=AT)
    assert dangling(parse([*lines, *done.lines])) == []
    assert item_of(parse(done.lines)[0])["output"] == "lost"


def test_a_turn_that_was_begun_without_its_prompt_is_cut_off() -> None:
    whole = (*BEGUN, item(**ENDS.items[0]), event("task_complete"))
    begun = (event("task_started"), item(**says("<environment_context>x</environment_context>", "user")))
    lines = rollout(*whole, *begun, item(**says("next", "user")))
    assert closed(lines, {}, otherwise="lost", at=AT).keep == len(whole)


def test_what_the_newest_answer_used_stands_behind_it_once() -> None:
    used = Answer([says("Long.")], usage={"input_tokens": 900, "output_tokens": 5})
    lines = rollout(*BEGUN)
    done = repair(lines, known(used), at=AT)
    (count,) = [record["payload"] for record in parse(done.lines) if record["type"] == "event_msg"]
    assert count["info"]["last_token_usage"]["total_tokens"] == 905
    assert repair([*lines, *done.lines], known(used), at=AT).lines == []


def test_a_custom_call_is_answered_as_one() -> None:
    patch = {"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "x"}
    lines = rollout(*BEGUN, item(**patch))
    done = repair(lines, known(Answer([patch]), outputs={"p": "ok"}), at=AT)
    assert item_of(parse(done.lines)[0])["type"] == "custom_tool_call_output"


def test_what_came_before_a_compaction_is_not_written_again() -> None:
    compacted: dict[str, Any] = {"type": "compacted", "payload": {"message": "", "replacement_history": []}}
    lines = rollout(*BEGUN, *(item(**one) for one in ASKS.items), compacted)
    done = repair(lines, known(ENDS), at=AT)
    assert done.keep == len(lines)
    assert [item_of(record) for record in parse(done.lines)] == list(ENDS.items)


@given(cut=st.integers(0, 30), torn=st.booleans())
def test_wherever_a_rollout_is_cut_it_is_brought_to_the_same_conversation(cut: int, torn: bool) -> None:  # noqa: FBT001
    outputs: dict[str, object] = {"a": "one", "b": "two", "c": "three"}
    answers = (ASKS, Answer([call("c")], [Steer("Hurry.", "s")]), ENDS)
    whole = rollout(
        *BEGUN,
        *(item(**one) for one in ASKS.items),
        event("token_count"),
        item(**output("b", "two")),
        item(**output("a", "one")),
        item(**says("Hurry.", "user")),
        told("s"),
        item(**call("c")),
        item(**output("c", "three")),
        item(**ENDS.items[0]),
        event("task_complete"),
    )
    lines = whole[: max(cut, len(BEGUN))]
    if torn and len(lines) > len(BEGUN):
        lines = [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]
    done = repair(lines, known(*answers, outputs=outputs), at=AT)
    found = after(lines, done)
    assert [one for one in found if one["type"] == "message"] == [
        ASKS.items[0],
        says("Hurry.", "user"),
        *ENDS.items,
    ]
    assert {one["call_id"]: one["output"] for one in found if "output" in one} == outputs
    assert repair([*lines[: done.keep], *done.lines], known(*answers, outputs=outputs), at=AT).lines == []


def test_a_session_has_the_same_names_on_every_machine() -> None:
    thread = thread_id("default", "s")
    assert thread == thread_id("default", "s") != thread_id("other", "s")
    assert input_id(thread, "i") != input_id(thread, "j")
    assert stamp(0.25) == "1970-01-01T00:00:00.250Z"
    assert (
        rollout_path("t", 86400.0)
        == ".outlast-codex/t/sessions/1970/01/02/rollout-1970-01-02T00-00-00-t.jsonl"
    )
