"""Turns that nobody kills: prompts, tools, waits, steers, cancels, a provider that fails."""

from typing import Final

import anyio

from outlast.records import CallOutcome, SteerTaken
from outlast.testing.adapter_contract.case import Case, Ground, Run, promise
from outlast.testing.adapter_contract.kill_cases import LAST, batch, everything_acted
from outlast.testing.adapter_contract.shop import effect_command, release
from outlast.testing.adapter_contract.stage import LIMIT_S, Stage, ended, is_over, prompt, says, until
from outlast.testing.models import Step

STEER: Final = "Use the blue one instead."
NO_END_S: Final = 600.0


@promise(core=True)
async def a_plain_turn_asks_the_model_once(ground: Ground) -> None:
    async with ground.staged({"go": says("Here I am.")}) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert (outcome.status, str(outcome)) == ("done", "Here I am.")
        assert stage.steps() == [0]
        await stage.kept()


@promise(turns=2)
async def the_next_turn_remembers_the_last_one_on_a_machine_that_has_only_the_world(ground: Ground) -> None:
    script = {"go": says("The word is Rosalind."), "next": says("As I said.")}
    async with ground.staged(script) as stage:
        await stage.finish(await stage.send(prompt("go")))
        stage.move()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "As I said."
        assert b"The word is Rosalind." in stage.last_body()
        assert stage.steps() == [0, 0]
        await stage.kept()


@promise()
async def the_harness_s_own_tools_act_once(ground: Ground) -> None:
    script = {
        "go": [
            Step(text="A command.", tools=(ground.shell(effect_command("s", "shell")),)),
            Step(text="A file.", tools=(ground.write("notes.txt", "some notes\n"),)),
            *says("Both are done."),
        ]
    }
    async with ground.staged(script) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == "Both are done."
        assert stage.effects().count("shell") == 1
        assert (stage.shop / "notes.txt").read_text().strip() == "some notes"
        assert stage.steps() == [0, 1, 2]
        await stage.kept()


@promise(core=True)
async def tools_of_every_policy_run_side_by_side_and_each_has_its_result(ground: Ground) -> None:
    async with ground.staged(batch(ground.subject)) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == LAST
        await everything_acted(stage)
        for tool, mark in (("charge", "never"), ("look", "safe"), ("pay", "keyed"), ("book", "verify")):
            assert stage.effects().count(mark) == 1
            assert f"{tool} {mark} is done".encode() in stage.last_body()
        assert stage.steps() == [0, 1]
        await stage.kept()


@promise()
async def a_tool_of_the_application_that_fails_tells_the_model_why(ground: Ground) -> None:
    script = {"go": [Step(text="I try.", tools=(ground.use("refuse", mark="this"),)), *says("I see.")]}
    async with ground.staged(script) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == "I see."
        assert b"this cannot be done" in stage.last_body()
        call = await stage.call("refuse")
        (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == call.call]
        assert outcome.status == "error"
        await stage.kept()


