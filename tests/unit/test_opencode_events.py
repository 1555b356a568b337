"""OpenCode's event log, as the mirror holds it, and how much of it the next process may build on."""

from typing import Any

import msgspec
import pytest

from outlast.adapter import ToolResult
from outlast.adapters.opencode.events import (
    Stored,
    aggregate_of,
    as_line,
    messages_of,
    path_of,
    read,
    replayed,
    session_of,
)
from outlast.adapters.opencode.repair import Asked, Kept, kept
from outlast.adapters.opencode.results import ended_part, failure_of, result_of

SESSION = "ses_1"
PROMPT = "msg_p1"


class Log:
    """Events, as OpenCode writes them."""

    def __init__(self) -> None:
        self.events: list[Stored] = []
        self.write("session.created.1", info={"id": SESSION})

    def write(self, kind: str, **data: Any) -> "Log":
        number = len(self.events)
        self.events.append(Stored(f"evt_{number}", number, kind, data))
        return self

    def said(self, message: str, text: str, kind: str = "text") -> "Log":
        self.write("message.updated.1", info={"id": message, "role": "user"})
        part = {"id": f"prt_{message}", "messageID": message, "type": kind, "text": text}
        return self.write("message.part.updated.1", part=part)

    def begins(self, message: str, **info: Any) -> "Log":
        return self.write("message.updated.1", info={"id": message, "role": "assistant", "time": {}, **info})

    def calls(self, message: str, call: str, status: str = "completed", **state: Any) -> "Log":
        part = {"id": f"prt_{call}", "messageID": message, "type": "tool", "callID": call}
        return self.write("message.part.updated.1", part={**part, "state": {"status": status, **state}})

    def says(self, message: str, text: str) -> "Log":
        part = {"id": f"prt_t{message}", "messageID": message, "type": "text", "text": text}
        return self.write("message.part.updated.1", part=part)

    def ends(self, message: str, finish: str = "tool-calls", **info: Any) -> "Log":
        info = {"id": message, "role": "assistant", "time": {"completed": 1}, "finish": finish, **info}
        return self.write("message.updated.1", info=info)

    def kept(self, *asked: Asked, prompt: str = PROMPT) -> Kept:
        return kept(self.events, prompt, asked)


def begun() -> Log:
    """A turn whose first answer has been carried out."""
    log = Log().said(PROMPT, "Do it.")
    return log.begins("msg_a1").says("msg_a1", "I look.").calls("msg_a1", "c1").ends("msg_a1")


FIRST = Asked(2, {"c1": "ok"})


def test_lines_give_back_the_events_and_stop_at_a_gap() -> None:
    events = begun().events
    lines = [
        as_line({"id": one.id, "seq": one.seq, "type": one.type, "data": one.data, "aggregate_id": SESSION})
        for one in events
    ]
    assert read(lines) == events
    assert read([*lines[:3], *lines[4:]]) == events[:3]
    assert replayed(SESSION, events, "/w")[1]["aggregateID"] == SESSION
    assert session_of(events)["id"] == SESSION
    assert not session_of(events[1:])


def test_a_file_of_the_mirror_is_known_by_its_name() -> None:
    assert aggregate_of(path_of(SESSION)) == SESSION
    assert aggregate_of("opencode/notes.txt") is None
    assert aggregate_of(".claude/projects/x.jsonl") is None


def test_messages_are_what_the_newest_events_say() -> None:
    log = begun().write("message.removed.1", sessionID=SESSION, messageID="msg_a1")
    assert [one.id for one in messages_of(log.events)] == [PROMPT]
    log = begun().write("message.part.removed.1", messageID="msg_a1", partID="prt_c1")
    assert [len(one.tools) for one in messages_of(log.events)] == [0, 0]
    again = begun().said(PROMPT, "Do it.")
    assert [(one.id, one.first) for one in messages_of(again.events)] == [(PROMPT, 1), ("msg_a1", 3)]


def test_a_whole_answer_stays_and_its_call_is_delivered() -> None:
    found = begun().kept(FIRST)
    assert (len(found.events), found.begun, list(found.answered)) == (7, True, [2])
    assert found.asked is not None
    assert found.asked.id == PROMPT
    assert found.over is None


def test_an_answer_that_is_not_whole_goes_with_all_behind_it() -> None:
    log = begun().begins("msg_a2").says("msg_a2", "Half of").said("msg_s", "By the way")
    found = log.kept(FIRST, Asked(5, {}))
    assert [one.id for one in found.messages] == [PROMPT, "msg_a1"]
    assert list(found.answered) == [2]


@pytest.mark.parametrize(
    "state",
    [{"status": "running"}, {"status": "pending"}, {"status": "error", "metadata": {"interrupted": True}}],
)
def test_an_answer_with_a_call_that_has_not_ended_goes(state: dict[str, Any]) -> None:
    log = Log().said(PROMPT, "Do it.").begins("msg_a1").calls("msg_a1", "c0").calls("msg_a1", "c1", **state)
    found = log.ends("msg_a1").kept(Asked(2, {"c0": "ok", "c1": "ok"}))
    assert [one.id for one in found.messages] == [PROMPT]
    assert found.begun
    assert not found.answered


def test_an_answer_that_failed_goes() -> None:
    log = begun().begins("msg_a2").ends("msg_a2", "error", error={"name": "APIError"})
    assert len(log.kept(FIRST).events) == len(begun().events)


def test_an_answer_that_the_log_does_not_know_goes() -> None:
    assert len(begun().kept().events) == 3
    assert len(begun().kept(Asked(2, {"another": "ok"})).events) == 3


