"""What waits for a signal, a person or a decision: how it is shown, and the commands that let it go on."""

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
from outlast.settings import Settings

OFFICE = "tests.acceptance.office"
"""The module with the agents."""


class Desk:
    """A World, a command line, and a worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environ = {
            "OUTLAST_DATA_DIR": str(directory / "data"),
            "OUTLAST_WORLD": f"sqlite:{directory / 'world.db'}",
        }

    def run(self, *words: str, status: int = 0, given: str | None = None) -> Result:
        """A command, which ends with `status`."""
        result = CliRunner().invoke(main, words, env=self.environ, input=given)
        assert result.exit_code == status, (
            f"{words}: {result.exit_code}\n{result.output}\n{result.exception!r}"
        )
        assert "Traceback" not in result.output
        return result

    def json(self, *words: str, status: int = 0) -> Any:
        """The last line of what it answers in JSON."""
        return json.loads(self.run(*words, "--json", status=status).stdout.splitlines()[-1])

    def begin(self, agent: str, prompt: str, session: str = "s") -> None:
        """A session, carried on as far as it goes."""
        self.run("run", f"{OFFICE}:{agent}", prompt, "--session", session, "--detach")
        self.work(agent)

    def work(self, agent: str) -> None:
        """Advance everything that is ready."""
        settings = Settings(world=self.environ["OUTLAST_WORLD"], data_dir=self.environ["OUTLAST_DATA_DIR"])
        wish = WorkerWish((f"{OFFICE}:{agent}",), None, "worker-a", None, until_idle=True, until_eof=False)
        anyio.run(serve, Setup(settings, json=False), wish)

    def result(self) -> Any:
        return self.json("show", "s")["result"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk whose sessions only wait, each called as its agent, but one, `rested`, that is done."""
    desk = Desk(tmp_path_factory.mktemp("office"))
    for agent, prompt in (("waiter", "ci"), ("asker", "Why?"), ("sleeper", "9000")):
        desk.begin(agent, prompt, agent)
    desk.begin("sleeper", "0", "rested")
    return desk


def test_a_turn_that_waits_for_a_signal_says_so_and_takes_it(desk: Desk) -> None:
    desk.begin("waiter", "ci")
    command = "outlast signal s ci --value JSON"
    assert desk.run("ls").stdout.rstrip().endswith(f"waits for the signal ci: {command}")
    shown = desk.run("show", "s").stdout
    assert "turn 1 waiting" in shown
    assert f"Waits for the signal ci\n  {command}\n" in shown
    followed = desk.run("follow", "s", "--until-idle", status=7).stdout
    assert f"… waits for the signal ci\n      {command}\n" in followed
    assert "no worker holds it meanwhile" in followed
    assert desk.json("ls")["awaits"] == desk.json("show", "s")["open_turn"]["awaits"]
    (awaited,) = desk.json("ls")["awaits"]
    assert (awaited["what"], awaited["signal"], awaited["commands"]) == ("signal", "ci", [command])
    said = [desk.json("signal", "s", "ci", "--value", '{"green": true}', "--id", "run-1") for _ in range(2)]
    assert said[0] == said[1] == {"session": "s", "signal": "ci", "input": "run-1", "awaited": True}
    desk.work("waiter")
    assert desk.result() == [36, {"green": True}]
    followed = desk.run("follow", "s", "--until-idle").stdout
    assert "● signal" in followed
    assert '{"green":true}' in followed
    assert "uuid" not in followed


def test_a_signal_that_nobody_waits_for_is_kept_and_said_to_be(desk: Desk) -> None:
    desk.run("run", f"{OFFICE}:waiter", "ci", "--session", "s", "--detach")
    assert "nothing waits for it now, it is kept" in desk.run("signal", "s", "ci").stdout
    desk.work("waiter")
    assert desk.result() == [36, None]


