"""What of a conversation that OpenCode had by itself can be adopted, and what is refused."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast.adapters.opencode.adoption import adopt
from outlast.adapters.opencode.events import messages_of, path_of, permission_of, read
from outlast.adapters.opencode.permissions import asks_about_all, session_rules
from outlast.adapters.opencode.repair import kept
from outlast.adapters.opencode.store import database_of, holder_of
from outlast.adopting import Adopted
from outlast.errors import BadInput

OWN, CHILD = "ses_own1", "ses_child1"
SCHEMA = """
create table session (id text primary key, project_id text, workspace_id text, parent_id text, slug text,
    directory text, path text, title text, version text, share_url text, summary_additions integer, metadata text,
    cost real, tokens_input integer, tokens_output integer, tokens_reasoning integer, tokens_cache_read integer,
    tokens_cache_write integer, revert text, permission text, agent text, model text, time_created integer,
    time_updated integer);
create table message (id text primary key, session_id text, time_created integer, time_updated integer, data text);
create table part (id text primary key, message_id text, session_id text, time_created integer, time_updated integer,
    data text);
"""
"""The columns that count, as OpenCode 1.18.33 has them."""


class Desk:
    """A user's directory, and OpenCode's database of what it did there."""

    def __init__(self, place: Path) -> None:
        self.shop = place / "shop"
        self.shop.mkdir()
        self.environ = {"HOME": str(place)}
        self.database = database_of(self.environ)
        self.database.parent.mkdir(parents=True)
        self.rows = sqlite3.connect(self.database)
        self.rows.executescript(SCHEMA)

    def session(self, id: str = OWN, parent: str | None = None, at: int = 1, **more: object) -> None:  # noqa: A002 - as there
        row = {
            "id": id,
            "parent_id": parent,
            "project_id": "global",
            "slug": "a-b",
            "title": "A title",
            "directory": str(self.shop),
            "version": "1.18.33",
            "cost": 0.5,
            "share_url": "https://shared",
            **dict.fromkeys(("tokens_input", "tokens_output", "tokens_reasoning"), 1),
            "tokens_cache_read": 0,
            "tokens_cache_write": 0,
            "time_created": at,
            "time_updated": at,
            **more,
        }
        self._insert("session", row)

    def said(self, text: str, provider: str = "anthropic", at: int = 1, **part: object) -> None:
        model = {"providerID": provider, "modelID": "claude-sonnet-4-5"}
        self._message(f"msg_u{at}", at, {"role": "user", "model": model, "agent": "build"})
        self._part(f"prt_u{at}", f"msg_u{at}", {"type": "text", "text": text, **part})

    def called(self, tool: str, status: str, at: int = 2, **state: object) -> None:
        self._message(
            f"msg_a{at}", at, {"role": "assistant", "time": {"created": at}, "finish": "tool-calls"}
        )
        state = {"status": status, "input": {"command": "make"}, **state}
        self._part(f"prt_a{at}", f"msg_a{at}", {"type": "tool", "callID": "c", "tool": tool, "state": state})

    def _message(self, id: str, at: int, data: dict[str, Any], session: str = OWN) -> None:  # noqa: A002
        self._insert(
            "message", {"id": id, "session_id": session, "time_created": at, "data": json.dumps(data)}
        )

    def _part(self, id: str, message: str, data: dict[str, Any], session: str = OWN) -> None:  # noqa: A002
        row = {"id": id, "message_id": message, "session_id": session, "data": json.dumps(data)}
        self._insert("part", row)

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        self.rows.execute(f"insert into {table} ({names}) values ({marks})", list(row.values()))
        self.rows.commit()

    def adopted(self, named: str = OWN) -> Adopted:
        self.rows.close()
        return adopt(Path(named), self.environ)

    def refusal(self, named: str = OWN) -> str:
        with pytest.raises(BadInput) as caught:
            self.adopted(named)
        return str(caught.value)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_conversation_keeps_its_name_its_place_and_its_words(desk: Desk) -> None:
    desk.session()
    desk.said("Build it.")
    desk.called("bash", "running")
    adopted = desk.adopted()
    assert (adopted.name, adopted.prompt, adopted.cwd) == (OWN, "Build it.", str(desk.shop))
    assert adopted.settings == {"session": OWN, "model": "anthropic/claude-sonnet-4-5"}
    assert (adopted.unanswered, adopted.notes) == (["bash"], [])
    events = read(adopted.files[path_of(OWN)])
    assert len(events) == len(adopted.files[path_of(OWN)])
    assert "share" not in json.dumps(events[0].data), "what is published stays the user's"
    left = kept(events, "msg_next", ())
    assert [part["tool"] for part in left.dangling] == ["bash"], "the next attempt gives it an end"


def test_an_export_is_adopted_as_the_database_is(desk: Desk, tmp_path: Path) -> None:
    desk.session()
    desk.said("Build it.")
    desk.called("bash", "completed", output="done")
    adopted = desk.adopted()
    events = read(adopted.files[path_of(OWN)])
    told = [{"info": one.info, "parts": list(one.parts.values())} for one in messages_of(events)]
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"info": events[0].data["info"], "messages": told}))
    assert adopt(export, desk.environ) == adopted
    assert adopted.unanswered == []


def test_what_sub_agents_did_comes_along(desk: Desk) -> None:
    desk.session()
    desk.session(CHILD, parent=OWN)
    desk.said("Build it.")
    assert list(desk.adopted().files) == [path_of(OWN), path_of(CHILD)]


def test_a_sub_agent_alone_is_refused(desk: Desk) -> None:
    desk.session()
    desk.session(CHILD, parent=OWN)
    assert OWN in desk.refusal(CHILD)


def test_the_only_session_of_a_database_needs_no_name_and_one_of_several_does(desk: Desk) -> None:
    desk.session()
    desk.session(CHILD, parent=OWN)
    desk.said("Build it.")
    assert desk.adopted(str(desk.database)).name == OWN
    desk.rows = sqlite3.connect(desk.database)
    desk.session("ses_newer", at=2)
    refusal = desk.refusal(str(desk.database))
    assert "holds 2 sessions" in refusal
    assert refusal.index("ses_newer") < refusal.index(OWN), "the newest first"


def test_words_of_opencode_s_own_are_not_what_it_began_with(desk: Desk) -> None:
    desk.session()
    desk.said("The file holds …", synthetic=True)
    desk.said("Build it.", at=3)
    assert desk.adopted().prompt == "Build it."


def test_a_model_that_nobody_here_speaks_with_is_told_of(desk: Desk) -> None:
    desk.session()
    desk.said("Build it.", provider="somebody")
    adopted = desk.adopted()
    assert "model" not in adopted.settings
    assert "somebody" in adopted.notes[0]


def test_what_is_no_session_is_refused(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"type": "user"}')
    assert "no session of OpenCode" in desk.refusal(str(other))
    other.write_bytes(b"SQLite format 3\x00" + bytes(100))
    assert "no database that OpenCode has written" in desk.refusal(str(other))
    assert "is not there" in desk.refusal(str(tmp_path / "gone"))
    assert "holds no session ses_gone" in desk.refusal("ses_gone")
    assert "holds 0 sessions" in desk.refusal(str(desk.database))
    desk.database.unlink()
    assert "keeps nothing in" in desk.refusal()


def test_a_session_in_which_nothing_is_said_or_whose_directory_is_gone_is_refused(desk: Desk) -> None:
    desk.session()
    assert "nothing is said" in desk.refusal()
    desk.rows = sqlite3.connect(desk.database)
    desk.said("Build it.")
    desk.shop.rmdir()
    assert "no directory of this machine" in desk.refusal()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="processes are seen on Linux alone")
@pytest.mark.parametrize(
    ("word", "below", "seen"),
    [("run", "shop", True), ("run", "elsewhere", False), ("serve", "elsewhere", True)],
)
def test_a_process_that_may_go_on_with_it_is_seen(
    word: str, below: str, *, seen: bool, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    held = "import sys\nwith open(sys.argv[2]):\n    print('open', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", held, word, str(desk.database)],
        cwd=tmp_path / below,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = holder_of(desk.database, desk.shop)
        process.communicate()
    assert found == (process.pid if seen else None)
    assert holder_of(desk.database, desk.shop) is None, "it has ended"


def test_the_user_s_rules_stand_below_those_of_a_session() -> None:
    deny = {"permission": "bash", "pattern": "*", "action": "deny"}
    ours = session_rules([deny])
    events = read(
        [
            json.dumps({"id": f"evt_{n}", "seq": n, "type": kind, "data": {"info": info}})
            for n, (kind, info) in enumerate(
                [
                    ("session.created.1", {"permission": [deny]}),
                    ("session.updated.1", {"title": "no rules"}),
                    ("session.updated.1", {"permission": [deny, *ours]}),
                ]
            )
        ]
    )
    assert not asks_about_all(permission_of(events[:2]))
    assert permission_of(events[:2]) == [deny]
    assert asks_about_all(permission_of(events))
    assert deny in ours, "what is denied stays denied"
    assert permission_of([]) == ()


def test_nothing_is_written(desk: Desk) -> None:
    desk.session()
    desk.said("Build it.")
    before = desk.database.read_bytes()
    desk.adopted()
    assert desk.database.read_bytes() == before
    with closing(sqlite3.connect(desk.database)) as rows:
        assert rows.execute("pragma integrity_check").fetchone() == ("ok",)
