"""What a harness does inside of a turn by itself, cut off: sub-agents, and the compaction of its conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from outlast.gate import Point
from outlast.records import CallIntent
from outlast.testing.adapter_contract.case import Case, Ground, Lacking, Run
from outlast.testing.adapter_contract.kill_cases import LAST, carried_on
from outlast.testing.adapter_contract.stage import prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step


def _asks_one(ground: Ground) -> Mapping[str, Sequence[Step]]:
    return {
        "go": [Step(text="I ask somebody.", tools=(ground.sub_agent("sub"),)), *says(LAST)],
        "sub": [Step(text="I look.", tools=(ground.use("charge", mark="inner"),)), *says("The report.")],
    }


def _sub_agent(*spots: Spot) -> Run:
    async def run(ground: Ground) -> None:
        async with ground.staged(_asks_one(ground)) as stage:
            await stage.send(prompt("go"), id="go")
            await stage.killed_at(*spots)
            await carried_on(stage, lost_answers=len(spots))
            assert stage.effects().count("inner") == 1
            lanes = {one.lane for one in await stage.of_kind(CallIntent) if one.kind == "model"}
            assert len(lanes) > 1, "a sub-agent has a lane of its own"

    return run


def _twins(*spots: Spot) -> Run:
    async def run(ground: Ground) -> None:
        both = (ground.sub_agent("sub"), ground.sub_agent("sub"))
        look = Step(text="I look.", tools=(ground.use("look", mark="inner"),))
        script = {
            "go": [Step(text="I ask two.", tools=both), *says(LAST)],
            "sub": [look, *says("The report.")],
        }
        async with ground.staged(script) as stage:
            turn = await stage.send(prompt("go"), id="go")
            await stage.killed_at(*spots)
            assert str(await stage.finish(turn)) == LAST
            lanes = (await stage.evidence()).lanes("sub")
            # After a kill one of the two may be begun anew; of the other the model is told, and may call it again.
            assert len(lanes) == 2 or (spots and len(lanes) == 1)
            # Both may be asking when the kill strikes.
            await stage.kept(lost_answers=2 * len(spots), twins=True)

    return run


def _compacted(*spots: Spot) -> Run:
    """Spots of model calls are those of a harness that compacts behind its first."""

    async def run(ground: Ground) -> None:
        place = ground.directory / "shop"
        place.mkdir()
        early = ground.use("charge", mark="early")
        compaction = ground.subject.compaction(early, "All of it. [script:after]", place)
        if compaction is None:
            raise Lacking("it never compacts a conversation by itself")
        late = Step(text="I act again.", tools=(ground.use("charge", mark="late"),))
        after = [*says(*["Kept."] * compaction.keeps), late, *says(LAST)]
        script = {"go": compaction.steps, compaction.then: after, **compaction.conversations}
        async with ground.staged(script) as stage:
            session = await stage.session(settings=compaction.settings)
            await session.send(prompt("go"), id="go")
            asked = compaction.asks - 2
            at = [replace(one, nth=one.nth + asked) if one.policy == "model" else one for one in spots]
            await stage.killed_at(*at)
            await carried_on(stage, lost_answers=len(spots))
            assert [stage.effects().count(mark) for mark in ("early", "late")] == [1, 1]
            lanes = [one.lane for one in await stage.of_kind(CallIntent) if one.kind == "model"]
            assert any(lane.startswith("side:") for lane in lanes), (
                "a compaction stands beside the conversation"
            )

    return run


CASES: Final[tuple[Case, ...]] = (
    Case("a_sub_agent_is_carried_to_its_report", _sub_agent()),
    Case(
        "a_sub_agent_killed_when_its_tool_has_acted_repeats_nothing",
        _sub_agent(Spot(Point.AFTER_EFFECT, "never")),
    ),
    Case(
        "a_sub_agent_killed_while_its_model_streams_is_carried_on",
        _sub_agent(Spot(Point.IN_EFFECT, "model", 4)),
    ),
    Case(
        "a_sub_agent_killed_before_its_report_is_delivered_is_carried_on",
        _sub_agent(Spot(Point.AFTER_OUTCOME, "model", 3)),
    ),
    Case("two_sub_agents_that_ask_for_the_same_are_kept_apart", _twins()),
    Case("two_sub_agents_that_ask_for_the_same_are_carried_on", _twins(Spot(Point.AFTER_EFFECT, "safe"))),
    Case("a_compaction_by_the_harness_is_no_divergence", _compacted()),
    Case(
        "a_compaction_killed_when_it_is_asked_for_is_carried_on",
        _compacted(Spot(Point.AFTER_INTENT, "model", 2)),
    ),
    Case(
        "a_compaction_killed_before_it_is_delivered_is_carried_on",
        _compacted(Spot(Point.AFTER_OUTCOME, "model", 2)),
    ),
    Case(
        "a_turn_killed_right_after_its_compaction_is_carried_on",
        _compacted(Spot(Point.AFTER_INTENT, "model", 3)),
    ),
    Case(
        "a_turn_killed_in_a_tool_after_its_compaction_is_carried_on",
        _compacted(Spot(Point.AFTER_EFFECT, "never", 2)),
    ),
)