def test_the_value_of_a_signal_is_json_or_an_error_that_tells_how_to_write_text(desk: Desk) -> None:
    desk.begin("waiter", "ci")
    refused = desk.run("signal", "s", "ci", "--value", "green", status=2)
    assert """--value '"green"'""" in refused.stderr
    assert desk.json("ls")["waiting_inputs"] == 0
    desk.run("signal", "s", "ci", "--value", "-", given='"green"')
    desk.work("waiter")
    assert desk.result() == [36, "green"]


def test_a_question_is_shown_with_its_choices_and_answered_by_one_of_them(desk: Desk) -> None:
    desk.begin("asker", "Shall I? (choose)")
    shown = desk.run("show", "s").stdout
    assert "Call 1 asks: Shall I? (choose) (yes · no · 1)\n" in shown
    assert "  outlast decide s 1 --answer no\n" in shown
    assert desk.run("ls").stdout.rstrip().endswith(": outlast show s")
    assert "  outlast" not in desk.run("ls").stdout
    assert desk.json("show", "s")["open_turn"]["awaits"][0]["choices"] == ["yes", "no", "1"]
    assert (
        "none of the answers: yes, no, 1" in desk.run("decide", "s", "1", "--answer", "YES", status=2).stderr
    )
    for way in (["--done", "yes"], ["--run-again"]):
        assert "is a question" in desk.run("decide", "s", "1", *way, status=2).stderr
    said = desk.json("decide", "s", "1", "--answer", "1", "--by", "ann", "--id", "a-1")
    assert said == {"session": "s", "call": 1, "ruling": "done", "input": "a-1"}
    desk.work("asker")
    assert desk.result() == "1"
    assert "» person   decided: done by ann" in desk.run("follow", "s", "--until-idle").stdout


def test_an_answer_is_json_or_text_with_a_hint(desk: Desk) -> None:
    desk.begin("asker", "How many?")
    hint = desk.run("decide", "s", "1", "--answer", "a few").stderr
    assert hint == "outlast: taken as text, since it is no JSON: a few\n"
    desk.work("asker")
    assert desk.result() == "a few"
    desk.run("send", "s", "And now?")
    desk.work("asker")
    assert desk.run("decide", "s", "2", "--answer", '{"n": 3}').stderr == ""
    desk.work("asker")
    assert desk.result() == {"n": 3}


def test_a_person_may_refuse_to_answer(desk: Desk) -> None:
    desk.begin("asker", "Why?")
    desk.run("decide", "s", "1", "--failed", "ask somebody else")
    desk.work("asker")
    assert "ask ended as error: ask somebody else" in desk.run("show", "s").stdout


def test_the_first_decision_stands_and_a_second_one_is_told_of_it(desk: Desk) -> None:
    desk.begin("asker", "Why?")
    first = desk.json("decide", "s", "1", "--answer", '"so"')
    assert desk.json("decide", "s", "1", "--answer", '"so"') == first
    other = desk.run("decide", "s", "1", "--answer", '"no"', status=5)
    assert "Another decision about call 1 of s was given first" in other.stderr
    desk.work("asker")
    assert desk.result() == "so"
    assert (
        "its turn is over. Nothing waits for a decision."
        in desk.run("decide", "s", "1", "--answer", '"no"', status=5).stderr
    )


