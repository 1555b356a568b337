"""What Codex types into a running program: neither its hooks nor its approvals are asked, so the gateway decides."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from outlast.adapters.codex.files import NOT_TYPED
from outlast.gate import Point
from outlast.records import CallOutcome, CallStarted, TurnParked
from outlast.recovery import NEVER_BEGAN
from outlast.rules import Rule, ask, deny
from outlast.session import Turn
from outlast.testing.adapter_contract import Stage, staged
from outlast.testing.adapter_contract.promises import left_behind
from outlast.testing.adapter_contract.shop import effect_command, release
from outlast.testing.adapter_contract.stage import LIMIT_S, ended, prompt, says, until
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from tests.harnesses.codex import SUBJECT

pytestmark = [pytest.mark.harness(harness="codex"), pytest.mark.full, pytest.mark.timeout(240)]

READS = {"cmd": 'read -r line; echo "$line" >> typed', "tty": True, "yield_time_ms": 250}


class Typing:
    """A turn that starts a program which reads a line, and then types one, other calls beside it."""

    def __init__(self, *beside: ToolUse) -> None:
        self._use = ToolUse(name="write_stdin", input={"chars": "y\n"})
        program = ToolUse(name="exec_command", input=READS)
        known = SUBJECT.application("look", mark="known", until="known")
        self.script = {
            "go": [
                Step(text="A program.", tools=(program,)),
                Step(text="A look.", tools=(known,)),
                Step(text="I say yes.", tools=(self._use, *beside)),
                *says("So be it."),
            ]
        }

    async def name_program(self, stage: Stage) -> None:
        """Let the model know the program's number in Codex before it types."""
        await until(lambda: stage.effects().count("known") == 1)
        found = re.search(rb"session ID (\d+)", stage.last_body())
        assert found is not None, "Codex has said how to go on"
        self._use.input["session_id"] = int(found[1])
        release("known")


@asynccontextmanager
async def on_stage(tmp_path: Path, typing: Typing, *rules: Rule) -> AsyncGenerator[Stage]:
    async with staged(SUBJECT, tmp_path, typing.script) as stage:
        stage.agent = replace(stage.agent, rules=rules)
        yield stage


def typed(stage: Stage) -> str:
    """What the program has read."""
    file = stage.shop / "typed"
    return file.read_text() if file.exists() else ""


async def typed_call(stage: Stage) -> tuple[int, CallOutcome]:
    call = (await stage.call("write_stdin")).call
    (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == call]
    return call, outcome


async def carried(stage: Stage, typing: Typing) -> Turn:
    turn = await stage.send(prompt("go"))
    async with stage.worker():
        await typing.name_program(stage)
        assert str(await ended(turn)) == "So be it."
    return turn


async def test_what_is_typed_stands_in_the_log_before_the_program_reads_it(tmp_path: Path) -> None:
    typing = Typing()
    async with on_stage(tmp_path, typing) as stage:
        await carried(stage, typing)
        call, outcome = await typed_call(stage)
        assert outcome.status == "ok"
        assert call in {one.call for one in await stage.of_kind(CallStarted)}
        await until(lambda: typed(stage) == "y\n")
        await stage.kept()


async def test_what_a_rule_denies_is_not_typed_and_nothing_of_its_answer_runs(tmp_path: Path) -> None:
    typing = Typing(SUBJECT.shell(effect_command("s", "beside")))
    async with on_stage(tmp_path, typing, deny("write_stdin", chars="?*", why="Say no.")) as stage:
        await carried(stage, typing)
        call, outcome = await typed_call(stage)
        assert outcome.status == "error"
        assert call not in {one.call for one in await stage.of_kind(CallStarted)}
        assert typed(stage) == ""
        assert [effect.mark for effect in stage.effects().all()] == ["known"]
        assert b"Say no." in stage.last_body(), "the model is told why"
        assert NEVER_BEGAN.encode() in stage.last_body(), "and of the call beside it"
        assert stage.steps() == [0, 1, 2, 3]
        await stage.kept()


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_what_a_rule_wants_asked_is_not_typed_and_no_process_is_left(
    tmp_path: Path, word: Literal["allow", "deny"]
) -> None:
    typing = Typing()
    async with on_stage(tmp_path, typing, ask("write_stdin")) as stage:
        session = await stage.session()
        turn = await session.send(prompt("go"))
        async with stage.worker():
            await typing.name_program(stage)
            with anyio.fail_after(LIMIT_S):
                while not await stage.of_kind(TurnParked):  # noqa: ASYNC110 - the log tells nobody
                    await anyio.sleep(0.05)
            assert not await left_behind(stage.home("s"))
            await session.decide((await stage.call("write_stdin")).call, word)
            assert str(await ended(turn)) == "So be it."
        told = NOT_TYPED if word == "allow" else "A person did not allow this call."
        assert told.encode() in stage.last_body()
        assert typed(stage) == ""
        await stage.kept()


@pytest.mark.parametrize("point", [Point.BEFORE_START, Point.AFTER_START])
async def test_a_worker_killed_as_something_is_about_to_be_typed_types_nothing_twice(
    tmp_path: Path, point: Point
) -> None:
    typing = Typing(SUBJECT.shell(effect_command("s", "beside")))
    async with on_stage(tmp_path, typing) as stage:
        turn = await stage.send(prompt("go"), id="go")
        victim = await stage.victim(Spot(point, "never", 2), session="s")
        await typing.name_program(stage)
        await victim.death()
        stage.forget_home()
        assert str(await stage.finish(turn)) == "So be it."
        _, outcome = await typed_call(stage)
        assert outcome.status == "in_doubt"
        assert typed(stage) == ""
        assert [effect.mark for effect in stage.effects().all()] == ["known"]
        await stage.kept()
