"""`outlast wrap` with the other real programs at a real terminal, and `kill -9` of all of it."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from outlast.records import CallOutcome, TurnSettled
from outlast.session import Session
from outlast.testing.adapter_contract import Subject, staged
from outlast.testing.adapter_contract.promises import left_behind
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.models import Step, ToolUse
from tests.acceptance.tmux import ENDED, Tmux
from tests.acceptance.wrapping import kill_all
from tests.acceptance.wrapping import wrapped as at_terminal
from tests.harnesses import codex, opencode, pi

pytestmark = [pytest.mark.timeout(240), pytest.mark.full]


@dataclass(frozen=True)
class Screen:
    """A program at a terminal, and what it shows."""

    subject: Subject
    command: tuple[str, ...]
    ready: str
    """It takes a prompt."""
    interrupted: str
    leave: str = "/quit"
    sure: str = ""
    """What it shows after Esc, where it wants a second one."""
    furnish: Callable[[Path], None] = lambda _: None
    """Puts into a user's HOME what keeps the program from asking first."""

    @contextmanager
    def wrapped(self, stage: Stage, *words: str, first: str = "") -> Generator[Tmux]:
        """The program at a terminal, which has shown what comes first, and is ready."""
        self.furnish(Path(os.environ["HOME"]))
        with at_terminal(stage, *words) as tmux:
            tmux.wait_for(first)
            tmux.wait_for(self.ready)
            yield tmux

    def shell(self, command: str) -> ToolUse:
        used = self.subject.shell(command)
        assert used is not None
        return used

    def left(self, tmux: Tmux) -> None:
        """The user leaves, and is told how to come back."""
        tmux.enter(self.leave, lambda: ENDED in tmux.screen)
        assert "outlast wrap --resume s" in tmux.screen
        assert f"{ENDED} 0" in tmux.screen


def _of_codex(home: Path) -> None:
    (home / ".codex").mkdir(exist_ok=True)
    known = f'[notice.model_migrations]\n"{codex.MODEL}" = "gpt-6-sol"\n'
    (home / ".codex" / "config.toml").write_text(known)


CODEX = Screen(
    codex.SUBJECT,
    ("--", "codex", "--model", codex.MODEL, "--sandbox", "danger-full-access"),
    ready="Ask Codex",
    interrupted="interrupted",
    furnish=_of_codex,
)
OPENCODE = Screen(
    opencode.SUBJECT,
    ("--", "opencode", "--model", opencode.MODEL),
    ready="commands",
    interrupted="interrupted",
    leave="/exit",
    sure="again to interrupt",
)
PI = Screen(pi.SUBJECT, ("--", "pi", "--model", pi.MODEL), ready="(auto)", interrupted="aborted")
each = pytest.mark.parametrize(
    "program",
    [
        pytest.param(one, id=one.subject.name, marks=pytest.mark.harness(harness=one.subject.name))
        for one in (CODEX, OPENCODE, PI)
    ],
)


@each
async def test_a_turn_that_was_typed_outlives_kill_9_of_everything_and_its_conversation_is_shown_again(
    program: Screen, tmp_path: Path
) -> None:
    shell = program.shell
    script = {
        "one": [Step(text="I look.", tools=(shell("ls"),)), *says("The first is done.")],
        "two": [
            Step(text="I pay.", tools=(shell(effect_command("s", "paid", "; sleep 600")),)),
            *says("The second is done."),
        ],
        "three": says("The third is done."),
    }
    async with staged(program.subject, tmp_path, script) as stage:
        await to_thread.run_sync(_is_killed_while_a_tool_runs, program, stage)
        assert not await left_behind(stage.data, stage.shop), "nothing is left that acts"
        await to_thread.run_sync(_comes_back, program, stage)
        session = await Session.find(stage.world, "s")
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done", "done", "done"]
        assert [str(await session.result(number)) for number in (1, 2, 3)] == [
            "The first is done.",
            "The second is done.",
            "The third is done.",
        ]
        assert [one.status for one in await stage.of_kind(CallOutcome)].count("in_doubt") == 1
        assert stage.effects("s").count("paid") == 1
        assert [stage.steps(name) for name in script] == [[0, 1], [0, 1], [0]], "nothing was paid for twice"
        assert not await left_behind(stage.data, stage.shop)


