"""`outlast wrap` with the real Claude Code at a real terminal, and `kill -9` of all of it."""

import json
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio import from_thread, to_thread

from outlast.adapters.claude_code.versions import installed
from outlast.records import CallOutcome, TurnSettled
from outlast.session import Session
from outlast.testing.adapter_contract.promises import left_behind, processes_of
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.models import Step
from tests.acceptance.tmux import Tmux
from tests.acceptance.wrapping import kill_all, refused
from tests.acceptance.wrapping import wrapped as at_terminal
from tests.harnesses.claude_code import MODEL, bash
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.timeout(240)]
CLAUDE = ("--", "claude", "--model", MODEL, "--allowedTools", "Bash(*)")


@contextmanager
def wrapped(stage: Stage, *words: str) -> Generator[Tmux]:
    """`outlast wrap` at the terminal of somebody who trusts the directory."""
    trusted = {"projects": {str(stage.shop): {"hasTrustDialogAccepted": True}}, "theme": "dark"}
    Path(os.environ["HOME"], ".claude.json").write_text(json.dumps(trusted))
    with at_terminal(stage, *words) as tmux:
        yield tmux


@pytest.mark.harness(turns=0)
def test_what_cannot_be_wrapped_is_refused_and_says_what_can() -> None:
    assert "What can: `claude`" in refused("--", "vim")
    assert "There is no terminal here" in refused("--", "opencode")
    assert "There is no terminal here" in refused("--", "claude")
    assert "one of the two" in refused()


@pytest.mark.harness(turns=2)
async def test_a_turn_that_was_typed_outlives_kill_9_of_everything_and_its_conversation_is_shown_again(
    tmp_path: Path,
) -> None:
    script = {
        "one": [Step(text="I look.", tools=(bash("ls"),)), *says("The first is done.")],
        "two": [
            Step(text="I pay.", tools=(bash(effect_command("s", "paid", "; sleep 600")),)),
            *says("The second is done."),
        ],
    }
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_is_killed_while_a_tool_runs, stage)
        assert not await left_behind(stage.data, stage.shop), "nothing is left that acts"
        await to_thread.run_sync(_comes_back, stage)
        session = await Session.find(stage.world, "s")
        settled = await stage.of_kind(TurnSettled)
        assert [one.status for one in settled] == ["done", "done"]
        assert [str(await session.result(number)) for number in (1, 2)] == [
            "The first is done.",
            "The second is done.",
        ]
        assert [one.status for one in await stage.of_kind(CallOutcome)].count("in_doubt") == 1
        assert stage.effects("s").count("paid") == 1
        assert (stage.steps("one"), stage.steps("two")) == ([0, 1], [0, 1]), "nothing was paid for twice"
        assert not await left_behind(stage.data, stage.shop)


def _is_killed_while_a_tool_runs(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The first is done.")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.until(lambda: stage.effects("s").count("paid") == 1, "the tool never ran")
        kill_all(stage)


def _comes_back(stage: Stage) -> None:
    with wrapped(stage, "--resume") as tmux:
        tmux.wait_for("what was cut short goes on first")
        tmux.wait_for("▐")  # Claude Code's own screen
        tmux.wait_for("● The second is done.")
        assert "● The first is done." in tmux.screen
        assert "❯ " + prompt("one") in tmux.screen
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)
        tmux.wait_for("outlast wrap --resume s")
        tmux.wait_for("ended with 0")


@pytest.mark.full
async def test_a_fork_of_what_was_wrapped_is_brought_back_with_its_past_and_both_go_on_by_themselves(
    tmp_path: Path,
) -> None:
    script = {
        "one": says("The first is done."),
        "two": says("The fork's second is done."),
        "three": says("The source's second is done."),
    }
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_says_once, stage)
        source = await Session.find(stage.world, "s")
        fork = await source.fork(id="f")
        await to_thread.run_sync(_goes_on_as, stage, "f", "two", "The fork's second is done.", "The source's")
        await to_thread.run_sync(
            _goes_on_as, stage, "s", "three", "The source's second is done.", "The fork's"
        )
        assert str(await fork.result(2)) == "The fork's second is done."
        assert str(await source.result(2)) == "The source's second is done."
        assert [stage.steps(name) for name in script] == [[0], [0], [0]], "nothing was asked twice"
        assert not await left_behind(stage.data, stage.shop)


def _says_once(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The first is done.")
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)


