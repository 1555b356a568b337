"""The real Claude Code, with its worker killed by SIGKILL; another worker goes on in a fresh home."""

import random
from pathlib import Path

import pytest

from outlast.gate import Point
from outlast.records import CallOutcome, SteerTaken
from outlast.testing.adapter_contract.kill_cases import LAST, batch, carried_on
from outlast.testing.adapter_contract.stage import prompt, says, until
from outlast.testing.faults import RecordingGate, Spot, spots
from outlast.testing.models import Step
from tests.harnesses.claude_code import SUBJECT, bash, use, write
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.full, pytest.mark.timeout(240)]

BATCH = batch(SUBJECT)


async def test_a_kill_after_a_call_was_run_again_costs_nothing_either(tmp_path: Path) -> None:
    script = {"go": [Step(text="I look.", tools=(bash("ls"),)), *says(LAST)]}
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "safe"), Spot(Point.IN_EFFECT, "model"))
        await carried_on(stage, lost_answers=1)


async def test_a_reminder_of_claude_code_s_own_stays_where_it_was(tmp_path: Path) -> None:
    looks = [Step(text=f"Look {number}.", tools=(bash("ls"),)) for number in range(7)]
    async with staged(tmp_path, {"go": [*looks, *says(LAST)]}) as stage:
        await stage.send(prompt("go"), id="go")
        # The sixth request brings the first one. The second process makes it anew, and dies before writing it down.
        await stage.killed_at(Spot(Point.AFTER_INTENT, "model", 6), Spot(Point.AFTER_OUTCOME, "model"))
        await carried_on(stage, lost_answers=1)
        last = stage.models.find_body(stage.requests()[-1].n) or b""
        assert last.count(b"The task tools haven't been used recently") == 1


async def test_a_shell_command_that_only_reads_and_was_cut_off_is_run_again(tmp_path: Path) -> None:
    script = {"go": [Step(text="A command.", tools=(bash("sleep 2; ls"),)), *says(LAST)]}
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until(lambda: any(b"sleep" in command for command in stage.commands()))
        victim.kill()
        await victim.death()
        stage.forget_home()
        await carried_on(stage, lost_answers=0)
        call = await stage.call("Bash")
        (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == call.call]
        assert outcome.status == "ok"


async def test_a_write_that_was_cut_off_is_not_repeated(tmp_path: Path) -> None:
    script = {"go": [Step(text="A file.", tools=(write("notes.txt", "n\n"),)), *says(LAST)]}
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "verify"))
        (stage.shop / "notes.txt").write_text("somebody else's\n")
        await carried_on(stage, lost_answers=0)
        assert (stage.shop / "notes.txt").read_text() == "somebody else's\n"


@pytest.mark.parametrize(
    "spot",
    [
        Spot(Point.STEER_TAKEN, "model"),
        Spot(Point.IN_EFFECT, "model", 4),
        Spot(Point.AFTER_OUTCOME, "model", 2),
    ],
    ids=str,
)
async def test_a_steer_that_a_request_carried_is_not_repeated_after_a_kill(
    tmp_path: Path, spot: Spot
) -> None:
    tools = (use("look", mark="a"), bash("sleep 2; ls"))
    script = {
        "go": [Step(text="I work.", tools=tools), Step(text="As you say.", tools=(bash("ls"),)), *says(LAST)]
    }
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(spot, session="s")
        await until(lambda: stage.effects().count("a") == 1)
        await (await stage.session()).steer("Use the blue one instead.", id="blue")
        await victim.death()
        stage.forget_home()
        await carried_on(stage, lost_answers=1)
        assert len(await stage.of_kind(SteerTaken)) == 1
        last = stage.models.find_body(stage.requests()[-1].n) or b""
        assert last.count(b"Use the blue one instead.") == 1


@pytest.mark.parametrize(
    ("spot", "told"),
    [
        (Spot(Point.AFTER_OUTCOME, "never"), "charge never is done"),
        (Spot(Point.AFTER_EFFECT, "never"), "cancelled"),
    ],
    ids=["done", "in doubt"],
)
async def test_the_next_turn_is_told_what_a_cancelled_turn_did(tmp_path: Path, spot: Spot, told: str) -> None:
    script = {
        "go": [Step(text="Once.", tools=(use("charge", mark="never"),)), *says(LAST)],
        "next": says("And on."),
    }
    async with staged(tmp_path, script) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        await (await stage.session()).cancel()
        assert (await stage.finish(turn)).status == "cancelled"
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        body = stage.models.find_body(stage.requests()[-1].n) or b""
        assert b"Once." in body
        assert told.encode() in body
        await stage.kept()


async def test_the_next_turn_goes_on_from_a_turn_that_was_carried_over(tmp_path: Path) -> None:
    async with staged(tmp_path, BATCH) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "never"))
        await carried_on(stage, lost_answers=0)
        stage.forget_home()
        await stage.send(prompt("next"), id="next")
        await stage.killed_at(Spot(Point.IN_EFFECT, "model"))
        assert str(await stage.finish(await stage.send(prompt("next"), id="next"))) == "And on."
        await stage.kept(lost_answers=1)


async def test_a_kill_at_any_point_costs_no_finished_call(tmp_path: Path, seed: int) -> None:
    gate = RecordingGate()
    (tmp_path / "uncut").mkdir()
    async with staged(tmp_path / "uncut", BATCH) as stage:
        await stage.finish(await stage.send(prompt("go"), id="go"), gate=gate)
    chosen = random.Random(seed).sample(spots(gate.crossings), 8)
    for number, spot in enumerate(chosen):
        directory = tmp_path / str(number)
        directory.mkdir()
        async with staged(directory, BATCH) as stage:
            await stage.send(prompt("go"), id="go")
            await stage.killed_at(spot)
            await carried_on(stage, lost_answers=1)
