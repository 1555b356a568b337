"""The recovery budget: how often a turn may be tried in vain before a person must look at it."""

from typing import Any, Final

from outlast.adapter import Agent
from outlast.fold import CallState, TurnState

LOST_TIMES: Final = 20
"""How many recovery budgets of attempts one turn may lose in all. Progress makes a budget whole again; but a call that
kills whoever runs it is progress too, once it is said to be in doubt, and a model may ask for it for ever."""


CUT_TIMES: Final = 3
"""How often one call may be cut off by the end of its worker's time: it does not fit into that, however often it is
tried."""


def cut_off(call: CallState, fence: int) -> bool:
    """Whether an open call runs in the attempt of `fence`, which ends."""
    intent = call.intent
    if intent.kind == "tool" and intent.granted:
        return call.started == fence
    return intent.kind in {"model", "tool"} and max(call.opened, call.started) == fence


def used_up(turn: TurnState, agent: Agent) -> bool:
    """Whether the turn has used up one of its budgets."""
    lost_most = LOST_TIMES * max(1, agent.recovery_budget)
    return (
        turn.fruitless > agent.recovery_budget
        or turn.lost > lost_most
        or turn.refused > agent.provider_retries
        or any(call.cuts >= CUT_TIMES for call in turn.open_calls())
    )


def evidence(turn: TurnState) -> dict[str, Any]:
    """Why a turn is stuck: what was tried, and what every attempt found open."""
    return {
        "fruitless_attempts": max(0, turn.fruitless),
        "lost_attempts": turn.lost,
        "refused_by_provider": turn.refused,
        "attempts": [
            {"fence": one.fence, "worker": one.worker, "settled": one.settled, "ended": one.ended}
            for one in turn.attempts[-8:]
        ],
        "open_calls": [
            {
                "call": call.intent.call,
                "name": call.intent.name,
                "started": call.started,
                "cut_by_a_deadline": call.cuts,
            }
            for call in turn.open_calls()
        ],
    }
