"""Turns of the real Claude Code that nobody kills: prompts, tools, steers, cancels, a provider that fails."""

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from outlast.adapters.claude_code.results import in_messages
from outlast.gate import Point
from outlast.records import CallOutcome, TurnParked
from outlast.testing.adapter_contract.shop import effect_command, picture
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, seen, until
from outlast.testing.faults import Spot
from outlast.testing.models import Step
from tests.harnesses.claude_code import agent_use, bash, use, write
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.timeout(180)]
full = pytest.mark.full


@pytest.mark.harness(turns=2)
async def test_a_turn_with_tools_of_every_policy_ends_done_and_another_worker_takes_the_next_turn(
    tmp_path: Path,
) -> None:
    script = {
        "first": [
            Step(text="All at once.", tools=(
                use("charge", mark="a"), use("look", mark="b"), use("pay", mark="c"), use("book", mark="d"),
                use("refuse", mark="e"), bash(effect_command("s", "f")), bash("ls"),
            )),
            Step(text="And a file.", tools=(write("notes.txt", "n\n"), bash('printf %s "$HOME" > home.txt'))),
            *says("That was the first."),
        ],
        "second": says("That was the second."),
    }  # fmt: skip
    async with staged(tmp_path, script) as stage:
        (stage.shop / "CLAUDE.md").write_text("The owner is called Rosalind.")
        (tmp_path / "user" / ".claude").mkdir()
        (tmp_path / "user" / ".claude" / "CLAUDE.md").write_text("The user is called Orlando.")
        first = await stage.finish(await stage.send(prompt("first")))
        assert str(first) == "That was the first."
        assert (stage.shop / "notes.txt").read_text() == "n\n"
        assert [effect.mark for effect in stage.effects().all()].count("f") == 1
        failed = [one for one in await stage.of_kind(CallOutcome) if one.status == "error"]
        assert len(failed) == 1
        stage.forget_home()
        assert str(await stage.finish(await stage.send(prompt("second")))) == "That was the second."
        assert stage.steps("first") == [0, 1, 2]
        assert stage.steps("second") == [0]
        await stage.kept()
        bodies = [stage.models.find_body(one.n) or b"" for one in stage.requests()]
        assert all(b"Rosalind" in body for body in bodies), "the project's instructions are kept"
        assert all(b"Orlando" in body for body in bodies), "the user's instructions are kept"
        assert (stage.shop / "home.txt").read_text() == str(tmp_path / "user"), "tools have the user's HOME"
        frames = [{**msgspec.json.decode(body), "messages": 0, "metadata": 0} for body in bodies]
        assert all(frame == frames[0] for frame in frames), "the provider's cache of the prompt holds"


@full
async def test_a_turn_after_one_that_the_provider_refused_goes_on(tmp_path: Path) -> None:
    script = {"go": [Step(text="Never said.", status=400, times="always")], "next": says("Better now.")}
    async with staged(tmp_path, script) as stage:
        assert (await stage.finish(await stage.send(prompt("go")))).status == "failed"
        assert str(await stage.finish(await stage.send(prompt("next")))) == "Better now."
        await stage.kept(lost_answers=1)


@full
async def test_a_steer_that_comes_too_late_becomes_the_next_prompt(tmp_path: Path) -> None:
    script = {"go": [Step(text="Too late for you.", delay_s=1.5)], "late": says("Now it is your turn.")}
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        session = await stage.session()
        async with stage.worker():
            await stage.models.wait_until(lambda requests: len(requests) == 1, 30)
            steer = await session.steer(prompt("late", "One more thing."))
            assert (await ended(turn)).status == "done"
            await until(lambda: len(stage.requests("late")) == 1)
            await ended_all(stage)
        assert stage.steps("go") == [0]
        assert stage.steps("late") == [0]
        found = await stage.world.find_input("s", steer)
        assert found is not None
        assert found.consumed_by is not None
        assert (await stage.last_settled()).status == "done"
        await stage.kept()


async def ended_all(stage: Stage) -> None:
    """Wait until no turn is open and nothing waits."""
    session = await stage.session()
    async for event in session.follow():
        if event.kind == "turn.settled":
            state = await session.state()
            if state.turn is None and not state.queue and not await stage.world.inputs("s"):
                return


