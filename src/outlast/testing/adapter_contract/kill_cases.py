"""A worker killed by SIGKILL; another one goes on in a fresh home."""

import errno
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from outlast.gate import Point
from outlast.records import AttemptEnded, AttemptOpened, CallOutcome
from outlast.testing.adapter_contract.case import Case, Ground, Lacking, Run, promise
from outlast.testing.adapter_contract.promises import moved_prefixes
from outlast.testing.adapter_contract.shop import effect_command, release
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, until
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse

LAST: Final = "It is all done, and this is the end of it."
ACTED: Final = Spot(Point.AFTER_EFFECT, "never")
STREAMS: Final = Spot(Point.IN_EFFECT, "model", 2)
LATER: Final = Spot(Point.IN_EFFECT, "model", 4)
"""The second answer streams."""
OVER: Final = Spot(Point.BEFORE_SETTLE)
SLOW: Final = "slow.txt"
"""What is waited for until the kill."""
SILENCE_S: Final = 4.0
"""Longer than a program needs between one call and the next, also on a loaded machine."""


def batch(subject: Subject) -> Mapping[str, Sequence[Step]]:
    """A conversation that asks for tools of every policy at once, and for what the harness runs itself."""
    own = [subject.shell(effect_command("s", "shell")), subject.shell("ls")]
    tools: list[ToolUse] = [
        subject.application("charge", mark="never"),
        subject.application("look", mark="safe"),
        subject.application("pay", mark="keyed"),
        subject.application("book", mark="verify"),
        *(use for use in own if use is not None),
    ]
    return {"go": [Step(text="All at once.", tools=tuple(tools)), *says(LAST)], "next": says("And on.")}


async def carried_on(stage: Stage, *, lost_answers: int, last: str = LAST) -> None:
    """A worker of this process carries the turn to its end, and every promise holds."""
    outcome = await stage.finish(await stage.send(prompt("go"), id="go"))
    assert (outcome.status, str(outcome)) == ("done", last), f"{outcome.status}: {outcome.error or outcome}"
    await stage.kept(lost_answers=lost_answers)


async def everything_acted(stage: Stage) -> None:
    """Every tool of the batch acted, but for one of which the model was told that it may not have."""
    acted = {effect.mark for effect in stage.effects().all()}
    evidence = await stage.evidence()
    outcomes = evidence.outcomes()
    for intent in evidence.intents("tool"):
        mark = evidence.mark(intent)
        if mark is not None and mark not in acted:
            status = outcomes[intent.call].status
            assert status in {"in_doubt", "interrupted"}, f"{mark} did not act and is said to be {status}"


def _killed_at(*spots: Spot, own: bool = False) -> Run:
    async def run(ground: Ground) -> None:
        if own:
            ground.shell("ls")
        async with ground.staged(batch(ground.subject)) as stage:
            await stage.send(prompt("go"), id="go")
            await stage.killed_at(*spots)
            await carried_on(stage, lost_answers=len(spots))
            await everything_acted(stage)

    return run


def _killed(when: str, *spots: Spot, core: bool = False, own: bool = False) -> Case:
    return Case(f"a_worker_killed_{when}_costs_no_finished_call", _killed_at(*spots, own=own), core)


@promise()
async def a_shell_command_killed_while_it_runs_is_in_doubt_and_not_repeated(ground: Ground) -> None:
    tool = ground.shell(effect_command("s", "shell", "; sleep 600"))
    async with ground.staged({"go": [Step(text="A command.", tools=(tool,)), *says(LAST)]}) as stage:
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until(lambda: stage.effects().count("shell") == 1)
        victim.kill()
        await victim.death()
        stage.forget_home()
        await carried_on(stage, lost_answers=0)
        call = await stage.call(tool.name)
        (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == call.call]
        assert outcome.status == "in_doubt"
        assert stage.effects().count("shell") == 1


@promise()
async def a_harness_killed_alone_is_started_again_and_repeats_nothing(ground: Ground) -> None:
    tool = ground.use("charge", mark="never", hold_s=2.0)
    async with ground.staged({"go": [Step(text="Once.", tools=(tool,)), *says(LAST)]}) as stage:
        turn = await stage.send(prompt("go"), id="go")
        async with stage.worker():
            await until(lambda: stage.effects().count("never") == 1)
            programs = stage.programs()
            if not programs:
                raise Lacking("it has no process of its own")
            for pid in programs:
                os.kill(pid, signal.SIGKILL)
            assert (await ended(turn)).status == "done"
        assert len(await stage.of_kind(AttemptOpened)) > 1
        assert stage.effects().count("never") == 1
        await stage.kept()


