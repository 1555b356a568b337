"""The command line as a person and a script meet it: real processes, a real terminal, real kills."""

import json
import os
import signal
import subprocess
from collections.abc import Generator

import pytest

from tests.acceptance.counter import BROKEN, TILL, Counter, opened, rings, says, script, wait_until_gone
from tests.acceptance.terminals import LIMIT_S

pytestmark = pytest.mark.crash

QUESTION = "[d]etach, [c]ancel the turn, or [g]o on watching?"


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


def test_run_tells_the_story_once_and_ends_with_the_turn(counter: Counter) -> None:
    with counter.started("run", TILL, script(says("good morning"), rings(counter), says("bye"))) as run:
        counter.bell.rung().answer("hello")
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    assert [out.count(text) for text in ("good morning\n", "bye\n", "● ring", "turn 1 done")] == [1, 1, 1, 1]
    assert out.startswith("session ")


def test_run_in_json_begins_with_the_session_and_ends_with_the_result(counter: Counter) -> None:
    first, *events, last = counter.json("run", "scripted", script(says("hello there")), "--session", "s1")
    assert first["session"] == "s1"
    assert (events[0]["kind"], events[-1]["kind"]) == ("turn.opened", "turn.settled")
    assert (last["session"], last["status"], last["exit"], last["result"]) == (
        "s1",
        "done",
        0,
        ["hello there"],
    )
    assert first["inputs"] == [events[0]["name"]]


def test_a_killed_worker_under_run_is_followed_by_another(counter: Counter) -> None:
    with counter.started(
        "run", TILL, script(says("one"), rings(counter), says("two")), "--session", "s1"
    ) as run:
        os.kill(counter.bell.rung().pid, signal.SIGKILL)
        counter.bell.rung().answer("hello")
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    assert [out.count(text) for text in ("one\n", "two\n", "● ring", "▸ attempt 2", "turn 1 done")] == [1] * 5
    assert "another one is started" in err


def test_a_killed_run_leaves_a_turn_that_goes_on_and_a_worker_that_ends(counter: Counter) -> None:
    with counter.started("run", TILL, script(rings(counter)), "--session", "s1") as run:
        ring = counter.bell.rung()
        run.kill()
        run.wait(LIMIT_S)
        ring.answer("hello")
        wait_until_gone(ring.pid)
    assert counter.json("follow", "s1", "--until-idle")[-1]["status"] == "done"


def test_ctrl_c_detaches_and_the_next_run_in_the_directory_carries_on(counter: Counter) -> None:
    with counter.terminal("run", TILL, script(says("good morning"), rings(counter), says("bye"))) as terminal:
        ring = counter.bell.rung()
        terminal.wait_for("ringing the bell")
        terminal.press("\x03")
        terminal.wait_for(QUESTION)
        terminal.press("d\n")
        assert terminal.wait() == 8
        wait_until_gone(ring.pid)
    assert "ringing the bell" not in terminal.text
    assert f"It goes on with `outlast work {TILL}`" in terminal.text
    assert "detached." in terminal.text
    with counter.started("run", TILL) as run:
        counter.bell.rung().answer("hello")
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    assert [out.count(text) for text in ("good morning\n", "bye\n", "● ring", "turn 1 done")] == [1, 1, 1, 1]


def test_ctrl_c_goes_on_watching_or_cancels(counter: Counter) -> None:
    with counter.terminal("run", TILL, script(says("good morning"), rings(counter))) as terminal:
        counter.bell.rung()
        terminal.wait_for("ringing the bell")
        terminal.press("\x03")
        terminal.wait_for(QUESTION)
        terminal.press("what?\n")
        terminal.wait_for(QUESTION, times=2)
        terminal.press("g\n")
        terminal.wait_for("ringing the bell", behind="what?")
        terminal.press("\x03")
        terminal.wait_for(QUESTION, times=3)
        terminal.press("c\n")
        assert terminal.wait() == 6
    assert terminal.text.count("good morning\n") == 1
    assert "turn 1 cancelled" in terminal.text


def test_a_terminal_shows_each_sentence_once_across_a_take_over(counter: Counter) -> None:
    prompt = script(says("good morning"), rings(counter), says("bye"))
    with counter.terminal("run", TILL, prompt, "--session", "s1") as terminal:
        ring = counter.bell.rung()
        terminal.wait_for("ringing the bell")
        os.kill(ring.pid, signal.SIGKILL)
        ring = counter.bell.rung()
        terminal.wait_for("▸ attempt 2")
        terminal.wait_for("ringing the bell")
        ring.answer("hello")
        assert terminal.wait() == 0
    assert b"\x1b[?25l" in terminal.raw  # the region was there
    assert terminal.raw.rindex(b"\x1b[?25h") > terminal.raw.rindex(b"\x1b[?25l")  # and the cursor is back
    told = terminal.text.splitlines()
    assert [told.count(f"    {text}") for text in ("good morning", "bye", "ringing the bell")] == [1, 1, 0]


def test_a_second_run_only_watches_and_may_leave(counter: Counter) -> None:
    prompt = script(says("good morning"), rings(counter), says("bye"))
    with counter.started("run", TILL, prompt, "--session", "s1") as first:
        ring = counter.bell.rung()
        with counter.started("run", TILL, "--session", "s1") as second:
            assert _line_with(second, "good morning")
            second.send_signal(signal.SIGINT)
            out, _ = second.communicate(timeout=LIMIT_S)
            assert second.returncode == 8
            assert "come back with `outlast follow s1`" in out
        ring.answer("hello")
        out, err = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, err
    assert "attempt 2" not in out


