"""Claude Code's transcript: read, rebuilt, brought up to what the log knows."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.claude_code.places import mirrored_path, slug, transcript_path
from outlast.adapters.claude_code.repair import Answer, Pen, Result, Steer, Unanswered, closed, repair
from outlast.adapters.claude_code.transcript import dangling, holds, is_over, materialised, message_ids, parse
from outlast.ids import stable_uuid

Record = dict[str, Any]
SESSION = "c3a9784e-d4f4-571a-8bf8-841d81a66159"


def pen(attempt: str = "1") -> Pen:
    return Pen(lambda name: stable_uuid(SESSION, attempt, name), "2026-01-02T03:04:05.000Z")


class Tape:
    """Writes a transcript as Claude Code does."""

    def __init__(self) -> None:
        self.records: list[Record] = [{"type": "queue-operation", "operation": "enqueue"}]
        self._below: str | None = None

    def add(self, uuid: str, kind: str, **content: Any) -> "Tape":
        record = {"parentUuid": self._below, "isSidechain": False, "type": kind, **content, "uuid": uuid}
        self.records.append(
            {**record, "cwd": "/w", "sessionId": SESSION, "version": "2.1.332", "gitBranch": "HEAD"}
        )
        self._below = uuid
        return self

    def prompt(self, text: str = "go", uuid: str = "u0") -> "Tape":
        return self.add(uuid, "user", message={"role": "user", "content": text})

    def block(self, uuid: str, message: str, block: Record, stop: str = "tool_use") -> "Tape":
        return self.add(uuid, "assistant", message={"id": message, "content": [block], "stop_reason": stop})

    def result(self, uuid: str, call: str, content: str) -> "Tape":
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        return self.add(uuid, "user", message={"role": "user", "content": [block]})

    @property
    def lines(self) -> list[str]:
        return [json.dumps(record) for record in self.records]


def use(call: str, name: str = "Bash") -> Record:
    return {"type": "tool_use", "id": call, "name": name, "input": {"command": f"run {call}"}}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


ONE = Answer("m1", "model", [text("first"), use("a")], "tool_use", {"input_tokens": 7})
TWO = Answer("m2", "model", [text("both"), use("b"), use("c", "Read")], "tool_use")
END = Answer("m3", "model", [text("done")], "end_turn")
RESULTS = {call: Result(f"result of {call}") for call in "abc"}


def applied(lines: Sequence[str], **known: Any) -> list[Record]:
    done = repair(lines, pen=pen(), **known)
    return parse([*lines[: done.keep], *done.lines])


def told(records: Sequence[Record]) -> list[tuple[str, str]]:
    """What the model would read of it, in order."""
    return [(record["type"], _gist(block)) for record in records for block in _blocks(record)]


def _blocks(record: Record) -> list[Record]:
    message: Record = record.get("message") or {}
    content: str | list[Record] = message.get("content") or ""
    return ([text(content)] if content else []) if isinstance(content, str) else content


def _gist(block: Record) -> str:
    return str(block.get("id") or block.get("tool_use_id") or block.get("text"))


FULL = [
    ("user", "go"),
    ("assistant", "first"),
    ("assistant", "a"),
    ("user", "a"),
    ("assistant", "both"),
    ("assistant", "b"),
    ("assistant", "c"),
    ("user", "b"),
    ("user", "c"),
]


def whole() -> Tape:
    tape = Tape().prompt()
    tape.block("u1", "m1", text("first")).block("u2", "m1", use("a")).result("u3", "a", "result of a")
    tape.block("u4", "m2", text("both")).block("u5", "m2", use("b")).block("u6", "m2", use("c", "Read"))
    return tape.result("u7", "b", "result of b").result("u8", "c", "result of c")


@pytest.mark.parametrize("there", range(2, 11))
def test_a_transcript_cut_anywhere_is_brought_up_to_the_log(there: int) -> None:
    records = applied(whole().lines[:there], answers=[ONE, TWO], results=RESULTS)
    assert told(records) == FULL
    assert dangling(records) == []


@pytest.mark.parametrize("there", range(2, 11))
def test_a_repaired_transcript_needs_no_repair(there: int) -> None:
    lines = whole().lines[:there]
    first = repair(lines, pen=pen(), answers=[ONE, TWO], results=RESULTS)
    again = repair([*lines[: first.keep], *first.lines], pen=pen("2"), answers=[ONE, TWO], results=RESULTS)
    assert again.lines == []


def test_the_same_repair_is_the_same_text() -> None:
    lines = whole().lines[:2]
    known: dict[str, Any] = {"answers": [ONE, TWO], "results": RESULTS}
    assert repair(lines, pen=pen(), **known) == repair(lines, pen=pen(), **known)
    assert repair(lines, pen=pen("2"), **known).lines != repair(lines, pen=pen(), **known).lines


def test_every_new_record_hangs_below_another() -> None:
    records = applied(whole().lines[:2], answers=[ONE, TWO, END], results=RESULTS)
    known = [record["uuid"] for record in records if "uuid" in record]
    assert len(set(known)) == len(known)
    assert all(record["parentUuid"] in known for record in records[2:])


def test_new_records_carry_the_usage_of_the_answer_and_what_the_others_carry() -> None:
    record = applied(whole().lines[:2], answers=[ONE], results=RESULTS)[2]
    assert record["message"]["usage"] == {"input_tokens": 7}
    assert (record["cwd"], record["sessionId"], record["version"]) == ("/w", SESSION, "2.1.332")


def test_a_torn_last_line_is_dropped() -> None:
    lines = [*whole().lines[:4], '{"parentUuid":"u2","type":"us']
    done = repair(lines, pen=pen(), answers=[ONE], results=RESULTS)
    assert done.keep == 4
    assert told(parse([*lines[:4], *done.lines])) == FULL[:4]


def test_a_call_without_result_is_an_error_and_not_silence() -> None:
    with pytest.raises(Unanswered, match="b"):
        repair(whole().lines[:8], pen=pen(), answers=[ONE, TWO], results={"a": RESULTS["a"]})


def test_the_call_to_run_again_is_marked_after_all_results() -> None:
    results = {"a": RESULTS["a"], "c": RESULTS["c"]}
    records = applied(whole().lines[:2], answers=[ONE, TWO], results=results, rerun="b")
    attachment = records[-1]["attachment"]
    assert attachment["type"] == "hook_deferred_tool"
    assert (attachment["toolUseID"], attachment["toolInput"]) == ("b", {"command": "run b"})
    assert [one.id for one in dangling(records)] == ["b"]


def test_only_the_marker_of_this_start_is_left_on_disk() -> None:
    results = {"a": RESULTS["a"], "c": RESULTS["c"]}
    lines = whole().lines[:2]
    first = repair(lines, pen=pen(), answers=[ONE, TWO], results=results, rerun="b")
    marked = [*lines[: first.keep], *first.lines]
    assert materialised(marked) == marked
    again = repair(marked, pen=pen("2"), answers=[ONE, TWO], results=results, rerun="b")
    disk = materialised([*marked, *again.lines])
    assert [("hook_deferred_tool" in line) for line in disk] == [False] * (len(disk) - 1) + [True]
    settled = repair(marked, pen=pen("2"), answers=[ONE, TWO], results=RESULTS)
    disk = materialised([*marked, *settled.lines])
    assert not any("hook_deferred_tool" in line for line in disk)
    assert [record["uuid"] for record in parse(disk)[1:]] == [
        r["uuid"] for r in parse([*marked, *settled.lines])[1:]
    ]


def test_what_a_failed_request_left_is_cut_off() -> None:
    tape = whole()
    tape.add(
        "e", "assistant", isApiErrorMessage=True, message={"id": "x", "content": [text("API Error: 529")]}
    )
    lines = [*tape.lines, json.dumps({"type": "last-prompt", "leafUuid": "e"})]
    done = repair(lines, pen=pen(), answers=[ONE, TWO], results=RESULTS)
    assert done.keep == len(whole().lines)
    assert done.lines == []


@pytest.mark.parametrize("content", ["[[resumed]]", [text("[[resumed]]")]], ids=["text", "block"])
def test_a_resume_prompt_that_nothing_was_answered_to_is_cut_off(content: object) -> None:
    tape = whole()
    tape.add("r", "user", message={"role": "user", "content": content})
    lines = [*tape.lines, json.dumps({"type": "last-prompt", "leafUuid": "r"})]
    done = repair(lines, pen=pen(), answers=[ONE, TWO], results=RESULTS, sentinel="[[resumed]]")
    assert done.keep == len(whole().lines)
    assert done.lines == []


REMINDER = "<system-reminder>\nThe task tools haven't been used recently. Ignore this.\n</system-reminder>"


@pytest.mark.parametrize(
    ("reminder", "kind"),
    [(REMINDER, "attachment"), ("<system-reminder>\nBe kind.\n</system-reminder>", "user")],
)
def test_a_reminder_is_put_back_before_the_answer_that_followed_it(reminder: str, kind: str) -> None:
    end = Answer("m3", "model", [text("done")], "end_turn", reminders=[reminder])
    records = applied(whole().lines, answers=[ONE, TWO, end], results=RESULTS)
    assert [record["type"] for record in records[-2:]] == [kind, "assistant"]
    known = [*whole().lines, json.dumps({"type": "attachment", "attachment": {"type": "task_reminder"}})]
    records = applied(known, answers=[ONE, TWO, end], results=RESULTS)
    assert [record["type"] for record in records[-2:]] == ["attachment", "assistant"]
    assert len(records) == len(known) + 1


def test_an_answer_missing_between_others_has_the_rest_written_anew() -> None:
    tape = Tape().prompt()
    tape.block("u4", "m2", text("both")).block("u5", "m2", use("b"))
    records = applied(tape.lines, answers=[ONE, TWO], results=RESULTS)
    assert told(records) == FULL


def test_a_steer_stands_before_the_answer_whose_request_carried_it() -> None:
    steer = Steer("rather C", "s-1")
    two = Answer(TWO.id, TWO.model, TWO.content, TWO.stop_reason, steers=[steer])
    records = applied(whole().lines[:2], answers=[ONE, two], results=RESULTS)
    kinds = [record["type"] for record in records[2:]]
    assert kinds[:4] == ["assistant", "assistant", "user", "attachment"]
    assert holds(records, "s-1")
    again = repair(
        [json.dumps(record) for record in records], pen=pen("2"), answers=[ONE, two], results=RESULTS
    )
    assert again.lines == []


def test_a_steer_of_the_open_request_stands_last() -> None:
    records = applied(whole().lines[:2], answers=[ONE], results=RESULTS, steers=[Steer("rather C", "s-1")])
    assert records[-1]["attachment"]["prompt"] == "rather C"
    assert records[-1]["attachment"]["source_uuid"] == "s-1"


def test_calls_before_a_compaction_are_history() -> None:
    tape = Tape().prompt().block("u1", "m1", use("a"))
    tape.add("c", "system", subtype="compact_boundary").prompt("summary", "u9")
    assert dangling(parse(tape.lines)) == []


def test_an_answer_without_words_writes_none() -> None:
    empty = Answer("m9", "model", [text(""), use("a")], "tool_use")
    records = applied(whole().lines[:2], answers=[empty], results=RESULTS)
    assert told(records) == [("user", "go"), ("assistant", "a"), ("user", "a")]


@pytest.mark.parametrize("there", range(1, 11))
def test_a_turn_that_was_cut_short_can_be_followed_by_a_prompt(there: int) -> None:
    lines = whole().lines[:there]
    done = closed(lines, pen=pen(), results=RESULTS, sentinel="[[closed]]")
    records = parse([*lines[: done.keep], *done.lines])
    assert dangling(records) == []
    assert is_over(records)
    if there > 1:
        assert told(records)[-1] == ("assistant", "[[closed]]")


def test_a_turn_that_ended_is_not_closed_again() -> None:
    tape = whole().block("u9", "m3", text("done"), stop="end_turn")
    assert is_over(parse(tape.lines))
    assert closed(tape.lines, pen=pen(), results={}, sentinel="[[closed]]").lines == []


def test_messages_and_prompts_are_found() -> None:
    records = parse(whole().lines)
    assert message_ids(records) == {"m1", "m2"}
    assert holds(records, "u0")
    assert not holds(records, "u99")


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_lines_are_read_up_to_the_first_that_is_no_record(noise: list[str]) -> None:
    good = whole().lines
    records = parse([*good, *noise])
    assert len(records) >= len(good)


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/srv/a.b_C d", "-srv-a-b-C-d"),
        ("/srv/\u00fcn\u00ef", "-srv--n-"),
        ("/srv/UPPER@host+1", "-srv-UPPER-host-1"),
        ("/srv/\U0001f600", "-srv---"),
        ("/", "-"),
    ],
)
def test_the_directory_of_a_project_is_named_after_its_path(cwd: str, name: str) -> None:
    assert slug(cwd) == name


def test_the_name_of_a_long_path_is_cut_and_told_apart_by_a_hash() -> None:
    # Seen with Claude Code 2.1.332.
    cwd = "/tmp/cclab/x/slug/" + "x" * 120 + "/" + "y" * 120
    assert slug(cwd) == ("-tmp-cclab-x-slug-" + "x" * 120 + "-" + "y" * 120)[:200] + "-602tdh"


def test_the_transcript_lies_where_claude_code_looks_for_it() -> None:
    assert transcript_path("/w", SESSION) == f".claude/projects/-w/{SESSION}.jsonl"


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/home/u/.claude/projects/-w/s.jsonl", ".claude/projects/-w/s.jsonl"),
        ("/home/other/.claude/x.jsonl", None),
        ("/home/u/../other/x.jsonl", None),
        ("/home/u/.claude//x", None),
        ("relative", None),
    ],
)
def test_a_mirrored_file_must_lie_below_home(path: str, below: str | None) -> None:
    assert mirrored_path(path, "/home/u") == below