def _is_killed_while_a_tool_runs(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--session", "s", *program.command) as tmux:
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The first is done.")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.until(lambda: stage.effects("s").count("paid") == 1, "the tool never ran")
        kill_all(stage)


def _comes_back(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--resume", first="what was cut short goes on first") as tmux:
        for shown in (prompt("one"), "The first is done.", prompt("two"), "The second is done."):
            tmux.wait_for(shown)
        tmux.enter(prompt("three"), lambda: len(stage.requests("three")) > 0)
        tmux.wait_for("The third is done.")
        program.left(tmux)


@each
async def test_a_fork_of_what_was_wrapped_is_brought_back_with_its_past_and_both_go_on_by_themselves(
    program: Screen, tmp_path: Path
) -> None:
    script = {
        "one": says("The first is done."),
        "two": says("The fork's second is done."),
        "three": says("The source's second is done."),
    }
    async with staged(program.subject, tmp_path, script) as stage:
        await to_thread.run_sync(_says_once, program, stage)
        source = await Session.find(stage.world, "s")
        fork = await source.fork(id="f")
        await to_thread.run_sync(_goes_on_as, program, stage, "f", "two", "The fork's second is done.")
        await to_thread.run_sync(_goes_on_as, program, stage, "s", "three", "The source's second is done.")
        assert str(await fork.result(2)) == "The fork's second is done."
        assert str(await source.result(2)) == "The source's second is done."
        assert [stage.steps(name) for name in script] == [[0], [0], [0]], "nothing was asked twice"
        assert not await left_behind(stage.data, stage.shop)


def _says_once(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--session", "s", *program.command) as tmux:
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The first is done.")
        program.left(tmux)


def _goes_on_as(program: Screen, stage: Stage, session: str, name: str, said: str) -> None:
    with program.wrapped(stage, "--resume", session) as tmux:
        for shown in (prompt("one"), "The first is done."):
            tmux.wait_for(shown)
        tmux.enter(prompt(name), lambda: len(stage.requests(name)) > 0)
        tmux.wait_for(said)
        other = {"two": "The source's second", "three": "The fork's second"}[name]
        assert other not in tmux.screen
        tmux.enter(program.leave, lambda: ENDED in tmux.screen)
        assert f"outlast wrap --resume {session}" in tmux.screen
        assert f"{ENDED} 0" in tmux.screen


@each
async def test_what_is_typed_while_a_turn_runs_outlives_kill_9_while_the_answer_streams(
    program: Screen, tmp_path: Path
) -> None:
    shell = program.shell
    slow = Step(text="Slowly, word by word, it comes. " * 2, gap_s=0.25, cut_times=1)
    script = {
        "one": [Step(text="I wait.", tools=(shell(effect_command("s", "begun", "; sleep 3")),)), slow],
        "two": says("The second is done."),
    }
    async with staged(program.subject, tmp_path, script) as stage:
        await to_thread.run_sync(_is_killed_while_it_streams, program, stage)
        assert not await left_behind(stage.data, stage.shop)
        await to_thread.run_sync(_goes_on, program, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done", "done"]
        assert (stage.steps("one"), stage.steps("two")) == ([0, 1, 1], [0])
        bodies = [stage.models.find_body(one.n) or b"" for one in stage.requests("one")]
        assert [body.count(b"Hurry up.") for body in bodies] == [0, 1, 1]
        assert stage.effects("s").count("begun") == 1


def _is_killed_while_it_streams(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--session", "s", *program.command) as tmux:
        tmux.enter(prompt("one"), lambda: stage.effects("s").count("begun") == 1)
        tmux.enter("Hurry up.", partial(_asked_again, stage))
        tmux.wait_for("Slowly")
        kill_all(stage)


def _asked_again(stage: Stage) -> bool:
    return len(stage.requests("one")) > 1


def _goes_on(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--resume", "s") as tmux:
        tmux.wait_for("Slowly")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("The second is done.")
        program.left(tmux)


@each
async def test_a_turn_that_is_interrupted_at_the_terminal_ends_so(program: Screen, tmp_path: Path) -> None:
    shell = program.shell
    script = {
        "one": [Step(text="I wait.", tools=(shell(effect_command("s", "begun", "; sleep 600")),))],
        "two": says("The second is done."),
    }
    async with staged(program.subject, tmp_path, script) as stage:
        await to_thread.run_sync(_is_interrupted, program, stage)
        settled = await stage.of_kind(TurnSettled)
        assert [one.status for one in settled] == ["failed", "done"]
        assert "interrupted at the terminal" in settled[0].error
        assert stage.effects("s").count("begun") == 1


def _is_interrupted(program: Screen, stage: Stage) -> None:
    with program.wrapped(stage, "--session", "s", *program.command) as tmux:
        tmux.enter(prompt("one"), lambda: stage.effects("s").count("begun") == 1)
        tmux.press("Escape")
        if program.sure:
            tmux.wait_for(program.sure)
            tmux.press("Escape")
        tmux.wait_for(program.interrupted)
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("The second is done.")
        program.left(tmux)