@promise()
async def a_wait_holds_no_process_and_its_signal_is_the_result(ground: Ground) -> None:
    tools = (ground.use("outlast_wait", signal="ci"), ground.use("look", mark="a"))
    script = {"go": [Step(text="I wait for CI.", tools=tools), *says("CI is green.")]}
    async with ground.staged(script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await _at_rest(stage)
            assert stage.commands() == [], "the harness is stopped"
        stage.forget_home()
        await (await stage.session()).signal("ci", {"verdict": "all of it is green"})
        assert str(await stage.finish(turn)) == "CI is green."
        assert stage.steps() == [0, 1], "one model call follows"
        assert b"all of it is green" in stage.last_body(), "what came is the call's result"
        assert stage.effects().count("a") == 1
        await stage.kept()


async def _at_rest(stage: Stage) -> None:
    """Return when the turn waits, and nobody holds the session. Fails where it ends instead."""
    session = await stage.session()
    with anyio.fail_after(LIMIT_S):
        while (head := await session.head()).worker is not None or "waiting" not in head.status:
            assert head.turn_open or not is_over(head), "the turn has ended, and did not wait"
            await anyio.sleep(0.02)


@promise(core=True)
async def a_steer_is_carried_by_a_request_and_consumed_by_its_commit(ground: Ground) -> None:
    # The one that comes first is let go at once; by the end of the other the harness has taken the steer in.
    script = {
        "go": [
            Step(text="I work.", tools=(ground.use("look", mark="a", until="steered"),)),
            Step(text="And on.", tools=(ground.use("look", mark="b", hold_s=2.0),)),
            *says("As you say."),
        ]
    }
    async with ground.staged(script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await until(lambda: stage.effects().count("a") == 1)
            steer = await (await stage.session()).steer(STEER)
            release("steered")
            assert str(await ended(turn)) == "As you say."
        (taken,) = await stage.of_kind(SteerTaken)
        assert (taken.input, taken.text) == (steer, STEER)
        found = await stage.world.find_input("s", steer)
        assert found is not None
        assert found.consumed_by is not None
        assert stage.last_body().count(STEER.encode()) == 1
        await stage.kept()


@promise(turns=2)
async def a_cancelled_turn_ends_its_tool_and_the_next_finds_a_sound_conversation(ground: Ground) -> None:
    own = ground.subject.shell(effect_command("s", "a", f"; sleep {NO_END_S:g}"))
    tool = own or ground.use("charge", mark="a", hold_s=NO_END_S)
    script = {"go": [Step(text="This takes a while.", tools=(tool,))], "next": says("I am here again.")}
    async with ground.staged(script) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await until(lambda: stage.effects().count("a") == 1)
            await turn.cancel("no longer wanted")
            assert (await ended(turn)).status == "cancelled"
            assert str(await ended(await stage.send(prompt("next")))) == "I am here again."
        assert stage.steps() == [0, 0]
        assert b"This takes a while." in stage.last_body()
        await stage.kept()


@promise()
async def an_error_that_does_not_pass_ends_the_turn_with_the_provider_s_words(ground: Ground) -> None:
    script = {"go": [Step(text="Never said.", status=400, times="always")]}
    async with ground.staged(script) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert outcome.status == "failed"
        assert "says so" in outcome.error
        assert len(stage.requests()) == 1
        await stage.kept(lost_answers=1)


def _asked_again(fault: Step) -> Run:
    async def run(ground: Ground) -> None:
        async with ground.staged({"go": [fault, *says("The end.")]}) as stage:
            outcome = await stage.finish(await stage.send(prompt("go")))
            assert (outcome.status, str(outcome)) == ("done", "The end." if fault.tools else fault.text)
            lost = [one for one in stage.requests() if one.outcome != "completed"]
            assert len(lost) == (fault.times if fault.status else fault.cut_times)
            await stage.kept(lost_answers=len(lost))

    return run


async def a_stream_cut_after_a_tool_call_runs_the_tool_once(ground: Ground) -> None:
    """Wherever in the answer it is cut, its tool runs for the whole answer alone."""
    tool = ground.use("charge", mark="a")
    cut = Step(text="I charge it now, and say so.", tools=(tool,), cut_after=8, cut_times=1)
    async with ground.staged({"go": [cut, *says("The end.")]}) as stage:
        assert str(await stage.finish(await stage.send(prompt("go")))) == "The end."
        assert stage.effects().count("a") == 1
        lost = [one for one in stage.requests() if one.outcome != "completed"]
        await stage.kept(lost_answers=len(lost))


TEXT: Final = "Here I am, at last, with some more words than one."

CASES: Final[tuple[Case, ...]] = (
    a_plain_turn_asks_the_model_once,
    the_next_turn_remembers_the_last_one_on_a_machine_that_has_only_the_world,
    the_harness_s_own_tools_act_once,
    tools_of_every_policy_run_side_by_side_and_each_has_its_result,
    a_tool_of_the_application_that_fails_tells_the_model_why,
    a_wait_holds_no_process_and_its_signal_is_the_result,
    a_steer_is_carried_by_a_request_and_consumed_by_its_commit,
    a_cancelled_turn_ends_its_tool_and_the_next_finds_a_sound_conversation,
    an_error_that_does_not_pass_ends_the_turn_with_the_provider_s_words,
    Case(
        "a_provider_that_is_overloaded_three_times_is_asked_again",
        _asked_again(Step(text=TEXT, status=529, times=3)),
        core=True,
    ),
    Case(
        "a_provider_that_limits_the_rate_is_asked_again_when_it_says",
        _asked_again(Step(text=TEXT, status=429, retry_after_s=1, times=1)),
    ),
    Case(
        "an_answer_cut_mid_stream_is_asked_for_again", _asked_again(Step(text=TEXT, cut_after=3, cut_times=1))
    ),
    promise()(a_stream_cut_after_a_tool_call_runs_the_tool_once),
)
