"""What of a conversation that Pi had by itself can be adopted, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.adapters.pi.adoption import Asks, adopt
from outlast.adapters.pi.launch import session_path
from outlast.adopting import Adopted
from outlast.errors import BadInput

SESSION = "019c7f3e-1c1b-7d6e-9a55-0d1a2b3c4d5e"
NOBODY = Asks("anthropic-messages", "")
AS_PI = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'pi'); print(flush=True); sys.stdin.read()"
"""A process that calls itself as Pi does (PR_SET_NAME), and waits."""


class Desk:
    """A user's directory, and a file of what Pi did in it."""

    def __init__(self, place: Path) -> None:
        self.shop = place / "shop"
        self.shop.mkdir()
        self.path = place / f"2026-11-30T08-00-00-000Z_{SESSION}.jsonl"
        self.header: dict[str, Any] = {
            "type": "session", "version": 3, "id": SESSION, "timestamp": "2026-11-30T08:00:00.000Z",
            "cwd": str(self.shop),
        }  # fmt: skip
        self.entries: list[dict[str, Any]] = []
        self.say("u1", "user", "Build it.")
        self.answer("a1", call("t1", "bash", command="make"))

    def add(self, id: str, **said: Any) -> None:  # noqa: A002 - its name there
        """One more entry, below the one before it unless it says otherwise."""
        parent = self.entries[-1]["id"] if self.entries else None
        self.entries.append({"id": id, "parentId": parent, "timestamp": "2026-11-30T08:00:01.000Z", **said})

    def say(self, id: str, role: str, text: str, **more: Any) -> None:  # noqa: A002
        content = [{"type": "text", "text": text}]
        self.add(id, type="message", message={"role": role, "content": content}, **more)

    def answer(self, id: str, *blocks: dict[str, Any], **whom: str) -> None:  # noqa: A002
        asked = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5", **whom}
        self.add(id, type="message", message={"role": "assistant", "content": blocks, **asked})

    def adopted(self, tail: str = "", asks: Asks = NOBODY) -> Adopted:
        lines = [json.dumps(entry) for entry in (self.header, *self.entries)]
        self.path.write_text("".join(f"{line}\n" for line in lines) + tail)
        return adopt(self.path, asks)

    def refusal(self, tail: str = "") -> str:
        with pytest.raises(BadInput) as caught:
            self.adopted(tail)
        return str(caught.value)


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: A002
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_conversation_keeps_its_name_its_place_its_words_and_its_model(desk: Desk) -> None:
    adopted = desk.adopted()
    assert (adopted.name, adopted.prompt, adopted.cwd) == (SESSION, "Build it.", str(desk.shop))
    chosen = {"api": "anthropic-messages", "model": "claude-sonnet-4-5"}
    assert adopted.settings == {"session": SESSION, **chosen}
    assert (adopted.unanswered, adopted.notes) == (["bash"], [])
    assert "".join(f"{line}\n" for line in adopted.files[session_path(SESSION)]) == desk.path.read_text()


def test_a_model_that_is_chosen_stands_above_the_conversation_s(desk: Desk) -> None:
    assert desk.adopted(asks=Asks("openai-responses", "gpt-5")).settings == {"session": SESSION}


def test_whom_outlast_does_not_ask_is_said(desk: Desk) -> None:
    desk.answer(
        "a2", {"type": "text", "text": "Done."}, api="openai-completions", provider="local", model="q"
    )
    adopted = desk.adopted()
    assert adopted.settings == {"session": SESSION}
    assert "it asked q of local" in adopted.notes[0]


def test_a_branch_that_was_left_asks_for_nothing(desk: Desk) -> None:
    desk.say("u2", "user", "Test it.", parentId=None)
    adopted = desk.adopted()
    assert (adopted.prompt, adopted.unanswered) == ("Test it.", [])
    assert len(adopted.files[session_path(SESSION)]) == 4, "it can be gone back to"


def test_a_call_behind_which_something_was_said_is_open_no_more(desk: Desk) -> None:
    desk.say("u2", "user", "Never mind.")
    assert desk.adopted().unanswered == [], "Pi has told its model that there is no result"


def test_a_call_that_has_its_result_is_not_open(desk: Desk) -> None:
    result: dict[str, Any] = {"role": "toolResult", "toolCallId": "t1", "content": [], "isError": False}
    desk.add("r1", type="message", message=result)
    assert desk.adopted().unanswered == []


def test_a_torn_last_line_is_left_out_and_said(desk: Desk) -> None:
    adopted = desk.adopted('{"type":"mess')
    assert len(adopted.files[session_path(SESSION)]) == 3
    assert "cut off in the middle" in adopted.notes[0]


def test_a_whole_last_line_without_its_end_is_kept(desk: Desk) -> None:
    adopted = desk.adopted(json.dumps({"type": "label", "id": "l1", "parentId": "a1", "targetId": "u1"}))
    assert len(adopted.files[session_path(SESSION)]) == 4
    assert not adopted.notes


def test_damage_in_the_middle_is_refused_with_its_line(desk: Desk) -> None:
    assert "damaged in line 4 of 5" in desk.refusal('{"type":"me\n{"type":"message"}\n')


@pytest.mark.parametrize(
    "text",
    [
        "", "hello\n", "[]\n", '{"type":"session"', '{"type":"user","sessionId":"x","cwd":"/"}\n',
        '{"timestamp":"t","type":"session_meta","payload":{}}\n', '{"type":"session","version":3,"id":"../x"}\n',
    ],
    ids=["empty", "text", "list", "torn", "Claude Code's", "Codex's", "a name that is a path"],
)  # fmt: skip
def test_what_is_no_session_is_refused(desk: Desk, text: str) -> None:
    desk.path.write_text(text)
    with pytest.raises(BadInput, match="is no session of Pi"):
        adopt(desk.path, NOBODY)


def test_bytes_are_no_session(desk: Desk) -> None:
    desk.path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="it is no text"):
        adopt(desk.path, NOBODY)


def test_a_session_in_which_nothing_is_said_is_refused(desk: Desk) -> None:
    desk.entries = []
    assert "nothing is said in it" in desk.refusal()


@pytest.mark.parametrize(
    ("version", "hint"), [(2, "open it once with `pi --session`"), (4, "a newer outlast")]
)
def test_another_version_of_the_format_is_refused(desk: Desk, version: int, hint: str) -> None:
    desk.header["version"] = version
    told = desk.refusal()
    assert f"in version {version} of Pi's format" in told
    assert hint in told


def test_a_directory_that_is_gone_is_named(desk: Desk) -> None:
    desk.shop.rmdir()
    assert f"works in {desk.shop}, which is no directory of this machine" in desk.refusal()


@pytest.mark.crash
@pytest.mark.parametrize("ours", [False, True], ids=["a user's", "outlast's own"])
def test_a_session_in_whose_directory_a_pi_runs_is_refused(desk: Desk, *, ours: bool) -> None:
    agent = "/h/.outlast-pi/u/agent" if ours else "/h/.pi/agent"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", AS_PI],
        cwd=desk.shop,
        env={"PI_CODING_AGENT_DIR": agent},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        if ours:
            assert desk.adopted().name == SESSION
        else:
            assert f"a Pi runs in {desk.shop} (process {process.pid})" in desk.refusal()
        process.stdin.close()
    assert desk.adopted().name == SESSION
