"""Any ACP agent, by a stand-in that speaks the protocol: by call through the gateway, and by turn past it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from outlast.adapter import Agent
from outlast.adapters.acp import Acp
from outlast.gate import Point
from outlast.records import CallOutcome, SteerTaken
from outlast.testing.adapter_contract import CASES, Compaction, Ground, Stage, Subject, staged
from outlast.testing.adapter_contract.stage import ended, prompt, says, until
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse, Usage
from outlast.tool import Tool
from tests.harnesses.acp import STAND_IN_COMMAND, STAND_IN_DOOR, OpenCodeAcp, StandIn

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120), pytest.mark.anyio]

LAST = "That was all."


class Forgetful(StandIn):
    """It cannot bring a session back: it is told the prompt again, and the log answers."""

    recipe: ClassVar[str] = "tests.acceptance.test_acp:FORGETFUL"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        command = [*STAND_IN_COMMAND, "--forgets"]
        return Agent(self.name, Acp(command, name=self.name, model=STAND_IN_DOOR), tools=tools)


class ByTurn(StandIn):
    """Its model calls go past us."""

    recipe: ClassVar[str] = "tests.acceptance.test_acp:BY_TURN"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        files, env = [".stand-in/*.jsonl"], {"STAND_IN_BASE_URL": upstream}
        return Agent(self.name, Acp(STAND_IN_COMMAND, name=self.name, files=files, env=env), tools=tools)


BY_CALL, FORGETFUL, BY_TURN = StandIn(), Forgetful(), ByTurn()
ALL = pytest.mark.parametrize(
    "subject", [BY_CALL, FORGETFUL, BY_TURN], ids=["by call", "forgetful", "by turn"]
)


def run(command: str) -> ToolUse:
    return ToolUse(name="run", input={"command": command})


def note(path: str, text: str) -> ToolUse:
    return ToolUse(name="note", input={"path": path, "text": text})


@asynccontextmanager
async def on_stage(subject: Subject, directory: Path, *steps: Step) -> AsyncGenerator[Stage]:
    async with staged(subject, directory, {"go": [*steps, *says(LAST)]}) as stage:
        yield stage


@ALL
async def test_files_and_terminals_are_served_from_the_workspace(subject: Subject, tmp_path: Path) -> None:
    tools = (note("a.txt", "one\n"), run("cat a.txt; echo wrong >&2; exit 3"), note("../b.txt", "no"))
    async with on_stage(subject, tmp_path, Step(text="At once.", tools=tools)) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert (outcome.status, str(outcome)) == ("done", LAST)
        assert b"one\\nwrong\\nstatus 3" in stage.last_body()
        assert b"lies outside the session's directory" in stage.last_body()
        assert (stage.shop / "a.txt").read_text() == "one\n"
        assert not (tmp_path / "b.txt").exists()
        assert len(stage.requests()) == 2


@ALL
async def test_a_tool_that_runs_when_the_worker_dies_is_in_doubt_and_not_repeated(
    subject: Subject, tmp_path: Path
) -> None:
    tool = run("echo ran >> ran.txt; sleep 600")
    async with on_stage(subject, tmp_path, Step(text="A command.", tools=(tool,))) as stage:
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until((stage.shop / "ran.txt").exists)
        victim.kill()
        await victim.death()
        stage.forget_home()
        outcome = await stage.finish(await stage.send(prompt("go"), id="go"))
        assert (outcome.status, str(outcome)) == ("done", LAST)
        assert (stage.shop / "ran.txt").read_text() == "ran\n"
        assert "in_doubt" in {one.status for one in await stage.of_kind(CallOutcome)}
        assert b"It is not known whether this call took effect" in stage.last_body()
        if subject is not BY_TURN:
            assert stage.steps() == [0, 1]
            assert b"outlast: resumed" not in stage.last_body()


@pytest.mark.parametrize("subject", [BY_CALL, FORGETFUL], ids=["by call", "forgetful"])
@pytest.mark.parametrize(
    ("spot", "sent"),
    [
        (Spot(Point.IN_EFFECT, "model", 1), [0, 0, 1]),
        (Spot(Point.AFTER_OUTCOME, "model", 1), [0, 1]),
        (Spot(Point.IN_EFFECT, "model", 4), [0, 1, 1]),
        (Spot(Point.BEFORE_SETTLE), [0, 1]),
    ],
    ids=["first streams", "first not delivered", "last streams", "turn over"],
)
async def test_a_finished_model_call_never_goes_upstream_again(
    subject: Subject, spot: Spot, sent: list[int], tmp_path: Path
) -> None:
    tool = run("echo ran >> ran.txt")
    async with on_stage(subject, tmp_path, Step(text="A command.", tools=(tool,))) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        outcome = await stage.finish(await stage.send(prompt("go"), id="go"))
        assert (outcome.status, str(outcome)) == ("done", LAST)
        assert stage.steps() == sent
        never_begun = b"had not begun when the process was lost" in stage.last_body()
        ran = stage.shop / "ran.txt"
        assert (ran.read_text() if ran.exists() else "") == ("" if never_begun else "ran\n")


@ALL
async def test_a_wait_stops_the_agent_and_what_came_is_told_it(subject: Subject, tmp_path: Path) -> None:
    tools = (subject.application("outlast_wait", signal="ci"), subject.application("look", mark="a"))
    async with on_stage(subject, tmp_path, Step(text="I wait.", tools=tools)) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await at_rest(stage)
            assert stage.commands() == []
        stage.forget_home()
        await (await stage.session()).signal("ci", "all of it is green")
        assert str(await stage.finish(turn)) == LAST
        assert b"all of it is green" in stage.last_body()
        assert len(stage.requests()) == 2
        assert stage.effects().count("a") == 1


@ALL
async def test_the_application_s_tools_act_once_each(subject: Subject, tmp_path: Path) -> None:
    tools = tuple(subject.application(name, mark=name) for name in ("charge", "look", "pay", "book"))
    async with on_stage(subject, tmp_path, Step(text="I act.", tools=tools)) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == LAST
        for name in ("charge", "look", "pay", "book"):
            assert stage.effects().count(name) == 1
            assert (await stage.call(name)).runs_in == "worker"
        assert b"charge charge is done" in stage.last_body()


@pytest.mark.parametrize("subject", [BY_CALL, BY_TURN], ids=["by call", "by turn"])
async def test_a_steer_becomes_the_next_prompt(subject: Subject, tmp_path: Path) -> None:
    tool = run("echo ran > ran.txt; while [ ! -e on.txt ]; do sleep 0.1; done")
    async with on_stage(subject, tmp_path, Step(text="A command.", tools=(tool,))) as stage:
        turn = await stage.send(prompt("go"))
        session = await stage.session()
        async with stage.worker():
            await until((stage.shop / "ran.txt").exists)
            await session.steer(prompt("go", "The blue one."))
            (stage.shop / "on.txt").touch()
            assert str(await ended(turn)) == LAST
            assert b"The blue one." not in stage.last_body()
            await until(lambda: b"The blue one." in stage.last_body())
            await until(lambda: stage.requests()[-1].outcome == "completed")
        assert await stage.of_kind(SteerTaken) == []


@ALL
async def test_an_agent_whose_turn_is_cancelled_is_told_before_it_is_killed(
    subject: Subject, tmp_path: Path
) -> None:
    tool = run("echo ran > ran.txt; sleep 600")
    async with on_stage(subject, tmp_path, Step(text="A command.", tools=(tool,))) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await until((stage.shop / "ran.txt").exists)
            await turn.cancel()
            assert (await ended(turn)).status == "cancelled"
            assert stage.commands() == []
        assert (stage.home("s") / "cancelled").exists()


async def at_rest(stage: Stage) -> None:
    """Return when the turn waits, and nobody holds the session."""
    session = await stage.session()
    with anyio.fail_after(60):
        while (head := await session.head()).worker is not None or "waiting" not in head.status:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def test_the_next_turn_knows_the_one_before(tmp_path: Path) -> None:
    script = {"go": says("The word is Rosalind."), "next": says(LAST)}
    async with staged(BY_CALL, tmp_path, script) as stage:
        await stage.finish(await stage.send(prompt("go")))
        stage.move()
        assert str(await stage.finish(await stage.send(prompt("next")))) == LAST
        assert b"Rosalind" in stage.last_body()


def test_an_agent_says_how_durable_its_turns_are() -> None:
    by_call = BY_CALL.agent((), upstream="").adapter
    by_turn = BY_TURN.agent((), upstream="").adapter
    assert (by_call.settings()["durable"], by_turn.settings()["durable"]) == ("by call", "by turn")
    assert by_call.check() == []
    assert "its turns are durable as a whole" in by_turn.check()[0]


class SumsUp(OpenCodeAcp):
    """It is brought to compact its conversation."""

    recipe: ClassVar[str] = "tests.acceptance.test_acp:SUMS_UP"

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction:
        # What is summed up stands in the request as the words of a user.
        first = Step(text="I act. [script:summary]", tools=(early,), usage=Usage(input_tokens=990_000))
        return Compaction([first], conversations={"summary": [Step(text=summary)]}, keeps=1, then="default")


SUMS_UP = SumsUp()


@pytest.mark.full
@pytest.mark.harness(harness="opencode-acp")
@pytest.mark.timeout(240)
async def test_an_agent_without_sub_agents_may_forget_the_prompt_in_a_summary(tmp_path: Path) -> None:
    (case,) = [one for one in CASES if one.name == "a_compaction_by_the_harness_is_no_divergence"]
    await case.run(Ground(SUMS_UP, tmp_path))
