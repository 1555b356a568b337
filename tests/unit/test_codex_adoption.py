"""What of a conversation that Codex had by itself can be adopted, and what is refused."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outlast.adapters.codex.adoption import adopt
from outlast.adapters.codex.places import rollout_path
from outlast.adopting import Adopted
from outlast.errors import BadInput

THREAD = "01a22b84-c103-7332-9947-2d866763f530"
FORK = "01a22b8a-220c-7d01-82c5-28b0c0f95bf9"
BEGAN_S = 1796026450.5
NOBODY: Mapping[str, str] = {}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "payload": payload}


def told(text: str) -> dict[str, Any]:
    item = {"type": "UserMessage", "content": [{"type": "text", "text": text}]}
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def called(call_id: str, command: str = "make") -> dict[str, Any]:
    arguments = json.dumps({"cmd": command})
    payload = {"type": "function_call", "call_id": call_id, "name": "exec_command", "arguments": arguments}
    return {"type": "response_item", "payload": payload}


def gave(call_id: str) -> dict[str, Any]:
    payload = {"type": "function_call_output", "call_id": call_id, "output": "made"}
    return {"type": "response_item", "payload": payload}


class Desk:
    """A user's directory, and a rollout of what Codex did in it."""

    def __init__(self, place: Path) -> None:
        self.shop = place / "shop"
        self.shop.mkdir()
        self.codex = place / ".codex"
        self.day = self.codex / "sessions" / "2026" / "11" / "30"
        self.day.mkdir(parents=True)
        self.path = self.day / f"rollout-2026-11-30T08-14-10-{THREAD}.jsonl"
        self.about: dict[str, Any] = {
            "id": THREAD,
            "timestamp": "2026-11-30T08:14:10.500Z",
            "cwd": str(self.shop),
            "source": "cli",
            "base_instructions": {"text": "You are Codex."},
            "history_mode": "paginated",
        }
        self.records: list[dict[str, Any]] = [
            {"type": "event_msg", "payload": {"type": "thread_settings_applied", "model_provider_id": "own"}},
            said("user", "Build it."),
            told("Build it."),
            said("assistant", "I build."),
            called("c1"),
        ]

    def write(self, tail: str = "", path: Path | None = None) -> None:
        records = [{"type": "session_meta", "payload": self.about}, *self.records]
        lines = [json.dumps({"ordinal": at, **record}) for at, record in enumerate(records)]
        (path or self.path).write_text("".join(f"{line}\n" for line in lines) + tail)

    def adopted(self, tail: str = "") -> Adopted:
        self.write(tail)
        return adopt(self.path, NOBODY)

    def refusal(self, tail: str = "") -> str:
        with pytest.raises(BadInput) as caught:
            self.adopted(tail)
        return str(caught.value)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def records_of(adopted: Adopted) -> list[dict[str, Any]]:
    ((path, lines),) = adopted.files.items()
    assert path == rollout_path(adopted.name, BEGAN_S)
    records = [json.loads(line) for line in lines]
    assert [record["ordinal"] for record in records] == list(range(len(records)))
    return records


def test_a_conversation_keeps_its_name_its_place_and_its_words(desk: Desk) -> None:
    adopted = desk.adopted()
    assert (adopted.name, adopted.prompt, adopted.cwd) == (THREAD, "Build it.", str(desk.shop))
    assert adopted.settings == {"session": THREAD, "founded_s": BEGAN_S}
    assert adopted.unanswered == ["exec_command"]
    assert adopted.notes == []
    records = records_of(adopted)
    assert records[0]["payload"]["base_instructions"] == {"text": "You are Codex."}
    assert [record["payload"].get("type") for record in records[1:]] == [
        "message",
        "item_completed",
        "message",
        "function_call",
    ], "what the user had set does not come along"


def test_an_open_call_of_an_earlier_turn_is_history(desk: Desk) -> None:
    desk.records += [said("user", "On."), told("On."), called("c2"), gave("c2"), called("c3"), called("c4")]
    assert desk.adopted().unanswered == ["exec_command", "exec_command"]


def test_a_prompt_without_an_answer_is_kept_and_said(desk: Desk) -> None:
    desk.records += [said("user", "On."), told("On.")]
    adopted = desk.adopted()
    assert adopted.unanswered == []
    assert "its last prompt has no answer" in adopted.notes[0]
    assert len(records_of(adopted)) == 7


