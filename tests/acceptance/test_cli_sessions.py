"""The commands that look at sessions and put something into them, over a World that real turns have filled."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.cli.options import Setup
from outlast.cli.wishes import WorkerWish
from outlast.cli.worker import serve
from outlast.engine.places import is_ours, make_places, places_of
from outlast.opening import open_world
from outlast.session import Session
from outlast.settings import Settings
from outlast.testing.world_contract.blocks import opened
from tests.acceptance.counter import BROKEN, says, script

LONG = "a long answer " * 2_000
"""More than stands in a record."""


class Desk:
    """A World and a command line."""

    def __init__(self, directory: Path, world: str = "world.db") -> None:
        self.data = directory / "data"
        self.url = f"sqlite:{directory / world}"
        self.environ = {"OUTLAST_DATA_DIR": str(self.data), "OUTLAST_WORLD": self.url}

    def run(self, *words: str, status: int = 0, given: str | None = None, **environ: str) -> Result:
        """A command, which ends with `status`."""
        result = CliRunner().invoke(main, words, env={**self.environ, **environ}, input=given)
        assert result.exit_code == status, (
            f"{words}: {result.exit_code}\n{result.output}\n{result.exception!r}"
        )
        return result

    def json(self, *words: str, status: int = 0) -> list[Any]:
        """What it answers in JSON."""
        return [json.loads(line) for line in self.run(*words, "--json", status=status).stdout.splitlines()]

    def home(self, session: str) -> Path:
        """HOME of its harness, as the session was opened with it."""
        return Path(self.json("show", session)[0]["home"])

    def make(self, session: str, *, new: bool = False, home: Path | None = None) -> list[Path]:
        """Make the directories of a session as a worker does, opening it first if it is `new`; those it made."""

        async def body() -> list[Path]:
            async with open_world(self.url) as world:
                if new:
                    await Session.open(world, session, agent="scripted", home=home)
                state = await (await Session.find(world, session)).state()
            places = places_of(self.data, state)
            make_places(places, workspace=is_ours(state))
            return [places.home, places.cwd] if is_ours(state) else [places.home]

        return anyio.run(body)

    def work(self, *agents: str) -> None:
        """Advance everything that is ready."""
        settings = Settings(world=self.url, data_dir=str(self.data))
        wish = WorkerWish(agents, None, "worker-a", None, until_idle=True, until_eof=False)
        anyio.run(serve, Setup(settings, json=False), wish)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Sessions of every kind: `done`, `failed`, and `waiting` for a worker that offers its agent."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.run("run", "scripted", script(says("hello"), says(LONG)), "--session", "done", "--detach")
    desk.run("send", "done", script(says("again")), "--id", "second")
    desk.run("run", "scripted", "no script", "--session", "failed", "--detach")
    desk.run("run", BROKEN, "hello", "--session", "waiting", "--detach")
    desk.work()
    return desk


@pytest.fixture
def fresh(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_ls_is_aligned_and_says_what_each_session_waits_for(desk: Desk) -> None:
    lines = desk.run("ls").stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["done", "failed", "waiting"]
    for word in ("scripted", "broken"):
        assert {line.index(word) for line in lines if word in line} == {len("waiting") + 3}
    waiting = next(line for line in lines if line.startswith("waiting"))
    assert waiting.endswith("1 input waiting for a worker: outlast work")


def test_ls_is_newest_first_and_says_when_there_is_more(desk: Desk) -> None:
    names = [head["session"] for head in desk.json("ls")]
    stamps = [head["updated_at_s"] for head in desk.json("ls")]
    assert stamps == sorted(stamps, reverse=True)
    first = desk.run("ls", "--limit", "1")
    assert first.stdout.split()[0] == names[0]
    assert "outlast ls --limit 2" in first.stderr


def test_ls_of_nothing_says_how_to_begin(fresh: Desk) -> None:
    result = fresh.run("ls")
    assert result.stdout == ""
    assert "outlast run claude-code" in result.stderr
    assert fresh.run("ls", "--json").stdout == ""
    assert "No session with an open turn" in fresh.run("ls", "--open").stderr


def test_show_tells_every_turn_and_the_last_result(desk: Desk) -> None:
    text = desk.run("show", "done").stdout
    assert "turn 1 done" in text
    assert "turn 2 done" in text
    assert text.splitlines()[-1] == '  ["again"]'
    assert "no script of the scripted harness" in desk.run("show", "failed").stdout
    shown = desk.json("show", "done")[0]
    assert [turn["status"] for turn in shown["turns"]] == ["done", "done"]
    assert (shown["open_turn"], shown["result"]) == (None, ["again"])


def test_log_is_one_line_a_record(desk: Desk) -> None:
    lines = desk.run("log", "done").stdout.splitlines()
    entries = desk.json("log", "done")
    assert len(lines) == len(entries)
    assert [line.split()[2] for line in lines] == [entry["record"]["is"] for entry in entries]
    newest = entries[-1]["seq"]
    assert {entry["seq"] for entry in desk.json("log", "done", "--after", str(newest - 1))} == {newest}


def test_follow_tells_long_answers_whole(desk: Desk) -> None:
    assert LONG.strip() in desk.run("follow", "done", "--until-idle").stdout
    answers = [event.get("payload") for event in desk.json("follow", "done", "--until-idle")]
    assert {"json": {"text": LONG}} in answers


def test_follow_goes_on_behind_every_cursor_and_tells_nothing_twice(desk: Desk) -> None:
    events = desk.json("follow", "done", "--until-idle")
    for at, event in enumerate(events):
        assert desk.json("follow", "done", "--until-idle", "--after", event["cursor"]) == events[at + 1 :]
    assert desk.run("follow", "done", "--until-idle", "--new").stdout == ""


def test_follow_ends_with_how_the_last_turn_ended(desk: Desk) -> None:
    desk.run("follow", "done", "--until-idle")
    desk.run("follow", "failed", "--until-idle", status=1)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("show nobody", 3, "There is no session 'nobody'"),
        ("log nobody", 3, "There is no session 'nobody'"),
        ("follow nobody", 3, "There is no session 'nobody'"),
        ("send nobody hello", 3, "There is no session 'nobody'"),
        ("steer nobody hello", 3, "There is no session 'nobody'"),
        ("cancel nobody", 3, "There is no session 'nobody'"),
        ("rm nobody --yes", 3, "There is no session 'nobody'"),
        ("run scripted --session nobody", 3, "There is no session 'nobody'"),
        ("show NOBODY", 2, "is no session id"),
        ("run scripted hello --session NOBODY", 2, "is no session id"),
        ("run nobody hello", 3, "There is no agent 'nobody'"),
        ("run claude-agent-sdk hello", 3, "outlast run shop:mine"),
        ("run no.module:agent hello", 2, "cannot be loaded"),
        ("run json:dumps hello", 2, "not an outlast.Agent"),
        ("run scripted hello --session waiting", 2, "its agent is 'broken', not 'scripted'"),
        ("run scripted hello --session done --model other", 2, "its model is the default, not other"),
        ("run scripted --session done", 3, "has no turn open"),
        ("follow done --after 12", 2, "is no cursor"),
        ("follow done --after -1.0", 2, "is no cursor"),
        ("cancel done", 3, "has no turn open"),
        ("cancel done --turn 1", 3, "has no turn 1 that is open"),
        ("send done second --id second", 2, "was already used"),
        ("rm done", 2, "Give --yes"),
        ("ls --world redis-nobody:x", 2, "not known"),
        ("ls --world nowhere", 2, "The address has no scheme"),
    ],
)
def test_each_error_has_its_status_and_says_what_to_do(
    desk: Desk, words: str, status: int, said: str, options: tuple[str, ...]
) -> None:
    result = desk.run(*words.split(), *options, status=status)
    assert said in result.stderr
    assert "Traceback" not in result.output
    if options:
        told = json.loads(result.stdout)
        assert told["exit"] == status
        assert said in told["message"]
    else:
        assert result.stdout == ""


def test_a_bad_setting_names_its_source(desk: Desk) -> None:
    assert "OUTLAST_LEASE_S" in desk.run("ls", status=2, OUTLAST_LEASE_S="soon").stderr


def test_a_world_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    foreign = tmp_path / "world.db"
    foreign.write_text("my letters\n" * 1000)
    assert "is not a World of outlast" in desk.run("ls", status=4).stderr
    assert foreign.read_text() == "my letters\n" * 1000


def test_the_same_id_and_text_again_is_the_same_turn(fresh: Desk) -> None:
    fresh.run("run", "scripted", script(says("hello")), "--session", "s1", "--detach")
    sent = [fresh.json("send", "s1", "more", "--id", "one") for _ in range(2)]
    assert sent[0] == sent[1] == [{"session": "s1", "input": "one"}]
    assert fresh.json("ls")[0]["waiting_inputs"] == 2


def test_a_text_may_come_from_standard_input(fresh: Desk) -> None:
    fresh.run("run", "scripted", "-", "--session", "s1", "--detach", given=script(says("from a file")))
    fresh.run("steer", "s1", "-", given="  ", status=2)
    fresh.work()
    assert "from a file" in fresh.run("follow", "s1", "--until-idle").stdout


def test_run_without_a_prompt_finds_nothing_where_nothing_is_open(fresh: Desk) -> None:
    assert "No turn of scripted is open in" in fresh.run("run", "scripted", status=3).stderr


def test_rm_refuses_an_open_turn_and_erases_for_good(fresh: Desk) -> None:
    for name in ("s1", "s2"):
        fresh.run("run", BROKEN, "hello", "--session", name, "--detach")
    home = fresh.home("s1") / ".claude"
    home.mkdir(parents=True)
    fresh.work(BROKEN)
    refused = fresh.run("rm", "s1", "s2", "--yes", status=5).stderr
    assert "outlast cancel s1" in refused
    assert {head["session"] for head in fresh.json("ls")} == {"s1", "s2"}
    assert fresh.json("rm", "s1", "s2", "--yes", "--force") == [{"erased": "s1"}, {"erased": "s2"}]
    assert not home.parent.exists()
    assert fresh.run("ls").stdout == ""
    assert "was erased" in fresh.run("show", "s1", status=5).stderr
    fresh.run("run", BROKEN, "hello", "--session", "s1", "--detach", status=5)


@pytest.mark.parametrize("ids", [("s", "s"), ("s", "s-2"), ("s-2", "s")])
def test_two_worlds_on_one_data_directory_share_no_home_and_rm_removes_only_its_own(
    tmp_path: Path, ids: tuple[str, str]
) -> None:
    desks = Desk(tmp_path), Desk(tmp_path, "other.db")
    for desk, name in zip(desks, ids, strict=True):
        desk.run("run", "scripted", "hello", "--session", name, "--detach")
    (one,), (other,) = (desk.make(name) for desk, name in zip(desks, ids, strict=True))
    assert one != other
    desks[0].run("rm", ids[0], "--yes")
    assert (one.exists(), other.exists()) == (False, True)


def test_rm_removes_what_a_worker_made_and_not_what_one_of_another_world_made(tmp_path: Path) -> None:
    desks = Desk(tmp_path), Desk(tmp_path, "other.db")
    made = [desk.make("s", new=True) for desk in desks]
    assert len({*made[0], *made[1]}) == 4
    desks[1].run("rm", "s", "--yes")
    assert [path.exists() for path in (*made[0], *made[1])] == [True, True, False, False]


def test_rm_leaves_a_home_that_the_session_was_given(fresh: Desk) -> None:
    home = fresh.data.parent / "mine"
    made = fresh.make("s", new=True, home=home)
    fresh.run("rm", "s", "--yes")
    assert [path for path in made if path.exists()] == [home]


def test_rm_says_what_it_could_not_remove(fresh: Desk) -> None:
    fresh.run("run", BROKEN, "hello", "--session", "s", "--detach")
    home = fresh.home("s")
    home.parent.mkdir(parents=True)
    home.symlink_to(fresh.data)  # what is behind a link is not ours to remove
    assert str(home) in fresh.run("rm", "s", "--yes").stderr
    assert fresh.data.is_dir()


def test_rm_erases_a_session_whose_log_nobody_can_read_and_says_that_its_files_stay(fresh: Desk) -> None:
    anyio.run(_open_unreadable, fresh.url)
    result = fresh.run("rm", "s", "--yes", "--force")
    assert result.stdout == "erased s\n"
    assert "homes" in result.stderr
    fresh.run("show", "s", status=5)


async def _open_unreadable(url: str) -> None:
    async with open_world(url) as world:
        await opened(world, "s")  # its body is no records


def test_sessions_are_completed_by_their_ids(desk: Desk) -> None:
    words = {"_OUTLAST_COMPLETE": "bash_complete", "COMP_WORDS": "outlast show d", "COMP_CWORD": "2"}
    done = CliRunner().invoke(main, prog_name="outlast", env={**desk.environ, **words})
    assert done.output == "plain,done\n"
    nowhere = {**words, "OUTLAST_WORLD": "nowhere"}
    assert CliRunner().invoke(main, prog_name="outlast", env=nowhere).output.strip() == ""


def test_doctor_says_what_is_here_and_what_would_be_used(fresh: Desk) -> None:
    found = {one["what"]: one for one in fresh.json("doctor")}
    assert {
        "platform",
        "python",
        "world",
        "disk",
        "supervisor",
        "pid namespace",
        "sandboxes",
        "scripted",
        "node",
    } <= set(found)
    assert {one["state"] for one in found.values()} <= {"ok", "absent", "warning"}
    text = fresh.run(
        "doctor", ANTHROPIC_API_KEY="sk-a-secret", ANTHROPIC_BASE_URL="http://models.test"
    ).stdout
    assert "http://models.test with ANTHROPIC_API_KEY" in text
    assert "sk-a-secret" not in text


def test_doctor_fails_where_no_turn_could_be_advanced(fresh: Desk) -> None:
    nowhere = fresh.data.parent / "file"
    nowhere.touch()
    text = fresh.run("doctor", "--world", "nowhere", status=4, OUTLAST_DATA_DIR=str(nowhere / "data")).stdout
    assert "✗ world" in text
    assert "✗ supervisor" in text


def test_a_world_of_one_process_is_refused_where_a_worker_is_another_one(fresh: Desk) -> None:
    assert fresh.run("ls", "--world", "memory:").stdout == ""
    assert "one process only" in fresh.run("run", "scripted", "hi", "--world", "memory:", status=2).stderr