@promise()
async def a_harness_that_falls_silent_is_started_again_and_repeats_nothing(ground: Ground) -> None:
    first = Step(text="Once.", tools=(ground.use("charge", mark="never"),), delay_s=2.0)
    async with ground.staged({"go": [first, *says(LAST)]}) as stage:
        turn = await stage.send(prompt("go"), id="go")
        async with stage.worker(silence_s=SILENCE_S):
            await until(lambda: bool(stage.requests("go")))
            if not stage.programs():
                raise Lacking("it has no process of its own")
            for pid in stage.started():
                os.kill(pid, signal.SIGSTOP)  # it lives on, and does nothing with the answer
            assert (await ended(turn)).status == "done"
        reasons = [record.error for record in await stage.of_kind(AttemptEnded)]
        assert any(f"silent for {SILENCE_S:g} s" in reason for reason in reasons), reasons
        assert stage.effects().count("never") == 1
        await stage.kept()


@promise()
async def a_turn_killed_between_calls_goes_on_on_a_machine_that_has_only_the_world(ground: Ground) -> None:
    async with ground.staged(batch(ground.subject)) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.BEFORE_INTENT, "model", 2))
        stage.move()
        await carried_on(stage, lost_answers=1)
        await everything_acted(stage)


@promise()
async def a_worker_killed_again_in_the_tool_of_an_answer_asked_for_twice_costs_no_finished_call(
    ground: Ground,
) -> None:
    script = {
        "go": [
            Step(
                text="I look first.", tools=(ground.subject.shell("ls") or ground.use("look", mark="first"),)
            ),
            Step(text="Now I act, and say so at some length.", tools=(ground.use("charge", mark="never"),)),
            Step(text="I look again.", tools=(ground.use("look", mark="last"),)),
            *says(LAST),
        ]
    }
    async with ground.staged(script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(LATER, ACTED)
        await carried_on(stage, lost_answers=2)
        await everything_acted(stage)


@promise(turns=2)
async def the_next_turn_remembers_an_answer_that_never_reached_the_harness(ground: Ground) -> None:
    async with ground.staged(batch(ground.subject)) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_OUTCOME, "model", 2))
        await carried_on(stage, lost_answers=0)
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        assert LAST.encode() in stage.last_body()
        await stage.kept()


@promise(turns=3)
async def the_next_turn_goes_on_from_what_was_read_of_a_batch_that_was_cut_off(ground: Ground) -> None:
    ended = ground.subject.write("ended.txt", "some notes\n") or ground.use("book", mark="ended")
    slow = ground.subject.shell(f"cat {SLOW}") or ground.use("look", mark=SLOW, until=SLOW)
    script = {"go": [Step(text="All at once.", tools=(ended, slow)), *says(LAST)], "next": says("And on.")}
    async with ground.staged({**script, "last": says("And so on.")}) as stage:
        os.mkfifo(file := stage.shop / SLOW)  # whoever reads it waits
        await stage.send(prompt("go"), id="go")
        victim = await stage.victim(session="s")
        await until(lambda: (stage.shop / "ended.txt").exists() or stage.effects().count("ended") == 1)
        with _open_where_read(file) as is_read:
            await until(lambda: is_read() or stage.effects().count(SLOW) == 1)
            victim.kill()
            await victim.death()
        stage.forget_home()
        file.unlink()
        file.write_text("what was waited for\n")
        release(SLOW)
        await carried_on(stage, lost_answers=0)
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        stage.move()
        assert str(await stage.finish(await stage.send(prompt("last")))) == "And so on."
        await stage.kept()


