import pytest

from outlast.fold import CallState, TurnState
from outlast.records import CallIntent, CallOutcome, Decided, Payload
from outlast.records.kinds import OutcomeStatus, Policy
from outlast.recovery import (
    NEVER_BEGAN,
    NOT_COMPLETED,
    Abilities,
    AskAgain,
    Compensate,
    Declared,
    Doubt,
    Interrupt,
    Run,
    Step,
    Verify,
    plan,
)

ALL = Abilities("all")
BEGAN = 7
"""Fence of the attempt that let a call go."""


def _tool(call: int = 1, policy: Policy = "never", **more: object) -> CallIntent:
    return CallIntent(call, 1, "main", call, "tool", "refund", policy=policy, **more)  # pyright: ignore[reportArgumentType] - fields of the struct


def _turn(*calls: CallState) -> TurnState:
    return TurnState(1, "in-1", Payload(), calls={call.intent.call: call for call in calls})


def _steps(
    *calls: CallState, today: Declared | None = None, can: Abilities = ALL, now_s: float = 0.0
) -> list[Step]:
    return list(plan(_turn(*calls), lambda _: today, can, now_s))


def test_an_open_model_call_is_asked_again() -> None:
    model = CallIntent(1, 1, "main", 0, "model", "m", policy="safe")
    assert _steps(CallState(model, 1)) == [AskAgain(1)]


@pytest.mark.parametrize(
    ("recorded", "today", "step"),
    [
        ("safe", "safe", Run(1, again=True)),
        ("keyed", "keyed", Run(1, again=True)),
        ("safe", "keyed", Run(1, again=True)),
        ("keyed", "safe", Run(1, again=True)),
        ("verify", "verify", Verify(1, "tell")),
        ("verify", "safe", Verify(1, "tell")),
        ("keyed", "verify", Verify(1, "tell")),
        ("never", "never", Doubt(1, "tell")),
        ("never", "safe", Doubt(1, "tell")),
        ("safe", "never", Doubt(1, "tell")),
        ("verify", "never", Doubt(1, "tell")),
    ],
)
def test_the_stricter_of_the_recorded_policy_and_today_s_decides(
    recorded: Policy, today: Policy, step: Step
) -> None:
    assert _steps(CallState(_tool(policy=recorded), 1, BEGAN), today=Declared(today)) == [step]


@pytest.mark.parametrize("recorded", ["safe", "keyed", "verify", "never"])
def test_a_tool_that_is_gone_counts_as_never(recorded: Policy) -> None:
    assert _steps(CallState(_tool(policy=recorded), 1, BEGAN), today=None) == [Doubt(1, "tell")]


@pytest.mark.parametrize("policy", ["safe", "keyed", "verify", "never"])
def test_a_call_that_was_granted_and_not_let_go_may_run_whatever_its_policy(policy: Policy) -> None:
    assert _steps(CallState(_tool(policy=policy, granted=True), 1)) == [Run(1, again=False)]


def test_a_call_that_nobody_granted_beforehand_may_have_begun_with_its_intent() -> None:
    assert _steps(CallState(_tool(), 1), today=Declared("never")) == [Doubt(1, "tell")]


@pytest.mark.parametrize(
    ("until_s", "ttl_s", "now_s", "again"),
    [
        pytest.param(0.0, 0.0, 1e9, True, id="for-ever"),
        pytest.param(100.0, 0.0, 99.0, True, id="recorded-time-is-not-over"),
        pytest.param(100.0, 0.0, 100.0, False, id="recorded-time-is-over"),
        pytest.param(0.0, 60.0, 99.0, True, id="today-s-time-is-not-over"),
        pytest.param(0.0, 60.0, 100.0, False, id="today-s-time-is-over"),
        pytest.param(200.0, 60.0, 150.0, False, id="the-shorter-counts"),
    ],
)
def test_a_key_is_used_again_only_while_it_is_honoured(
    until_s: float, ttl_s: float, now_s: float, *, again: bool
) -> None:
    call = CallState(_tool(policy="keyed", key_until_s=until_s, at_s=40.0), 1, BEGAN)
    expected = Run(1, again=True) if again else Doubt(1, "tell")
    assert _steps(call, today=Declared("keyed", key_ttl_s=ttl_s), now_s=now_s) == [expected]


@pytest.mark.parametrize(("recorded", "today"), [("ask", "tell"), ("tell", "ask"), ("ask", "ask")])
def test_a_person_is_asked_if_either_says_so(recorded: str, today: str) -> None:
    call = CallState(_tool(on_doubt=recorded), 1, BEGAN)
    assert _steps(call, today=Declared("never", today)) == [Doubt(1, "ask")]  # pyright: ignore[reportArgumentType] - one of two words


def _harness(call: int, policy: Policy = "safe", **more: object) -> CallState:
    return CallState(_tool(call, policy, runs_in="harness", **more), 1, BEGAN)