def test_a_decision_under_its_own_id_may_be_repeated_for_ever(desk: Desk) -> None:
    desk.begin("asker", "Why?")
    words = ("decide", "s", "1", "--answer", '"so"', "--id", "mine")
    first = desk.json(*words)
    desk.work("asker")
    assert desk.json(*words) == first
    assert "already used" in desk.run("decide", "s", "1", "--answer", "2", "--id", "mine", status=2).stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("decide nobody 1 --run-again", 3, "There is no session 'nobody'"),
        ("signal nobody ci", 3, "There is no session 'nobody'"),
        ("retry nobody", 3, "There is no session 'nobody'"),
        (
            "decide waiter 9 --run-again",
            3,
            "no call 9. Its turn waits for the signal ci: outlast signal waiter",
        ),
        ("decide waiter 2 --done x", 5, "it waits for the signal ci: outlast signal waiter ci"),
        ("decide waiter 1 --done x", 5, "it ended as ok. Its turn waits for the signal ci"),
        ("decide asker 7 --answer x", 3, "no call 7. What waits: call 1 asks: Why?: outlast decide asker 1"),
        ("decide asker 1", 2, "Say one of --done VALUE"),
        ("decide asker 1 --answer a --failed b", 2, "Say one of --done VALUE"),
        ("decide asker 1 --done 3", 2, "Call 1 is a question"),
        (
            "retry asker",
            5,
            "is not stuck, diverged or over budget. Call 1 asks: Why?: outlast decide asker 1",
        ),
        ("retry asker --turn 2", 3, "has no turn 2 that is open"),
        ("decide sleeper 1 --run-again", 5, "it sleeps, until"),
        ("decide rested 1 --run-again", 5, "its turn is over. Nothing waits for a decision"),
        ("retry rested", 3, "has no turn open"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_what_cannot_be_decided_is_told_with_what_waits_instead(
    office: Desk, words: str, status: int, said: str, options: tuple[str, ...]
) -> None:
    result = office.run(*words.split(), *options, status=status)
    assert said in result.stderr
    if options:
        told = json.loads(result.stdout)
        assert (told["exit"], said in told["message"]) == (status, True)
    assert not any(
        json.loads(line)["waiting_inputs"] for line in office.run("ls", "--json").stdout.splitlines()
    )


def test_a_turn_that_sleeps_says_until_when(office: Desk) -> None:
    line = next(line for line in office.run("ls").stdout.splitlines() if line.startswith("sleeper"))
    assert "sleeps, until 2" in line
    assert "Sleeps, until 2" in office.run("show", "sleeper").stdout
    assert office.json("show", "sleeper")["open_turn"]["awaits"][0]["until_s"] > 0


def test_a_diverged_turn_is_let_go_once_its_code_is_mended(desk: Desk) -> None:
    ledger = desk.directory / "ledger"
    desk.begin("stray", str(ledger))
    ledger.write_text("another way")
    desk.run("signal", "s", "ready")
    desk.work("stray")
    shown = desk.run("show", "s").stdout
    assert "turn 1 diverged" in shown
    assert "Turn 1 is diverged and waits for you\n  outlast retry s\n  outlast cancel s\n" in shown
    assert "diverged and waits for you" in desk.run("ls").stdout
    refused = desk.run("decide", "s", "1", "--run-again", status=5).stderr
    assert "What waits: turn 1 is diverged" in refused
    ledger.unlink()
    assert [desk.json("retry", "s") for _ in range(2)] == [{"session": "s", "turn": 1}] * 2
    assert desk.json("ls")["waiting_inputs"] == 1
    desk.work("stray")
    assert "turn 1 done" in desk.run("show", "s").stdout


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_a_call_that_a_rule_wants_asked_about_waits_for_a_word(desk: Desk, word: str) -> None:
    ledger = desk.directory / "ledger"
    desk.begin("careful", str(ledger))
    shown = desk.run("show", "s").stdout
    assert "wants to be allowed: pay" in shown
    assert "(it is money)" in shown
    assert "  outlast decide s 1 --allow\n  outlast decide s 1 --deny WHY\n" in shown
    refused = desk.run("decide", "s", "1", "--run-again", status=2).output
    assert "Call 1 wants to be allowed. Say --allow or --deny TEXT." in refused
    desk.run("decide", "s", "1", *(["--allow"] if word == "allow" else ["--deny", "not today"]))
    desk.work("careful")
    if word == "allow":
        assert desk.result() == "paid"
        assert ledger.read_text() == "paid\n"
    else:
        assert "not today" in desk.run("show", "s").stdout
        assert not ledger.exists()