def test_a_rollout_of_an_older_version_is_numbered(desk: Desk) -> None:
    del desk.about["history_mode"]
    desk.records[2] = {"type": "event_msg", "payload": {"type": "user_message", "message": "Build it."}}
    desk.write()
    lines = [json.loads(line) for line in desk.path.read_text().splitlines()]
    desk.path.write_text("".join(f"{json.dumps({**line, 'ordinal': None})}\n" for line in lines))
    adopted = adopt(desk.path, NOBODY)
    assert adopted.prompt == "Build it."
    assert len(records_of(adopted)) == 5


def test_a_session_works_where_its_newest_turn_did(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    desk.records.append({"type": "turn_context", "payload": {"cwd": str(other)}})
    assert desk.adopted().cwd == str(other)


def test_a_fork_comes_with_what_it_was_forked_from(desk: Desk) -> None:
    desk.records += [gave("c1"), said("assistant", "Built.")]
    desk.write()
    desk.about |= {
        "id": FORK,
        "forked_from_id": THREAD,
        "history_base": {"thread_id": THREAD, "end_ordinal_exclusive": 7},
    }
    desk.records = [said("user", "Not so."), told("Not so.")]
    desk.path = desk.day / f"rollout-2026-11-30T09-00-00-{FORK}.jsonl"
    adopted = desk.adopted()
    records = records_of(adopted)
    texts = [part["text"] for record in records for part in record["payload"].get("content", ())]
    assert texts == ["Build it.", "I build.", "Not so."], "what came after it was forked is not its own"
    assert (adopted.name, adopted.prompt) == (FORK, "Build it.")
    assert "history_base" not in records[0]["payload"]


@pytest.mark.parametrize("base", [FORK, THREAD, "../../etc"])
def test_a_fork_of_what_is_not_here_or_of_itself_is_refused(desk: Desk, base: str) -> None:
    desk.about["history_base"] = {"thread_id": base, "end_ordinal_exclusive": 7}
    assert f"goes on from the session {base}, which is not here" in desk.refusal()


def test_a_torn_last_line_is_left_out_and_said(desk: Desk) -> None:
    adopted = desk.adopted('{"type":"respon')
    assert len(records_of(adopted)) == 5
    assert "cut off in the middle" in adopted.notes[0]


def test_damage_in_the_middle_is_refused_with_its_line(desk: Desk) -> None:
    assert "damaged in line 7 of 8" in desk.refusal('{"type":"us\n{"type":"event_msg"}\n')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "[]\n",
        '{"type":"user","sessionId":"x"}\n',
        '{"type":"session_meta","payload":{"id":"x"}}\n',
        f'{{"type":"session_meta","payload":{{"id":"{THREAD}"}}}}\n',
        f'{{"type":"session_meta","payload":{{"id":"{THREAD}","timestamp":"2026-11-30T08:14:10Z"}}}}\n',
    ],
)
def test_what_is_no_rollout_is_refused(desk: Desk, text: str) -> None:
    desk.path.write_text(text)
    with pytest.raises(BadInput, match="is no transcript of Codex"):
        adopt(desk.path, NOBODY)


def test_bytes_are_no_rollout_and_a_compressed_one_says_how_it_is_brought_back(desk: Desk) -> None:
    desk.path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="it is no text"):
        adopt(desk.path, NOBODY)
    packed = desk.path.rename(desk.path.with_suffix(".jsonl.zst"))
    with pytest.raises(BadInput, match="zstd -d"):
        adopt(packed, NOBODY)


def test_what_a_sub_agent_did_is_refused_and_names_its_session(desk: Desk) -> None:
    desk.about["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": FORK}}}
    assert f"rollout-…-{FORK}.jsonl" in desk.refusal()


def test_a_directory_that_is_gone_is_named(desk: Desk) -> None:
    desk.shop.rmdir()
    assert f"works in {desk.shop}, which is no directory of this machine" in desk.refusal()


def test_a_session_that_a_process_has_open_is_refused_and_one_that_is_read_is_not(desk: Desk) -> None:
    desk.write()
    own = rf"still has the session {THREAD} open \(process {os.getpid()}\)"
    with desk.path.open("a"), pytest.raises(BadInput, match=own):
        adopt(desk.path, NOBODY)
    with desk.path.open():
        assert adopt(desk.path, NOBODY).name == THREAD


def test_a_session_whose_lock_is_held_is_refused_and_a_lock_that_was_left_behind_is_none(desk: Desk) -> None:
    lock = desk.codex / "thread-writer-locks" / f"{THREAD}.lock"
    lock.parent.mkdir()
    lock.touch()
    assert desk.adopted().name == THREAD
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "still has the session" in desk.refusal()
