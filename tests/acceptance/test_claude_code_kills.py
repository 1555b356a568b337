"""The real Claude Code, with its worker killed by SIGKILL; another worker goes on in a fresh home."""

import random
from pathlib import Path

import pytest

from outlast.gate import Point
from outlast.records import CallIntent, CallOutcome, SteerTaken
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says, until
from outlast.testing.faults import RecordingGate, Spot, spots
from outlast.testing.models import Step, Usage
from tests.harnesses.claude_code import agent_use, bash, use, write
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.timeout(240)]
full = pytest.mark.full

LAST = "It is all done, and this is the end of it."
MIXED = (
    use("charge", mark="never"),
    use("look", mark="safe"),
    use("pay", mark="keyed"),
    use("book", mark="verify"),
    bash(effect_command("s", "shell")),
    bash("ls"),
)
MARKS = {"never", "safe", "keyed", "verify", "shell"}
BATCH = {"go": [Step(text="All at once.", tools=MIXED), *says(LAST)], "next": says("And on.")}

NAMED = {
    "the first request is sent": Spot(Point.AFTER_INTENT, "model"),
    "the model streams": Spot(Point.IN_EFFECT, "model", 2),
    "the answer is in the log and was not delivered": Spot(Point.AFTER_OUTCOME, "model"),
    "a never tool has acted": Spot(Point.AFTER_EFFECT, "never"),
    "a shell command asks to begin": Spot(Point.BEFORE_START, "never"),
    "a shell command may begin": Spot(Point.AFTER_START, "never"),
    "a safe tool has acted": Spot(Point.AFTER_EFFECT, "safe"),
    "a keyed tool has acted": Spot(Point.AFTER_EFFECT, "keyed"),
    "a verified tool has acted": Spot(Point.AFTER_EFFECT, "verify"),
    "all tools have ended": Spot(Point.BEFORE_INTENT, "model", 2),
    "the last answer streams": Spot(Point.IN_EFFECT, "model", 4),
    "the turn is over and not settled": Spot(Point.BEFORE_SETTLE),
    "the turn is settled": Spot(Point.AFTER_SETTLE),
}
CORE = {
    "the model streams",
    "a never tool has acted",
    "all tools have ended",
    "the turn is over and not settled",
}


async def carried_on(stage: Stage, *, lost_answers: int, last: str = LAST) -> None:
    """A worker of this process carries the turn to its end, and every promise holds."""
    turn = await stage.send(prompt("go"), id="go")
    outcome = await stage.finish(turn)
    assert (outcome.status, str(outcome)) == ("done", last)
    await stage.kept(lost_answers=lost_answers)


@pytest.mark.parametrize(
    "spot", [pytest.param(spot, id=name, marks=() if name in CORE else full) for name, spot in NAMED.items()]
)
async def test_a_killed_worker_costs_no_finished_call(tmp_path: Path, spot: Spot) -> None:
    async with staged(tmp_path, BATCH) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        await carried_on(stage, lost_answers=1)
        acted = {effect.mark for effect in stage.effects().all()}
        shell = await stage.call("Bash", policy="never")
        outcomes = {one.call: one for one in await stage.of_kind(CallOutcome)}
        assert acted == MARKS or (acted == MARKS - {"shell"} and outcomes[shell.call].status == "in_doubt")


@pytest.mark.parametrize(
    "again",
    [
        Spot(Point.DOUBT_SETTLED, "never"),
        pytest.param(Spot(Point.CLAIMED), marks=full),
        pytest.param(Spot(Point.FOLDED), marks=full),
        pytest.param(Spot(Point.AFTER_INTENT, "model"), marks=full),
        pytest.param(Spot(Point.IN_EFFECT, "model"), marks=full),
        pytest.param(Spot(Point.IN_EFFECT, "model", 2), marks=full),
        pytest.param(Spot(Point.AFTER_OUTCOME, "model"), marks=full),
        pytest.param(Spot(Point.BEFORE_SETTLE), marks=full),
    ],
    ids=str,
)
async def test_a_second_kill_during_the_recovery_costs_nothing_either(tmp_path: Path, again: Spot) -> None:
    async with staged(tmp_path, BATCH) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "never"), again)
        await carried_on(stage, lost_answers=2)
        charged = await stage.call("charge")
        outcomes = {one.call: one for one in await stage.of_kind(CallOutcome)}
        assert outcomes[charged.call].status == "in_doubt"


