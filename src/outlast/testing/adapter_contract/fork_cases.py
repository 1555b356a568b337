"""A session forked: two go on from one past, each in a home of its own."""

import os
from pathlib import Path
from typing import Final

import anyio

from outlast.forking import LEFT
from outlast.records import CallOutcome
from outlast.testing.adapter_contract.case import Case, Ground, Run, promise
from outlast.testing.adapter_contract.shop import EFFECTS, Effects, release
from outlast.testing.adapter_contract.stage import LIMIT_S, Stage, ended, prompt, says, until
from outlast.testing.models import Step
from outlast.workspaces.local import local

LAST: Final = "It is all done, and this is the end of it."


def _texts(stage: Stage, text: str) -> int:
    """How many model requests that reached the provider hold this text."""
    bodies = [stage.models.find_body(one.n) or b"" for one in stage.requests()]
    return sum(text.encode() in body for body in bodies)


def _marks_of_forks() -> list[str]:
    """What was done outside in the name of `f`, or of its home, which is called after it."""
    found = [Effects(file).all() for file in sorted(Path(os.environ[EFFECTS]).glob("f*.jsonl"))]
    return [effect.mark for effects in found for effect in effects]


@promise(turns=2)
async def a_session_forked_in_the_midst_of_a_turn_goes_on_in_both_and_repeats_nothing(ground: Ground) -> None:
    first = Step(text="One.", tools=(ground.use("charge", mark="first"),))
    second = Step(text="Two.", tools=(ground.use("charge", mark="second", until="go-on"),))
    async with ground.staged({"go": [first, second, *says(LAST)]}) as stage:
        turn = await stage.send(prompt("go"), id="go")
        async with stage.worker():
            await until(lambda: stage.effects().count("second") == 1)
            asked = len(stage.requests())
            fork = await turn.session.fork(id="f")
            with anyio.fail_after(LIMIT_S):
                outcome = await fork.result(1)
            assert (outcome.status, str(outcome)) == ("done", LAST), outcome.error
            theirs = {one.n for one in stage.requests()[asked:]}
            assert (await turn.session.head()).turn_open
            release("go-on")
            outcome = await ended(turn)
            assert (outcome.status, str(outcome)) == ("done", LAST), outcome.error
        assert [effect.mark for effect in stage.effects().all()] == ["first", "second"]
        assert not _marks_of_forks()
        assert stage.steps("go") == [0, 1, 2, 2], "what was answered was asked again"
        statuses = [one.status for one in await stage.of_kind(CallOutcome, "f")]
        assert statuses.count("cancelled") == 1
        assert _texts(stage, LEFT[:60]) == 1, "the model was not told, or in the source as well"
        await stage.kept(but=theirs)


def _before_a_turn(*, elsewhere: bool) -> Run:
    async def run(ground: Ground) -> None:
        script = {
            "one": [
                Step(text="One.", tools=(ground.use("charge", mark="first"),)),
                *says("The word is quince."),
            ],
            "two": says("Not this way."),
            "other": [Step(text="Other.", tools=(ground.use("charge", mark="other"),)), *says(LAST)],
        }
        async with ground.staged(script) as stage:
            for name in ("one", "two"):
                await stage.finish(await stage.send(prompt(name), id=name))
            place = None
            if elsewhere:
                (stage.directory / "other").mkdir()
                place = local(stage.directory / "other")
            source = await stage.session()
            fork = await source.fork(before_turn=2, id="f", workspace=place)
            outcome = await stage.finish(await fork.send(prompt("other"), id="other"))
            assert (outcome.status, str(outcome)) == ("done", LAST), outcome.error
            told = stage.last_body()
            assert b"quince" in told, "the fork does not remember what came before"
            assert b"Not this way." not in told, "the fork remembers what it never had"
            assert [effect.mark for effect in stage.effects().all()] == ["first"]
            assert _marks_of_forks() == ["other"]
            again = await stage.finish(await stage.send(prompt("two", "And again."), id="again"))
            assert str(again) == "Not this way."

    return run


CASES: Final[tuple[Case, ...]] = (
    a_session_forked_in_the_midst_of_a_turn_goes_on_in_both_and_repeats_nothing,
    Case("a_fork_before_a_turn_takes_another_prompt_and_remembers", _before_a_turn(elsewhere=False), turns=4),
    Case("a_fork_goes_on_in_another_directory", _before_a_turn(elsewhere=True), turns=4),
)