def test_a_harness_that_can_run_one_call_again_runs_the_first_and_is_told_of_the_others() -> None:
    batch = [_harness(1), _harness(2), CallState(_tool(3, "safe", runs_in="harness", granted=True), 1)]
    assert _steps(*batch, today=Declared("safe"), can=Abilities("one")) == [
        Run(1, again=True),
        Interrupt(2, NOT_COMPLETED),
        Interrupt(3, NEVER_BEGAN),
    ]


def test_a_harness_that_can_run_none_again_is_told_of_all() -> None:
    assert _steps(_harness(1), _harness(2), today=Declared("safe"), can=Abilities("none")) == [
        Interrupt(1, NOT_COMPLETED),
        Interrupt(2, NOT_COMPLETED),
    ]


def test_a_keyed_call_that_cannot_run_again_is_in_doubt_since_a_new_call_has_a_new_key() -> None:
    call = _harness(1, "keyed", on_doubt="ask")
    assert _steps(call, today=Declared("keyed"), can=Abilities("none")) == [Doubt(1, "ask")]


def test_a_sub_agent_goes_before_other_calls_and_takes_its_own_along() -> None:
    inner = CallState(CallIntent(3, 1, "sub1", 0, "tool", "read", policy="safe", runs_in="harness"), 1, BEGAN)
    batch = [_harness(1), _harness(2, spawns=True), inner]
    assert _steps(*batch, today=Declared("safe"), can=Abilities("one")) == [
        Interrupt(1, NOT_COMPLETED),
        Run(2, again=True),
        Run(3, again=True),
    ]


@pytest.mark.parametrize(
    ("policy", "otherwise"), [("safe", Interrupt(2, NOT_COMPLETED)), ("never", Doubt(2, "tell"))]
)
def test_a_sub_agent_that_cannot_begin_anew_is_in_doubt_if_it_has_acted(
    policy: Policy, otherwise: Step
) -> None:
    asked = CallState(CallIntent(3, 1, "sub1", 0, "model", "m", policy="safe", asked_by=2), 1)
    inner = CallState(CallIntent(4, 1, "sub1", 0, "tool", "pay", policy=policy, granted=True), 1, BEGAN)
    steps = _steps(
        _harness(1, spawns=True),
        _harness(2, spawns=True),
        asked,
        inner,
        today=Declared("safe"),
        can=Abilities("one"),
    )
    assert steps[:2] == [Run(1, again=True), otherwise]


def test_what_the_worker_runs_itself_is_no_matter_of_the_harness() -> None:
    assert _steps(CallState(_tool(policy="safe"), 1), today=Declared("safe"), can=Abilities("none")) == [
        Run(1, again=True)
    ]


class TestCompensations:
    """A call in doubt that another makes good."""

    today = Declared("never", compensate="undo")

    def _undo(self, policy: Policy = "never", **more: object) -> CallState:
        intent = CallIntent(2, 1, "undo1", 0, "tool", "undo", policy=policy, granted=True, compensates=1)
        return CallState(intent, BEGAN, **more)  # pyright: ignore[reportArgumentType] - fields of the struct

    def _both(self, undo: CallState, today: Declared | None = None) -> list[Step]:
        turn, declared = _turn(CallState(_tool(), BEGAN), undo), today or self.today
        return list(plan(turn, lambda one: declared if one.call == 1 else Declared("never"), ALL, 0.0))

    def test_it_runs_at_once_where_nobody_is_to_be_asked(self) -> None:
        assert _steps(CallState(_tool(), BEGAN), today=self.today) == [Compensate(1, "tell", "undo")]

    def test_a_person_may_choose_it(self) -> None:
        today = Declared("never", "ask", compensate="undo")
        assert _steps(CallState(_tool(), BEGAN), today=today) == [Doubt(1, "ask", "undo")]
        said = Decided(1, 1, "compensate", "in-2")
        assert _steps(CallState(_tool(), BEGAN, decided=said), today=today) == [Compensate(1, "ask", "undo")]

    def test_once_begun_it_is_recovered_by_its_own_policy_and_the_call_never_runs_again(self) -> None:
        asked = Declared("verify", compensate="undo")
        assert self._both(self._undo(), asked) == [Compensate(1, "tell", "undo", 2, Run(2, again=False))]
        begun = self._undo(started=BEGAN)
        assert self._both(begun) == [Compensate(1, "tell", "undo", 2, Doubt(2, "tell"))]

    @pytest.mark.parametrize("status", ["error", "in_doubt"])
    def test_one_that_did_not_end_well_leaves_the_doubt_and_is_not_made_again(
        self, status: OutcomeStatus
    ) -> None:
        ended = self._undo(outcome=CallOutcome(2, 1, status))
        assert self._both(ended) == [Doubt(1, "tell", "undo")]
        assert self._both(self._undo(outcome=CallOutcome(2, 1, "ok"))) == [Compensate(1, "tell", "undo", 2)]
