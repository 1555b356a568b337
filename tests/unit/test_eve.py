"""What an agent of eve's may do through our module, and what it is told of earlier turns."""

import json
from collections.abc import Mapping, Sequence

import pytest

from outlast.adapter import MAIN, Deny, Let, ToolResult
from outlast.adapters.eve import Eve
from outlast.adapters.eve.conversation import FILE, Conversation
from outlast.adapters.eve.dialogue import EveDialogue
from outlast.fold import CallState, TurnState
from outlast.records import EMPTY, CallIntent, CallOutcome
from outlast.records.kinds import CallKind
from tests.gateway.reference import MemoryAttempt

KNOWN = {"a": ToolResult("ok", {"done": 1}), "b": ToolResult("in_doubt", "It may have happened.")}


SYSTEM = {"role": "system", "content": "You keep a shop."}


class Kept(MemoryAttempt):
    """An attempt at a turn of a session whose log has these lines, and remembers what is mirrored."""

    def __init__(self, *lines: str, turn: int = 1, prompt: str = "hello") -> None:
        super().__init__()
        self.lines = list(lines)
        self.prompt = prompt
        self.turn = TurnState(turn, "", EMPTY)
        self.said: dict[int, Mapping[str, object]] = {}

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        assert file == FILE
        assert position <= len(self.lines)
        self.lines[position:] = lines

    async def mirrored(self) -> Mapping[str, Sequence[str]]:
        return {FILE: self.lines}

    async def answers(self) -> Mapping[int, Mapping[str, object]]:
        return {number: {"choices": [{"message": message}]} for number, message in self.said.items()}

    async def outcome(self, call: int) -> ToolResult:
        return ToolResult("ok", {"call": call})


def text(role: str, said: str) -> dict[str, object]:
    return {"role": role, "content": said}


def asks(*calls: str) -> dict[str, object]:
    told = [
        {"id": call, "type": "function", "function": {"name": "charge", "arguments": "{}"}} for call in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": told}


def result(call: str, said: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call, "content": said}


def ended(turn: TurnState, call: int, kind: CallKind, harness_id: str = "") -> None:
    intent = CallIntent(call, turn.turn, "main", call, kind, "charge", EMPTY, harness_id=harness_id)
    turn.calls[call] = CallState(intent, 1, outcome=CallOutcome(call, turn.turn, "ok"))


def offering(description: str) -> dict[str, object]:
    return {"tools": [{"type": "function", "function": {"name": "charge", "description": description}}]}


def test_a_tool_that_is_not_wrapped_stops_the_turn() -> None:
    speaks = EveDialogue({}, Conversation(Kept()))
    speaks.strip(offering("Charge."))
    assert "charge" in (speaks.complaint(MAIN, {}) or "")


def test_the_mark_of_a_wrapped_tool_goes_nowhere() -> None:
    speaks = EveDialogue({}, Conversation(Kept()))
    assert speaks.strip(offering("Charge. [outlast]")) == offering("Charge.")
    assert speaks.complaint(MAIN, {}) is None


def test_a_finished_call_is_answered_and_a_doubtful_one_told() -> None:
    speaks = EveDialogue(KNOWN, Conversation(Kept()))
    asks = {call: speaks.read_hook("before", {"call": call, "name": "charge", "input": {}}) for call in "abc"}
    assert speaks.hook_answer(asks["a"], Deny("x", settled=True))["result"]["value"] == {"done": 1}
    told = speaks.hook_answer(asks["b"], Deny("It may have happened.", settled=True))
    assert told == {"run": "", "reason": "It may have happened."}
    assert speaks.hook_answer(asks["c"], Let(1, {})) == {"run": "c"}
    assert not speaks.hook_answer(asks["c"], None)["run"]


def test_a_tool_that_no_policy_names_is_never_run_again() -> None:
    agent = Eve(policies={"look": "safe", "get_*": "safe"})
    assert [agent.resolve(name, {}, {}).policy for name in ("look", "get_x", "charge")] == [
        "safe",
        "safe",
        "never",
    ]


@pytest.mark.anyio
async def test_the_next_turn_is_told_what_the_last_one_said_behind_its_instructions() -> None:
    first = Kept()
    conversation = Conversation(first)
    await conversation.open()
    speaks = EveDialogue({}, conversation)
    assert speaks.complaint(MAIN, {"messages": [SYSTEM, text("user", "hello")]}) is None
    first.said = {1: text("assistant", "Good day.")}
    ended(first.turn, 1, "model")
    await conversation.finish()

    second = Kept(*first.lines, turn=2, prompt="again")
    conversation = Conversation(second)
    await conversation.open()
    asked = {"messages": [SYSTEM, text("user", "again")]}
    sent = EveDialogue({}, conversation).strip(asked)["messages"]
    assert sent == [SYSTEM, text("user", "hello"), text("assistant", "Good day."), text("user", "again")]


@pytest.mark.anyio
async def test_an_attempt_begins_its_own_turn_anew_and_keeps_the_earlier_ones() -> None:
    lines = [json.dumps({"turn": turn, "message": text("user", said)}) for turn, said in ((1, "a"), (2, "b"))]
    attempt = Kept(
        *lines, '{"turn": 2, "message": {"role": "assistant", "content": "c"}}', turn=2, prompt="b"
    )
    conversation = Conversation(attempt)
    await conversation.open()
    assert conversation.earlier == [text("user", "a")]
    assert len(attempt.lines) == 2


@pytest.mark.anyio
async def test_what_a_turn_that_was_cut_short_has_not_written_down_is_told_from_the_log() -> None:
    said = [text("user", "a"), asks("x"), result("x", "done")]
    attempt = Kept(*(json.dumps({"turn": 1, "message": one}) for one in said), turn=2)
    cut = TurnState(1, "", EMPTY)
    ended(cut, 1, "model")
    ended(cut, 2, "tool", "x")
    ended(cut, 3, "model")
    ended(cut, 4, "tool", "y")
    attempt.state.cut = cut
    attempt.said = {1: asks("x"), 3: asks("y", "z")}
    for _ in range(2):  # a second attempt finds it complete
        conversation = Conversation(attempt)
        await conversation.open()
        not_run = result("z", "This call did not run: its turn was cut short.")
        assert conversation.earlier == [*said, asks("y", "z"), result("y", '{"call":4}'), not_run]


@pytest.mark.anyio
async def test_a_prompt_that_no_request_has_carried_is_not_told() -> None:
    attempt = Kept(json.dumps({"turn": 1, "message": text("user", "a")}), turn=2)
    attempt.state.cut = TurnState(1, "", EMPTY)
    conversation = Conversation(attempt)
    await conversation.open()
    assert conversation.earlier == []