def test_run_stops_when_nobody_reads_it_and_hands_the_turn_over(counter: Counter) -> None:
    with counter.started(
        "run", TILL, script(says("one"), rings(counter), says("two")), "--session", "s1"
    ) as run:
        ring = counter.bell.rung()
        assert run.stdout is not None
        run.stdout.close()
        ring.answer("hello")
        assert run.wait(LIMIT_S) == 8
        assert run.stderr is not None
        assert "Traceback" not in run.stderr.read()


def test_work_lets_a_turn_end_on_sigterm(counter: Counter) -> None:
    counter.outlast("run", TILL, script(rings(counter)), "--session", "s1", "--detach")
    with counter.started("work", TILL) as work:
        ring = counter.bell.rung()
        work.terminate()
        assert work.stderr is not None
        assert "draining, 1 running" in work.stderr.readline()
        ring.answer("hello")
        assert work.wait(LIMIT_S) == 0
    counter.outlast("follow", "s1", "--until-idle")


def test_work_hands_over_on_a_second_sigterm_and_the_next_worker_goes_on(counter: Counter) -> None:
    counter.outlast("run", TILL, script(says("one"), rings(counter)), "--session", "s1", "--detach")
    with counter.started("work", TILL) as work:
        counter.bell.rung()
        work.terminate()
        assert work.stderr is not None
        assert "draining, 1 running" in work.stderr.readline()
        work.terminate()
        assert work.wait(LIMIT_S) == 0
    shown = counter.json("show", "s1")[0]
    assert [attempt["ended"] for attempt in shown["open_turn"]["attempts"]] == ["handed_over"]
    with counter.started("work", TILL, "--until-idle") as work:
        counter.bell.rung().answer("hello")
        assert work.wait(LIMIT_S) == 0
    assert "turn 1 done" in counter.outlast("follow", "s1", "--until-idle").stdout


def test_work_that_is_started_again_under_its_name_is_another_worker(counter: Counter) -> None:
    first, second = (
        counter.json("work", TILL, "--name", "daily", "--until-idle")[0]["worker"] for _ in range(2)
    )
    assert first.startswith("daily-")
    assert second.startswith("daily-")
    assert first != second


def test_ctrl_c_ends_work_in_good_order(counter: Counter) -> None:
    counter.outlast("run", TILL, script(rings(counter)), "--session", "s1", "--detach")
    with counter.terminal("work", TILL) as terminal:
        counter.bell.rung()
        terminal.press("\x03")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text
    assert counter.json("show", "s1")[0]["open_turn"]["attempts"][0]["ended"] == "handed_over"


def test_a_terminal_that_is_closed_lets_the_turn_go_on(counter: Counter) -> None:
    with counter.terminal("run", TILL, script(rings(counter)), "--session", "s1") as terminal:
        ring = counter.bell.rung()
        terminal.hang_up()
        terminal.process.wait(LIMIT_S)
        ring.answer("hello")
        wait_until_gone(ring.pid)
    counter.outlast("follow", "s1", "--until-idle")


def test_a_prompt_behind_an_open_turn_is_watched_to_its_end(counter: Counter) -> None:
    counter.outlast("run", TILL, script(says("first"), rings(counter)), "--session", "s1", "--detach")
    with counter.started("run", TILL, script(says("second")), "--session", "s1") as run:
        counter.bell.rung().answer("hello")
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    told = ["first\n", "turn 1 done", "second\n", "turn 2 done"]
    assert sorted(told, key=out.index) == told
    assert [out.count(text) for text in told] == [1] * 4


def test_a_scripted_model_is_served_until_ctrl_c(counter: Counter) -> None:
    answers = counter.shop / "answers.json"
    answers.write_text(json.dumps({"conversations": {"main": [{"text": "hello"}]}}))
    with counter.started("model-script", str(answers)) as models:
        assert models.stdout is not None
        assert json.loads(models.stdout.readline())["base_url"].startswith("http://127.0.0.1:")
        models.send_signal(signal.SIGINT)
        assert models.wait(LIMIT_S) == 0
    answers.write_text("{")
    assert "Correct the script" in counter.outlast("model-script", str(answers), status=2).stderr


def test_run_says_why_its_worker_cannot_start(counter: Counter) -> None:
    module = counter.shop / "sometimes.py"
    module.write_text(
        "import os, sys\nfrom tests.acceptance.till import agent\nif 'work' in sys.argv: agent = 1\n"
    )
    error = counter.json("run", "sometimes:agent", "hello", status=4)[-1]
    assert "is of type int, not an outlast.Agent" in error["message"]


def test_a_stuck_turn_is_shown_with_its_evidence_and_ended_by_cancel(counter: Counter) -> None:
    said = counter.outlast("run", BROKEN, "hello", "--session", "s1", status=7).stdout
    assert "outlast cancel s1" in said
    shown = counter.outlast("show", "s1").stdout
    for text in (
        "turn 1 stuck",
        "it never works",
        "fruitless_attempts",
        "  outlast retry s1\n",
        "  outlast cancel s1\n",
    ):
        assert text in shown
    assert "waits for you" in counter.outlast("ls").stdout
    counter.outlast("cancel", "s1", "--reason", "enough")
    counter.outlast("run", BROKEN, "--session", "s1", status=6)
    assert counter.json("ls")[0]["status"].startswith("turn 1 cancelled")


def test_the_project_in_the_working_directory_shadows_nothing_of_ours(counter: Counter) -> None:
    for name in ("anyio", "click", "logging", "msgspec"):
        (counter.shop / f"{name}.py").write_text("raise SystemExit('shadowed')")
    with counter.started("run", "scripted", script(says("hello"))) as run:
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    assert "hello\n" in out


def _line_with(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    return ""
