"""Whatever the log, today's code and the adapter: recovery decides about every open call, and never laxly."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.fold import CallState, TurnState, fold
from outlast.records import CallIntent, Payload
from outlast.records.kinds import OnDoubt, Policy
from outlast.recovery import (
    DECIDED_AGAIN,
    NEVER_BEGAN,
    NOT_COMPLETED,
    STRICTNESS,
    Abilities,
    AskAgain,
    Declared,
    Doubt,
    Interrupt,
    Run,
    Step,
    Verify,
    plan,
    stricter,
)
from outlast.world.commit import Commit
from tests.property.strategies import logs, of_type

NOW_S = 100.0
POLICIES: tuple[Policy, ...] = ("safe", "keyed", "verify", "never")
SETS = list(product(POLICIES, POLICIES, POLICIES))

declarations = st.none() | st.builds(
    Declared, of_type(Policy), of_type(OnDoubt), st.sampled_from([0.0, 5.0, 60.0])
)
abilities = st.builds(Abilities, st.sampled_from(["none", "one", "all"]))


def _turn(log: list[Commit]) -> TurnState:
    return fold("s", log).turn or TurnState(1, "in", Payload())


def _began(call: CallState) -> bool:
    return bool(call.started) or not (call.intent.granted or call.tries)


def _told_to(call: CallState) -> bool:
    """A person said that it may run once more."""
    return call.decided is not None and call.decided.ruling == "run_again"


def _calls(turn: TurnState) -> list[CallState]:
    """The open calls about which recovery decides: to what it waits for a loop comes again by itself."""
    return [call for call in turn.open_calls() if call.intent.kind in {"model", "tool"}]


def _rank(step: Step) -> int:
    """How little a step allows: to run again, to ask and then perhaps to run, neither."""
    return 0 if isinstance(step, AskAgain | Run) else 1 if isinstance(step, Verify) else 2


@pytest.mark.parametrize(("one", "two", "three"), SETS)
def test_the_stricter_of_two_policies_is_a_join(one: Policy, two: Policy, three: Policy) -> None:
    assert stricter(one, one) == one
    assert stricter(one, two) == stricter(two, one)
    assert stricter(stricter(one, two), three) == stricter(one, stricter(two, three))
    assert STRICTNESS[stricter(one, two)] == max(STRICTNESS[one], STRICTNESS[two])


@given(logs(), abilities, st.data())
def test_every_open_call_has_exactly_one_step_in_order(
    log: list[Commit], can: Abilities, data: st.DataObject
) -> None:
    turn = _turn(log)
    steps = plan(turn, lambda _: data.draw(declarations), can, NOW_S)
    assert [step.call for step in steps] == [call.intent.call for call in _calls(turn)]
    for step in steps:
        assert isinstance(step, AskAgain) == (turn.calls[step.call].intent.kind == "model")


@given(logs(), abilities, declarations)
def test_a_call_that_began_runs_again_only_if_both_policies_allow_it(
    log: list[Commit], can: Abilities, today: Declared | None
) -> None:
    turn = _turn(log)
    for step in plan(turn, lambda _: today, can, NOW_S):
        call = turn.calls[step.call]
        if isinstance(step, Run) and (_began(call) or _told_to(call)):
            assert step.again
            if _told_to(call):
                continue
            assert {call.intent.policy, (today or Declared("never")).policy} <= {"safe", "keyed"}
            assert (
                _key_holds(call.intent, today)
                or call.intent.policy == (today or call.intent).policy == "safe"
            )
        elif isinstance(step, Run):
            assert not step.again


def _key_holds(intent: CallIntent, today: Declared | None) -> bool:
    said_then = not intent.key_until_s or intent.key_until_s > NOW_S
    said_today = today is None or not today.key_ttl_s or intent.at_s + today.key_ttl_s > NOW_S
    return said_then and said_today


@given(logs(), abilities, declarations)
def test_the_model_is_told_to_call_again_only_where_a_second_call_does_no_harm(
    log: list[Commit], can: Abilities, today: Declared | None
) -> None:
    turn = _turn(log)
    for step in plan(turn, lambda _: today, can, NOW_S):
        if isinstance(step, Interrupt):
            call = turn.calls[step.call]
            if _told_to(call):
                assert step.text == DECIDED_AGAIN
                continue
            assert step.text == (NOT_COMPLETED if _began(call) else NEVER_BEGAN)
            assert not _began(call) or call.intent.policy == (today or Declared("never")).policy == "safe"


@given(logs(), abilities, declarations)
def test_a_harness_is_asked_to_run_no_more_than_it_can(
    log: list[Commit], can: Abilities, today: Declared | None
) -> None:
    turn = _turn(log)
    wanted = _runs_of_the_harness(turn, plan(turn, lambda _: today, Abilities("all"), NOW_S))
    mine = _runs_of_the_harness(turn, plan(turn, lambda _: today, can, NOW_S))
    assert set(mine) <= set(wanted)
    assert len(mine) == {"none": 0, "one": min(1, len(wanted)), "all": len(wanted)}[can.can_rerun]
    assert not mine or any(turn.calls[call].intent.spawns for call in mine) == any(
        turn.calls[call].intent.spawns for call in wanted
    )


def _runs_of_the_harness(turn: TurnState, steps: Sequence[Step]) -> list[int]:
    """The calls that it must be made to run: those of a sub-agent come again by themselves."""
    intents = [turn.calls[step.call].intent for step in steps if isinstance(step, Run)]
    return [intent.call for intent in intents if intent.runs_in == "harness" and intent.lane == "main"]


@given(logs(), abilities, declarations)
def test_code_of_today_never_makes_recovery_laxer_than_the_record(
    log: list[Commit], can: Abilities, today: Declared | None
) -> None:
    turn = _turn(log)
    for step in plan(turn, lambda _: today, can, NOW_S):
        call = turn.calls[step.call]
        if call.intent.kind == "tool" and _began(call) and not _told_to(call):
            assert _rank(step) >= {"safe": 0, "keyed": 0, "verify": 1, "never": 2}[call.intent.policy]


@given(logs(), declarations)
def test_a_record_never_makes_recovery_laxer_than_code_of_today(
    log: list[Commit], today: Declared | None
) -> None:
    turn = _turn(log)
    policy = (today or Declared("never")).policy
    for step in plan(turn, lambda _: today, Abilities("all"), NOW_S):
        call = turn.calls[step.call]
        if call.intent.kind == "tool" and _began(call) and not _told_to(call):
            assert _rank(step) >= {"safe": 0, "keyed": 0, "verify": 1, "never": 2}[policy]


@given(logs(), declarations)
def test_a_person_is_asked_if_the_record_or_code_of_today_says_so(
    log: list[Commit], today: Declared | None
) -> None:
    turn = _turn(log)
    for step in plan(turn, lambda _: today, Abilities("all"), NOW_S):
        if isinstance(step, Doubt | Verify):
            said = {turn.calls[step.call].intent.on_doubt, "tell" if today is None else today.on_doubt}
            assert step.on_doubt == ("ask" if "ask" in said else "tell")
