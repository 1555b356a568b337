"""A worker killed by SIGKILL; another one goes on in a fresh home."""

from collections.abc import Mapping, Sequence
from typing import Final

from outlast.gate import Point
from outlast.records import CallOutcome
from outlast.testing.adapter_contract.case import Case, Ground, Run
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse

LAST: Final = "It is all done, and this is the end of it."


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
    outcomes: dict[int, CallOutcome] = evidence.outcomes()
    for intent in evidence.intents("tool"):
        mark = evidence.mark(intent)
        if mark is not None and mark not in acted:
            assert outcomes[intent.call].status in {"in_doubt", "interrupted"}, f"{mark} did not act"


def _killed_at(*spots: Spot) -> Run:
    async def run(ground: Ground) -> None:
        async with ground.staged(batch(ground.subject)) as stage:
            await stage.send(prompt("go"), id="go")
            await stage.killed_at(*spots)
            await carried_on(stage, lost_answers=len(spots))
            await everything_acted(stage)

    return run


def _killed(when: str, *spots: Spot, core: bool = False) -> Case:
    return Case(f"a_worker_killed_{when}_costs_no_finished_call", _killed_at(*spots), core)


CASES: Final[tuple[Case, ...]] = (
    _killed("when_the_first_request_is_sent", Spot(Point.AFTER_INTENT, "model")),
    _killed("while_the_model_streams", Spot(Point.IN_EFFECT, "model", 2), core=True),
    _killed("before_an_answer_is_delivered", Spot(Point.AFTER_OUTCOME, "model")),
    _killed("when_a_never_tool_has_acted", Spot(Point.AFTER_EFFECT, "never"), core=True),
    _killed("when_a_safe_tool_has_acted", Spot(Point.AFTER_EFFECT, "safe")),
    _killed("when_a_keyed_tool_has_acted", Spot(Point.AFTER_EFFECT, "keyed")),
    _killed("when_a_verified_tool_has_acted", Spot(Point.AFTER_EFFECT, "verify")),
)
