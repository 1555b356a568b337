"""What an agent of eve's may do through our module."""

from outlast.adapter import MAIN, Deny, Let, ToolResult
from outlast.adapters.eve import Eve
from outlast.adapters.eve.dialogue import EveDialogue

KNOWN = {"a": ToolResult("ok", {"done": 1}), "b": ToolResult("in_doubt", "It may have happened.")}


def offering(description: str) -> dict[str, object]:
    return {"tools": [{"type": "function", "function": {"name": "charge", "description": description}}]}


def test_a_tool_that_is_not_wrapped_stops_the_turn() -> None:
    speaks = EveDialogue({})
    speaks.strip(offering("Charge."))
    assert "charge" in (speaks.complaint(MAIN, {}) or "")


def test_the_mark_of_a_wrapped_tool_goes_nowhere() -> None:
    speaks = EveDialogue({})
    assert speaks.strip(offering("Charge. [outlast]")) == offering("Charge.")
    assert speaks.complaint(MAIN, {}) is None


def test_a_finished_call_is_answered_and_a_doubtful_one_told() -> None:
    speaks = EveDialogue(KNOWN)
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