async def test_a_credential_that_is_refused_ends_the_turn_with_the_provider_s_words(tmp_path: Path) -> None:
    script = {"go": [Step(text="Never said.", status=401, times="always")]}
    async with staged(tmp_path, script) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert outcome.status == "failed"
        assert "authenticat" in outcome.error
        # Claude Code asks its key helper again, and the provider with it.
        assert len(stage.requests()) <= 3
        await stage.kept(lost_answers=3)


@full
@pytest.mark.parametrize(
    "fault",
    [
        Step(text="Here I am, at last.", status=500, times=2),
        Step(text="Here I am, at last.", garbage="html"),
        Step(text="Here I am, at last.", garbage="json"),
        Step(text="Here I am, at last.", garbage="sse"),
        Step(text="Here I am, at last.", garbage="empty"),
        Step(text="Here I am, at last.", garbage="truncated"),
    ],
    ids=["500", "html", "json", "sse", "empty", "truncated"],
)
async def test_a_provider_that_fails_in_passing_is_asked_again(tmp_path: Path, fault: Step) -> None:
    async with staged(tmp_path, {"go": [fault, *says("The end.")]}) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert outcome.status == "done"
        assert stage.effects().count("a") <= 1
        lost = [one for one in stage.requests() if one.outcome != "completed"]
        await stage.kept(lost_answers=len(lost))


@full
async def test_a_parked_turn_shows_nothing_and_a_cancel_ends_it(tmp_path: Path) -> None:
    script = {"go": [Step(text="Never.", status=529, times="always")]}
    async with staged(tmp_path, script, retries=1) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await seen(turn, lambda event: event.kind == "turn.parked")
            await turn.cancel()
            assert (await ended(turn)).status == "cancelled"
        (parked,) = await stage.of_kind(TurnParked)
        assert parked.why == "stuck"
        assert parked.evidence["refused_by_provider"] == 2
        assert "529" in msgspec.json.encode(parked.evidence).decode()
        await stage.kept(lost_answers=2)


@full
async def test_a_provider_that_fails_in_a_sub_agent_is_asked_again_too(tmp_path: Path) -> None:
    script = {
        "go": [Step(text="I ask somebody.", tools=(agent_use("sub"),)), *says("The end.")],
        "sub": [
            Step(text="I look.", tools=(use("charge", mark="inner"),)),
            Step(text="The report.", status=529, times=2),
        ],
    }
    async with staged(tmp_path, script) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == "The end."
        assert stage.effects().count("inner") == 1
        last = stage.models.find_body(stage.requests()[-1].n) or b""
        assert b"The report." in last
        await stage.kept(lost_answers=2)


@full
async def test_a_result_too_large_for_a_request_is_there_in_a_fresh_home(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "large.txt").write_text("one line of many\n" * 20_000)
    script = {
        "go": [Step(text="It is large.", tools=(bash("cat large.txt"),)), *says("That was large.")],
        "next": says("And on."),
    }
    async with staged(tmp_path, script) as stage:
        await stage.finish(await stage.send(prompt("go")))
        (kept,) = stage.home("s").rglob("tool-results/*")
        whole = kept.read_text()
        assert len(whole) > 100_000
        stage.forget_home()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        assert kept.read_text().rstrip("\n") == whole.rstrip("\n")
        await stage.kept()


@full
@pytest.mark.parametrize("spot", [None, Spot(Point.AFTER_OUTCOME, "safe")], ids=str)
async def test_an_image_of_a_tool_reaches_the_model_also_in_a_fresh_home(
    tmp_path: Path, spot: Spot | None
) -> None:
    script = {
        "go": [Step(text="I draw.", tools=(use("draw", mark="a"),)), *says("It is red.")],
        "next": says("As I said."),
    }
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"))
        if spot is not None:
            await stage.killed_at(spot)
        assert str(await stage.finish(turn)) == "It is red."
        assert stage.steps("go") == [0, 1]
        stage.forget_home()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "As I said."
        data = {"type": "base64", "media_type": "image/png", "data": b64encode(picture()).decode()}
        for request in stage.requests()[1:]:
            body = msgspec.json.decode(stage.models.find_body(request.n) or b"")
            (result,) = in_messages(body["messages"]).values()
            assert result.content[0] == {"type": "text", "text": "draw a is done"}
            assert result.content[1] == {"type": "image", "source": data}
        copies = stage.home("s").glob("**/tool-results/*.png")  # Claude Code keeps one of what it was given
        assert [copy.read_bytes() for copy in copies] == ([picture()] if spot is None else [])
        await stage.kept()
