"""A hook of the user's that wants a person asked about a call is heeded, though the question says nothing of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.claude_code.stream import Asked, Event, HookEnded, HookStarted, Mirrored, Spoken
from outlast.adapters.claude_code.user_hooks import UserHooks

NEWEST = 9


def question(call: str, tool: str = "Bash") -> Asked:
    return Asked(f"r-{call}", call, tool, {})


def heard(*events: Event, newest: int = NEWEST) -> UserHooks:
    hooks = UserHooks()
    for event in events:
        hooks.take(event, newest)
    return hooks


def test_an_ask_counts_for_the_call_whose_hooks_started_with_it() -> None:
    one = [HookStarted("u1", "Read"), HookStarted("o1", "Read")]
    two = [HookStarted("u2", "Read"), HookStarted("o2", "Read")]
    ends = [
        HookEnded("o1", call="c1"),
        HookEnded("o2", call="c2"),
        HookEnded("u2", wants_person=True),
        HookEnded("u1"),
    ]
    hooks = heard(*one, Spoken(), *two, *ends)
    assert not hooks.want_person(question("c1", "Read"), 1)
    assert hooks.want_person(question("c2", "Read"), 2)


def test_a_record_that_is_mirrored_in_between_parts_no_hooks() -> None:
    started = [HookStarted("u", "Bash"), Mirrored("/x", []), HookStarted("o", "Bash")]
    hooks = heard(*started, HookEnded("u", wants_person=True), HookEnded("o", call="c"))
    assert hooks.want_person(question("c"), NEWEST)
    assert not hooks.want_person(question("d"), NEWEST)


def test_an_ask_apart_from_ours_counts_for_every_call_of_the_tool_that_it_may_have_been_about() -> None:
    managed = [HookStarted("m", "Bash"), HookEnded("m", wants_person=True)]
    hooks = heard(*managed, HookStarted("o", "Bash"), HookEnded("o", call="c"))
    assert hooks.want_person(question("c"), NEWEST)
    assert hooks.want_person(question("d"), NEWEST - 1)
    assert not hooks.want_person(question("e"), NEWEST + 1), "the model had not asked for it"
    assert not hooks.want_person(question("f", "Read"), NEWEST)


def test_hooks_that_ask_for_nobody_hold_nothing_back() -> None:
    hooks = heard(
        HookStarted("u", "Bash"), HookStarted("o", "Bash"), HookEnded("u"), HookEnded("o", call="c")
    )
    assert not hooks.want_person(question("c"), 1)
    assert not heard(HookEnded("never started", wants_person=True)).want_person(question("c"), 1)


@dataclass
class Call:
    """A call on its way through its hooks; those of `parts` start together each."""

    number: int
    tool: str
    parts: Sequence[Sequence[HookEnded]]
    running: list[HookEnded] = field(default_factory=list[HookEnded])
    part: int = 0

    @property
    def name(self) -> str:
        return f"c{self.number}"

    @property
    def asks(self) -> bool:
        return any(hook.wants_person for part in self.parts for hook in part)

    def step(self, pick: int) -> Sequence[Event] | None:
        """The next that is heard of it; None: all its hooks have ended."""
        if self.running:
            return [self.running.pop(pick % len(self.running))]
        if self.part == len(self.parts):
            return None
        self.running = list(self.parts[self.part])
        self.part += 1
        return [HookStarted(hook.hook, self.tool) for hook in self.running]


@st.composite
def calls(draw: st.DrawFn, *, managed: bool) -> list[Call]:
    found: list[Call] = []
    # Of more calls than two at once, with managed hooks that overlap as they please, nothing sure can be told.
    for number in range(1, draw(st.integers(1, 2 if managed else 4)) + 1):
        first = [HookEnded(f"m{number}", draw(st.booleans()))]
        users = [HookEnded(f"u{number}-{at}", draw(st.booleans())) for at in range(draw(st.integers(0, 2)))]
        main = [*users, HookEnded(f"o{number}", call=f"c{number}")]
        parts = [first, main] if managed else [main]
        found.append(Call(number, draw(st.sampled_from(["Bash", "Read"])), parts))
    return found


def answers(data: st.DataObject, found: Sequence[Call], hooks: UserHooks) -> dict[str, bool]:
    """Whether a person is wanted for each call, their hooks started and ended in any order."""
    wanted, left = dict[str, bool](), list(found)
    while left:
        call = data.draw(st.sampled_from(left))
        events = call.step(data.draw(st.integers(0, 3)))
        if events is None:
            wanted[call.name] = hooks.want_person(question(call.name, call.tool), call.number)
            hooks.take(question(call.name, call.tool), NEWEST)
            left.remove(call)
        for event in events or ():
            hooks.take(event, NEWEST)
    return wanted


@given(st.data())
def test_no_ask_goes_unheeded_in_whatever_order_hooks_start_and_end(data: st.DataObject) -> None:
    found = data.draw(calls(managed=data.draw(st.booleans())))
    wanted = answers(data, found, UserHooks())
    assert {call.name for call in found if call.asks} <= {name for name, want in wanted.items() if want}


@given(st.data())
def test_calls_whose_hooks_run_side_by_side_are_told_apart(data: st.DataObject) -> None:
    found = data.draw(calls(managed=False))
    hooks = UserHooks()
    for call in found:
        for event in [*(call.step(0) or ()), Spoken()]:
            hooks.take(event, NEWEST)
    assert answers(data, found, hooks) == {call.name: call.asks for call in found}
