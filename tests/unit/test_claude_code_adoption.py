"""What of a conversation that Claude Code had by itself can be adopted, and what is refused."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outlast.adapters.claude_code.adoption import adopt
from outlast.adapters.claude_code.places import slug, transcript_path
from outlast.adopting import Adopted
from outlast.errors import BadInput

SESSION = "c2455d0c-3e6c-461d-8a51-693a22ea4551"
NOBODY: Mapping[str, str] = {}


class Desk:
    """A user's directory, and a transcript of what Claude Code did in it."""

    def __init__(self, place: Path) -> None:
        self.shop = place / "shop"
        self.shop.mkdir()
        self.home = place / "home"
        self.config = place / "config"
        self.path = self.config / "projects" / slug(str(self.shop)) / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
        self.records: list[dict[str, Any]] = [
            {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION},
            self.said("user", "u1", "Build it."),
            {"type": "api-request-shape", "sessionId": SESSION, "shape": {}},
            self.said("assistant", "a1", [use], id="msg_1"),
        ]

    def said(self, role: str, uuid: str, content: object, **more: object) -> dict[str, Any]:
        message = {"role": role, "content": content, **more}
        return {
            "type": role,
            "uuid": uuid,
            "cwd": str(self.shop),
            "sessionId": SESSION,
            "message": message,
        }

    def write(self, tail: str = "") -> None:
        self.path.write_text("".join(f"{json.dumps(record)}\n" for record in self.records) + tail)

    def adopted(self, tail: str = "") -> Adopted:
        self.write(tail)
        return adopt(self.path, self.home, NOBODY)

    def refusal(self, tail: str = "") -> str:
        with pytest.raises(BadInput) as caught:
            self.adopted(tail)
        return str(caught.value)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_conversation_keeps_its_name_its_place_and_its_words(desk: Desk) -> None:
    adopted = desk.adopted()
    assert (adopted.name, adopted.prompt, adopted.cwd) == (SESSION, "Build it.", str(desk.shop))
    assert adopted.settings == {"session": SESSION}
    assert adopted.unanswered == ["Bash"]
    lines = adopted.files[transcript_path(str(desk.shop), SESSION)]
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["queue-operation", "user", "assistant"], "copies of requests are left out"


def test_what_lies_beside_the_transcript_comes_along(desk: Desk) -> None:
    beside = desk.path.with_suffix("")
    (beside / "subagents").mkdir(parents=True)
    (beside / "subagents" / "agent-1.jsonl").write_text('{"type":"user"}\n{"type":"assi')
    (beside / "tool-results").mkdir()
    (beside / "tool-results" / "b.txt").write_text("long\n")
    (beside / "tool-results" / "c.png").write_bytes(b"\x89PNG\xff")
    kept = f"Saved to: {beside}/tool-results/b.txt"
    desk.records.append(
        desk.said("user", "u2", [{"type": "tool_result", "tool_use_id": "t1", "content": kept}])
    )
    adopted = desk.adopted()
    place = transcript_path(str(desk.shop), SESSION).removesuffix(".jsonl")
    assert adopted.files[f"{place}/subagents/agent-1.jsonl"] == ['{"type":"user"}']
    assert adopted.files[f"{place}/tool-results/b.txt"] == ["long\n"]
    assert f"{place}/tool-results/c.png#base64" in adopted.files
    assert adopted.unanswered == []
    told = adopted.files[f"{place}.jsonl"][-1]
    assert f"{desk.home}/{place}/tool-results/b.txt" in told, "it is found where it will be"
    assert str(beside) not in told


def test_a_torn_last_line_is_left_out_and_said(desk: Desk) -> None:
    adopted = desk.adopted('{"type":"assis')
    assert len(adopted.files[transcript_path(str(desk.shop), SESSION)]) == 3
    assert "cut off in the middle" in adopted.notes[0]


def test_a_whole_last_line_without_its_end_is_kept(desk: Desk) -> None:
    adopted = desk.adopted(json.dumps(desk.said("user", "u2", "And test it.")))
    assert len(adopted.files[transcript_path(str(desk.shop), SESSION)]) == 4
    assert not adopted.notes


def test_damage_in_the_middle_is_refused_with_its_line(desk: Desk) -> None:
    assert "damaged in line 5 of 6" in desk.refusal('{"type":"us\n{"type":"user"}\n')


@pytest.mark.parametrize(
    "text", ["", "hello\n", "[]\n", '{"role":"user"}\n', '{"type":"user","sessionId":"x"}\n']
)
def test_what_is_no_transcript_is_refused(desk: Desk, text: str) -> None:
    desk.path.write_text(text)
    with pytest.raises(BadInput, match="is no transcript of Claude Code"):
        adopt(desk.path, desk.home, NOBODY)


def test_bytes_are_no_transcript(desk: Desk) -> None:
    desk.path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="it is no text"):
        adopt(desk.path, desk.home, NOBODY)


def test_what_a_sub_agent_did_is_refused_and_names_its_session(desk: Desk) -> None:
    desk.records = [{**record, "isSidechain": True} for record in desk.records]
    assert f"{SESSION}.jsonl" in desk.refusal()


def test_a_directory_that_is_gone_is_named(desk: Desk) -> None:
    desk.shop.rmdir()
    assert f"works in {desk.shop}, which is no directory of this machine" in desk.refusal()


def test_a_session_that_a_command_left_for_another_directory_works_where_it_began(desk: Desk) -> None:
    desk.records.insert(1, {**desk.said("user", "u0", "Hello."), "cwd": "/elsewhere"})
    assert desk.adopted().cwd == str(desk.shop)


def test_a_session_that_a_process_has_open_is_refused_and_one_whose_number_came_again_is_not(
    desk: Desk,
) -> None:
    sessions = desk.config / "sessions"
    sessions.mkdir()
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    said = {"pid": os.getpid(), "sessionId": SESSION, "procStart": began, "status": "busy"}
    (sessions / f"{os.getpid()}.json").write_text(json.dumps(said))
    assert f"process {os.getpid()}, busy" in desk.refusal()
    (sessions / f"{os.getpid()}.json").write_text(json.dumps({**said, "procStart": "1"}))
    assert desk.adopted().name == SESSION
    (sessions / f"{os.getpid()}.json").write_text("{")
    assert desk.adopted().name == SESSION