def _goes_on_as(stage: Stage, session: str, name: str, said: str, never: str) -> None:
    with wrapped(stage, "--resume", session) as tmux:
        tmux.wait_for("● The first is done.")
        assert "❯ " + prompt("one") in tmux.screen
        tmux.enter(prompt(name), lambda: len(stage.requests(name)) > 0)
        tmux.wait_for(said)
        assert never not in tmux.screen
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)
        tmux.wait_for(f"outlast wrap --resume {session}")
        tmux.wait_for("ended with 0")


@pytest.mark.full
async def test_a_kill_while_the_answer_streams_asks_once_more_and_the_next_prompt_is_typed_as_always(
    tmp_path: Path,
) -> None:
    script = {
        "one": [Step(text="Slowly, word by word, it comes. " * 4, gap_s=0.5, cut_times=1)],
        "two": says("The second is done."),
    }
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_is_killed_while_it_streams, stage)
        assert not await left_behind(stage.data, stage.shop)
        await to_thread.run_sync(_goes_on, stage)
        settled = await stage.of_kind(TurnSettled)
        assert [one.status for one in settled] == ["done", "done"]
        assert stage.steps("one") == [0, 0], "what was not finished was asked for again, once"
        assert stage.steps("two") == [0]


def _is_killed_while_it_streams(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("Slowly")
        kill_all(stage)


def _goes_on(stage: Stage) -> None:
    with wrapped(stage, "--resume", "s") as tmux:
        tmux.wait_for("▐")
        tmux.wait_for("● Slowly")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("● The second is done.")
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)


@pytest.mark.full
async def test_an_answer_that_reached_the_log_alone_is_shown_after_a_crash_and_known_to_the_next_request(
    tmp_path: Path,
) -> None:
    script = {"one": [Step(text="The first is known.", delay_s=4)], "two": says("The second is done.")}
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_is_killed_before_it_hears, stage)
        assert not await left_behind(stage.data, stage.shop)
        await to_thread.run_sync(_shows_what_it_had_not_heard, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done", "done"]
        assert (stage.steps("one"), stage.steps("two")) == ([0], [0]), "nothing was paid for twice"
        (asked,) = stage.requests("two")
        assert b"The first is known." in (stage.models.find_body(asked.n) or b"")


def _is_killed_before_it_hears(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        for pid in processes_of(stage.data, stage.shop):
            if Path("/proc", str(pid), "exe").readlink() == installed(None).program.resolve():
                os.kill(pid, signal.SIGSTOP)
        tmux.until(
            lambda: any(one.status == "ok" for one in from_thread.run(stage.of_kind, CallOutcome)),
            "the answer did not reach the log",
        )
        kill_all(stage)


def _shows_what_it_had_not_heard(stage: Stage) -> None:
    with wrapped(stage, "--resume", "s") as tmux:
        tmux.wait_for("▐")
        tmux.wait_for("● The first is known.")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("● The second is done.")
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)


@pytest.mark.full
async def test_a_turn_that_is_interrupted_at_the_terminal_ends_with_the_next_prompt(tmp_path: Path) -> None:
    script = {
        "one": [Step(text="I wait.", tools=(bash(effect_command("s", "begun", "; sleep 600")),))],
        "two": says("The second is done."),
    }
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_is_interrupted, stage)
        settled = await stage.of_kind(TurnSettled)
        assert [one.status for one in settled] == ["failed", "done"]
        assert "interrupted at the terminal" in settled[0].error
        assert stage.effects("s").count("begun") == 1


def _is_interrupted(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: stage.effects("s").count("begun") == 1)
        tmux.press("Escape")
        tmux.wait_for("Interrupted")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("● The second is done.")
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)


@pytest.mark.full
async def test_what_is_typed_while_a_turn_runs_follows_in_the_same_turn(tmp_path: Path) -> None:
    script = {
        "one": [Step(text="Slowly, word by word, it comes.", gap_s=0.7)],
        "two": says("The second is done."),
        "three": says("The third is done."),
    }
    async with staged(tmp_path, script) as stage:
        await to_thread.run_sync(_is_typed_ahead, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done", "done"]
        assert [stage.steps(name) for name in script] == [[0], [0], [0]]


def _is_typed_ahead(stage: Stage) -> None:
    with wrapped(stage, "--session", "s", *CLAUDE) as tmux:
        tmux.wait_for("❯")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.enter(prompt("two"), lambda: "Queued" in tmux.screen or len(stage.requests("two")) > 0)
        tmux.wait_for("● The second is done.")
        tmux.enter(prompt("three"), lambda: len(stage.requests("three")) > 0)
        tmux.wait_for("● The third is done.")
        tmux.enter("/exit", lambda: "ended with" in tmux.screen)
