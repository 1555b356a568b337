"""`outlast wrap -- opencode`: what its own screen asks and offers."""

import json
from pathlib import Path

import pytest
from anyio import to_thread

from outlast.records import TurnSettled
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.models import Step
from tests.acceptance.tmux import ENDED
from tests.acceptance.wrapping import wrapped
from tests.harnesses.opencode import MODEL, SUBJECT

pytestmark = [pytest.mark.timeout(240), pytest.mark.full, pytest.mark.harness(harness="opencode")]
OPENCODE = ("--session", "s", "--", "opencode", "--model", MODEL)


async def test_a_rule_that_wants_a_person_asked_asks_who_sits_at_the_terminal(tmp_path: Path) -> None:
    used = SUBJECT.shell(effect_command("s", "paid"))
    assert used is not None
    script = {"one": [Step(text="I pay.", tools=(used,)), *says("It is paid.")]}
    async with staged(SUBJECT, tmp_path, script) as stage:
        (stage.shop / "opencode.json").write_text(json.dumps({"permission": {"bash": "ask"}}))
        await to_thread.run_sync(_is_asked, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done"]


def _is_asked(stage: Stage) -> None:
    with wrapped(stage, *OPENCODE) as tmux:
        tmux.wait_for("commands")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("Permission required")
        assert stage.effects("s").count("paid") == 0
        tmux.press("Enter")
        tmux.wait_for("It is paid.")
        assert stage.effects("s").count("paid") == 1
        tmux.enter("/exit", lambda: ENDED in tmux.screen)


async def test_a_prompt_in_another_session_of_its_is_not_sent(tmp_path: Path) -> None:
    async with staged(SUBJECT, tmp_path, {"one": says("The first is done."), "two": says("No.")}) as stage:
        await to_thread.run_sync(_is_elsewhere, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["done"]
        assert not stage.requests("two")


def _is_elsewhere(stage: Stage) -> None:
    with wrapped(stage, *OPENCODE) as tmux:
        tmux.wait_for("commands")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The first is done.")
        tmux.enter("/new", lambda: "The first is done." not in tmux.screen)
        # It shows the other session a moment later, and takes no keys meanwhile: the terminal is closed instead.
        tmux.enter(prompt("two"), lambda: "Failed to send prompt" in tmux.screen)


async def test_a_program_that_is_left_while_a_turn_runs_ends_the_turn(tmp_path: Path) -> None:
    used = SUBJECT.shell(effect_command("s", "begun", "; sleep 600"))
    assert used is not None
    script = {"one": [Step(text="I wait.", tools=(used,))], "two": says("The second is done.")}
    async with staged(SUBJECT, tmp_path, script) as stage:
        await to_thread.run_sync(_is_left, stage)
        assert [one.status for one in await stage.of_kind(TurnSettled)] == ["failed", "done"]
        assert stage.effects("s").count("begun") == 1


def _is_left(stage: Stage) -> None:
    with wrapped(stage, *OPENCODE) as tmux:
        tmux.wait_for("commands")
        tmux.enter(prompt("one"), lambda: stage.effects("s").count("begun") == 1)
        tmux.enter("/exit", lambda: ENDED in tmux.screen)
        assert f"{ENDED} 0" in tmux.screen
    with wrapped(stage, "--resume", "s") as tmux:
        tmux.wait_for("I wait.")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("The second is done.")
        tmux.enter("/exit", lambda: ENDED in tmux.screen)


async def test_a_failure_of_the_provider_is_shown_and_ends_the_turn(tmp_path: Path) -> None:
    script = {"one": [Step(status=529), *says("Not yet.")], "two": says("The second is done.")}
    async with staged(SUBJECT, tmp_path, script) as stage:
        await to_thread.run_sync(_fails, stage)
        settled = await stage.of_kind(TurnSettled)
        assert [one.status for one in settled] == ["failed", "done"]
        assert settled[0].error
        assert len(stage.requests("one")) == 1


def _fails(stage: Stage) -> None:
    with wrapped(stage, *OPENCODE) as tmux:
        tmux.wait_for("commands")
        tmux.enter(prompt("one"), lambda: len(stage.requests("one")) > 0)
        tmux.wait_for("The provider failed")
        tmux.enter(prompt("two"), lambda: len(stage.requests("two")) > 0)
        tmux.wait_for("The second is done.")
        tmux.enter("/exit", lambda: ENDED in tmux.screen)