def test_an_answer_whose_call_ended_otherwise_in_the_log_goes() -> None:
    log = Log().said(PROMPT, "Do it.").begins("msg_a1").calls("msg_a1", "c1", "error", error="Given up.")
    log.ends("msg_a1")
    assert len(log.kept(Asked(2, {"c1": "ok"})).events) == 3
    assert len(log.kept(Asked(2, {"c1": ""})).events) == 3
    assert len(log.kept(Asked(2, {"c1": "in_doubt"})).events) == 6


def test_an_answer_whose_result_was_put_right_behind_the_next_one_goes_with_it() -> None:
    log = Log().said(PROMPT, "Do it.").begins("msg_a1").calls("msg_a1", "c1", "error", error="Not again.")
    log.ends("msg_a1").begins("msg_a2").calls("msg_a1", "c1")
    assert len(log.kept(FIRST, Asked(5, {})).events) == 3, "what is left of the first one says that it failed"
    whole = log.ends("msg_a2").begins("msg_a3").kept(FIRST, Asked(5, {}))
    assert [one.id for one in whole.messages] == [PROMPT, "msg_a1", "msg_a2"]
    assert list(whole.answered) == [2, 5]


def test_a_steer_between_two_answers_stays_and_is_what_is_said_again() -> None:
    log = begun().said("msg_s", "Blue.").begins("msg_a2").says("msg_a2", "Half")
    found = log.kept(FIRST, Asked(5, {}))
    assert found.asked is not None
    assert found.asked.id == "msg_s"


def test_the_last_answer_is_the_end_of_the_turn() -> None:
    log = begun().begins("msg_a2").says("msg_a2", "It is ").says("msg_a3", "").ends("msg_a2", "stop")
    log.write("message.removed.1", messageID="msg_a3")
    assert log.kept(FIRST, Asked(5, {})).over == "It is "
    assert begun().begins("msg_a2").kept(FIRST, Asked(5, {})).over is None


def test_a_summary_is_no_answer_of_the_conversation_and_one_that_is_not_whole_is_made_again() -> None:
    log = begun().said("msg_c", "", "compaction").begins("msg_y", summary=True)
    assert [one.id for one in log.kept(FIRST).messages] == [PROMPT, "msg_a1"]
    log.says("msg_y", "So far.").ends("msg_y", "stop", summary=True)
    found = log.said("msg_g", "Go on.").kept(FIRST)
    assert (found.summaries, list(found.answered)) == (1, [2])
    assert found.over is None


def test_a_turn_that_was_cut_short_leaves_no_answer_without_calls_and_tells_which_calls_dangle() -> None:
    log = begun().begins("msg_a2").says("msg_a2", "Half")
    assert [one.id for one in log.kept(prompt="msg_p2").messages] == [PROMPT, "msg_a1"]
    log = begun().begins("msg_a2").calls("msg_a2", "c2", "running", input={"command": "x"})
    found = log.kept(prompt="msg_p2")
    assert [one.id for one in found.messages] == [PROMPT, "msg_a1", "msg_a2"]
    assert [part["callID"] for part in found.dangling] == ["c2"]
    assert not found.begun


def test_nothing_is_kept_of_nothing() -> None:
    assert kept([], PROMPT, []).messages == []


def test_a_part_that_is_given_its_end_keeps_what_was_asked() -> None:
    part = {"id": "p", "callID": "c", "state": {"status": "running", "input": {"a": 1}, "time": {"start": 5}}}
    done = ended_part(part, "ok", [{"type": "text", "text": "one"}, {"type": "image"}], 9)
    assert done["state"] == {
        "status": "completed",
        "input": {"a": 1},
        "output": "one",
        "title": "",
        "metadata": {},
        "time": {"start": 5, "end": 9},
    }
    lost = ended_part({"id": "p"}, "in_doubt", "It may have run.", 9)
    assert lost["state"] == {
        "status": "error",
        "input": {},
        "error": "It may have run.",
        "time": {"start": 9, "end": 9},
    }
    assert msgspec.json.encode(done)


def test_a_result_is_its_text_or_text_and_images() -> None:
    assert result_of({"output": "a.txt"}) == "a.txt"
    assert result_of({}) == ""
    image = {"mime": "image/png", "url": "data:image/png;base64,AAAA"}
    other = {"mime": "application/pdf", "url": "file:///x.pdf"}
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    told = [{"type": "text", "text": "Red."}, {"type": "image", "source": source}]
    assert result_of({"output": "Red.", "attachments": [image, other]}) == told


def test_a_call_that_was_refused_has_failed_and_one_that_was_given_up_has_not() -> None:
    refused = {"type": "tool", "state": {"status": "error", "error": "A rule prevents it."}}
    assert failure_of(refused) == ToolResult("error", "A rule prevents it.")
    given_up = {"status": "error", "error": "Aborted", "metadata": {"interrupted": True}}
    assert failure_of({"type": "tool", "state": given_up}) is None
    assert failure_of({"type": "tool", "state": {"status": "completed", "output": "a"}}) is None
    assert failure_of({"type": "text", "text": "a"}) is None


def test_a_session_that_goes_on_elsewhere_is_brought_back_there() -> None:
    created = Stored("e1", 0, "session.created.1", {"info": {"id": SESSION, "directory": "/old"}})
    said = Stored("e2", 1, "message.updated.1", {"info": {"directory": "/old"}})
    told = replayed(SESSION, [created, said], "/new")
    assert [one["data"]["info"]["directory"] for one in told] == ["/new", "/old"]
    assert created.data["info"]["directory"] == "/old"