@full
async def test_a_kill_after_a_call_was_run_again_costs_nothing_either(tmp_path: Path) -> None:
    script = {"go": [Step(text="I look.", tools=(bash("ls"),)), *says(LAST)]}
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "safe"), Spot(Point.IN_EFFECT, "model"))
        await carried_on(stage, lost_answers=1)


@full
async def test_three_kills_while_the_same_answer_streams_end_in_one_answer(tmp_path: Path) -> None:
    streaming = Spot(Point.IN_EFFECT, "model", 2)
    async with staged(tmp_path, {"go": says(LAST)}) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(streaming, streaming, streaming)
        await carried_on(stage, lost_answers=3)


@full
async def test_a_reminder_of_claude_code_s_own_stays_where_it_was(tmp_path: Path) -> None:
    looks = [Step(text=f"Look {number}.", tools=(bash("ls"),)) for number in range(7)]
    async with staged(tmp_path, {"go": [*looks, *says(LAST)]}) as stage:
        await stage.send(prompt("go"), id="go")
        # The sixth request brings the first one. The second process makes it anew, and dies before writing it down.
        await stage.killed_at(Spot(Point.AFTER_INTENT, "model", 6), Spot(Point.AFTER_OUTCOME, "model"))
        await carried_on(stage, lost_answers=1)
        last = stage.models.find_body(stage.requests()[-1].n) or b""
        assert last.count(b"The task tools haven't been used recently") == 1


@pytest.mark.parametrize(
    ("command", "policy"),
    [("{effect}; sleep 600", "never"), pytest.param("sleep 2; ls", "safe", marks=full)],
    ids=["never", "safe"],
)
async def test_a_shell_command_that_was_cut_off_is_told_or_run_again(
    tmp_path: Path, command: str, policy: str
) -> None:
    tool = bash(command.format(effect=effect_command("s", "shell")))
    async with staged(tmp_path, {"go": [Step(text="A command.", tools=(tool,)), *says(LAST)]}) as stage:
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until(lambda: runs(stage))
        victim.kill()
        await victim.death()
        stage.forget_home()
        await carried_on(stage, lost_answers=0)
        (outcome,) = [
            one for one in await stage.of_kind(CallOutcome) if one.call == (await stage.call("Bash")).call
        ]
        assert outcome.status == ("in_doubt" if policy == "never" else "ok")


def runs(stage: Stage) -> bool:
    """Whether a shell command of the session runs."""
    return any(b"sleep" in command for command in stage.commands())


@full
async def test_a_write_that_was_cut_off_is_not_repeated(tmp_path: Path) -> None:
    script = {"go": [Step(text="A file.", tools=(write("notes.txt", "n\n"),)), *says(LAST)]}
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_START, "never"))
        (stage.shop / "notes.txt").write_text("somebody else's\n")
        await carried_on(stage, lost_answers=0)
        assert (stage.shop / "notes.txt").read_text() == "somebody else's\n"


@full
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


@full
async def test_a_turn_cancelled_while_no_worker_lives_ends_as_cancelled(tmp_path: Path) -> None:
    async with staged(tmp_path, BATCH) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "never"))
        await (await stage.session()).cancel()
        assert (await stage.finish(turn)).status == "cancelled"
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        await stage.kept()


@pytest.mark.harness(turns=2)
async def test_the_next_turn_remembers_an_answer_that_never_reached_the_harness(tmp_path: Path) -> None:
    async with staged(tmp_path, BATCH) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_OUTCOME, "model", 2))
        await carried_on(stage, lost_answers=0)
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        assert LAST.encode() in (stage.models.find_body(stage.requests()[-1].n) or b"")
        await stage.kept()


@full
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


@full
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


# sub-agents