@contextmanager
def _open_where_read(pipe: Path) -> Generator[Callable[[], bool]]:
    """Asks whether anybody reads a named pipe, who then reads on and meets no end."""
    with ExitStack() as held:

        def is_read() -> bool:
            try:
                held.callback(os.close, os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody does
                    return False
                raise
            return True

        yield is_read


@promise(turns=2)
async def a_turn_cancelled_while_no_worker_lives_ends_as_cancelled(ground: Ground) -> None:
    async with ground.staged(batch(ground.subject)) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(ACTED)
        await (await stage.session()).cancel()
        assert (await stage.finish(turn)).status == "cancelled"
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        await stage.kept()


@promise()
async def a_prompt_begins_byte_for_byte_with_the_one_before_across_a_take_over(ground: Ground) -> None:
    script = {
        "go": [
            Step(text="First.", tools=(ground.use("charge", mark="a"),)),
            Step(text="Second.", tools=(ground.use("look", mark="b"),)),
            Step(text="Third.", tools=(ground.use("look", mark="c"),)),
            *says(LAST),
        ]
    }
    async with ground.staged(script) as stage:
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.BEFORE_INTENT, "model", 3), STREAMS)
        await carried_on(stage, lost_answers=2)
        moved = list(moved_prefixes(await stage.evidence()))
        assert not moved, "\n".join(moved)


@promise()
async def a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing(ground: Ground) -> None:
    async with ground.staged(batch(ground.subject)) as stage:
        upgraded = stage.untested(ground.directory / "untested")
        if upgraded is None:
            raise Lacking("it has no program of its own")
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(ACTED)
        stage.agent = upgraded
        outcome = await stage.finish(turn)
        (warning,) = upgraded.adapter.check()
        assert any(version in warning for version in upgraded.adapter.versions().values())
        assert outcome.status == "done" or upgraded.name in outcome.error
        before, *_, after = await stage.of_kind(AttemptOpened)
        assert before.versions != after.versions, "which version an attempt had is in its record"
        assert stage.effects().count("never") == 1
        await stage.kept(lost_answers=1)


CASES: Final[tuple[Case, ...]] = (
    _killed("when_the_first_request_is_sent", Spot(Point.AFTER_INTENT, "model")),
    _killed("while_the_model_streams", STREAMS, core=True),
    _killed("before_an_answer_is_delivered", Spot(Point.AFTER_OUTCOME, "model")),
    _killed("when_a_never_tool_has_acted", ACTED, core=True),
    _killed("when_a_tool_of_the_harness_asks_to_begin", Spot(Point.BEFORE_START, "never"), own=True),
    _killed("when_a_tool_of_the_harness_may_begin", Spot(Point.AFTER_START, "never"), own=True),
    _killed("when_a_safe_tool_has_acted", Spot(Point.AFTER_EFFECT, "safe")),
    _killed("when_a_keyed_tool_has_acted", Spot(Point.AFTER_EFFECT, "keyed")),
    _killed("when_a_verified_tool_has_acted", Spot(Point.AFTER_EFFECT, "verify")),
    _killed("between_calls", Spot(Point.BEFORE_INTENT, "model", 2)),
    _killed("while_the_last_answer_streams", LATER),
    _killed("before_the_last_answer_is_delivered", Spot(Point.AFTER_OUTCOME, "model", 2)),
    _killed("when_the_turn_is_over_and_not_settled", OVER),
    _killed("when_the_turn_is_settled", Spot(Point.AFTER_SETTLE)),
    _killed("again_when_its_doubt_is_settled", ACTED, Spot(Point.DOUBT_SETTLED, "never"), core=True),
    _killed("again_when_it_has_read_the_log", ACTED, Spot(Point.FOLDED)),
    _killed("again_when_its_first_request_is_sent", ACTED, Spot(Point.AFTER_INTENT, "model")),
    _killed("again_while_the_model_streams", STREAMS, STREAMS),
    _killed("again_when_the_turn_is_over", ACTED, OVER),
    a_worker_killed_again_in_the_tool_of_an_answer_asked_for_twice_costs_no_finished_call,
    a_shell_command_killed_while_it_runs_is_in_doubt_and_not_repeated,
    a_harness_killed_alone_is_started_again_and_repeats_nothing,
    a_harness_that_falls_silent_is_started_again_and_repeats_nothing,
    a_turn_killed_between_calls_goes_on_on_a_machine_that_has_only_the_world,
    the_next_turn_remembers_an_answer_that_never_reached_the_harness,
    the_next_turn_goes_on_from_what_was_read_of_a_batch_that_was_cut_off,
    a_turn_cancelled_while_no_worker_lives_ends_as_cancelled,
    a_prompt_begins_byte_for_byte_with_the_one_before_across_a_take_over,
    a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing,
)
