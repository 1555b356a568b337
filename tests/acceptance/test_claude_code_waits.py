"""The real Claude Code waits and asks a person, without being there meanwhile, and edits documents."""

from pathlib import Path

import anyio
import pytest

from outlast.gate import Point
from outlast.records import DocumentEdited, Set
from outlast.testing.adapter_contract.stage import LIMIT_S, Stage, ended, prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from tests.harnesses.claude_code import PREFIX
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.full, pytest.mark.timeout(180)]


def waits(**about: object) -> ToolUse:
    return ToolUse(name=f"{PREFIX}outlast_wait", input=about)


async def at_rest(stage: Stage) -> None:
    """Return when the turn waits, and nobody holds the session."""
    session = await stage.session()
    with anyio.fail_after(LIMIT_S):
        while (head := await session.head()).worker is not None or "waiting" not in head.status:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def test_claude_code_asks_a_person_who_answers_once(tmp_path: Path) -> None:
    ask = ToolUse(name=f"{PREFIX}outlast_ask", input={"question": "May I push?", "choices": ["yes", "no"]})
    script = {"go": [Step(text="I ask.", tools=(ask,)), *says("Then I push.")]}
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await at_rest(stage)
            session = await stage.session()
            call = await stage.call("outlast_ask")
            await session.decide(call.call, value="yes, but only once", by="ann")
            await session.decide(call.call, value="no", by="bob")
            assert str(await ended(turn)) == "Then I push."
        assert b"yes, but only once" in (stage.models.find_body(stage.requests("go")[-1].n) or b"")
        await stage.kept()


@pytest.mark.parametrize("point", [Point.AFTER_OUTCOME, Point.OUTCOME_QUEUED])
async def test_a_worker_that_dies_when_the_signal_has_come_loses_nothing(
    tmp_path: Path, point: Point
) -> None:
    script = {"go": [Step(text="I wait.", tools=(waits(signal="ci"),)), *says("It came.")]}
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await at_rest(stage)
        await (await stage.session()).signal("ci", "green")
        await stage.killed_at(Spot(point, "wait"))
        assert str(await stage.finish(turn)) == "It came."
        assert stage.steps("go") == [0, 1]
        await stage.kept()


async def test_a_wait_of_a_program_can_be_cancelled_and_the_next_turn_is_sound(tmp_path: Path) -> None:
    script = {
        "go": [Step(text="I wait.", tools=(waits(signal="ci"),)), *says("It came.")],
        "next": says("Sure."),
    }
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await at_rest(stage)
            await turn.cancel("never mind")
            assert (await ended(turn)).status == "cancelled"
            assert str(await ended(await stage.send(prompt("next")))) == "Sure."
        await stage.kept()


@pytest.mark.parametrize("point", [Point.IN_EFFECT, Point.OUTCOME_QUEUED])
async def test_claude_code_edits_a_document_once_whenever_its_worker_dies(
    tmp_path: Path, point: Point
) -> None:
    def document(**about: object) -> ToolUse:
        return ToolUse(name=f"{PREFIX}outlast_document", input={"name": "plan", **about})

    more = document(edits=[{"op": "set", "path": "/steps/-", "value": "build the page"}], if_version=1)
    wrong = document(edits=[{"op": "set", "path": "/steps/none", "value": 1}])
    script = {
        "go": [
            Step(text="I look.", tools=(document(),)),
            Step(text="I note.", tools=(more,)),
            Step(text="I err.", tools=(wrong,)),
            *says("It is noted."),
        ]
    }
    async with staged(tmp_path, script) as stage:
        session = await stage.session()
        await session.edit("plan", Set({"steps": ["look around"]}), by="ann")
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(point, "safe", 2))
        assert str(await stage.finish(turn)) == "It is noted."
        assert (await session.document("plan")).value == {"steps": ["look around", "build the page"]}
        edits = await stage.of_kind(DocumentEdited)
        assert [edit.version for edit in edits] == [1, 2]
        bodies = [stage.models.find_body(request.n) or b"" for request in stage.requests("go")]
        assert b"look around" in bodies[1], "what it read is in its next request"
        assert b"has no place 'none'" in bodies[-1], "what it cannot do it is told"
        await stage.kept()