SUB = {
    "go": [Step(text="I ask somebody.", tools=(agent_use("sub"),)), *says(LAST)],
    "sub": [Step(text="I look.", tools=(use("charge", mark="inner"), bash("ls"))), *says("The report.")],
}


@pytest.mark.parametrize(
    "spot",
    [
        Spot(Point.AFTER_EFFECT, "never"),
        pytest.param(Spot(Point.IN_EFFECT, "model", 4), marks=full),
        pytest.param(Spot(Point.AFTER_OUTCOME, "model", 2), marks=full),
        pytest.param(Spot(Point.AFTER_OUTCOME, "model", 3), marks=full),
        pytest.param(Spot(Point.AFTER_START, "safe"), marks=full),
        pytest.param(Spot(Point.BEFORE_INTENT, "model", 4), marks=full),
    ],
    ids=str,
)
async def test_a_sub_agent_that_was_cut_off_begins_anew_and_repeats_nothing(
    tmp_path: Path, spot: Spot
) -> None:
    async with staged(tmp_path, SUB) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        await carried_on(stage, lost_answers=1)
        assert stage.effects().count("inner") == 1


@full
@pytest.mark.parametrize(
    "spot", [None, Spot(Point.AFTER_EFFECT, "safe"), Spot(Point.IN_EFFECT, "model", 6)], ids=str
)
async def test_two_sub_agents_that_ask_for_the_same_are_kept_apart(tmp_path: Path, spot: Spot | None) -> None:
    script = {
        "go": [Step(text="I ask two.", tools=(agent_use("sub"), agent_use("sub"))), *says(LAST)],
        "sub": [Step(text="I look.", tools=(use("look", mark="inner"),)), *says("The report.")],
    }
    async with staged(tmp_path, script) as stage:
        await stage.send(prompt("go"), id="go")
        if spot is not None:
            await stage.killed_at(spot)
        outcome = await stage.finish(await stage.send(prompt("go"), id="go"))
        assert str(outcome) == LAST
        intents = [one for one in await stage.of_kind(CallIntent) if one.kind == "model"]
        lanes = {one.lane for one in intents}
        # After a kill one of the two is begun anew; of the other the model is told, and may call it again.
        assert lanes == {"main", "sub1", "sub2"} or (spot is not None and lanes == {"main", "sub1"})
        # Both may be asking when the kill strikes.
        await stage.kept(lost_answers=2 if spot else 0, twins=True)


# compaction

WINDOW = '{"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}}'
COMPACTED = {
    "go": [
        Step(text="I act.", tools=(use("charge", mark="early"),), usage=Usage(input_tokens=180_000)),
        Step(text="<analysis>Much.</analysis><summary>All of it. [script:after]</summary>"),
    ],
    "after": [Step(text="I act again.", tools=(use("charge", mark="late"),)), *says(LAST)],
}


@full
@pytest.mark.parametrize(
    "spot",
    [
        None,
        Spot(Point.AFTER_INTENT, "model", 2),
        Spot(Point.IN_EFFECT, "model", 4),
        Spot(Point.AFTER_OUTCOME, "model", 2),
        Spot(Point.DELIVERED, "model", 2),
        Spot(Point.AFTER_INTENT, "model", 3),
        Spot(Point.IN_EFFECT, "model", 6),
        Spot(Point.AFTER_EFFECT, "never", 2),
    ],
    ids=str,
)
async def test_a_compaction_that_was_cut_off_is_carried_on(tmp_path: Path, spot: Spot | None) -> None:
    async with staged(tmp_path, COMPACTED) as stage:
        (stage.shop / ".claude").mkdir()
        (stage.shop / ".claude" / "settings.json").write_text(WINDOW)
        await stage.send(prompt("go"), id="go")
        if spot is not None:
            await stage.killed_at(spot)
        await carried_on(stage, lost_answers=1 if spot else 0)
        assert [stage.effects().count(mark) for mark in ("early", "late")] == [1, 1]
        lanes = [one.lane for one in await stage.of_kind(CallIntent) if one.kind == "model"]
        assert lanes == ["main", "side:compaction", "main", "main"]


# everywhere


@full
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
