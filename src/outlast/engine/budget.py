"""The recovery budget: how often a turn may be tried in vain before a person must look at it."""

from typing import Any, Final

from outlast.adapter import Agent
from outlast.fold import TurnState

LOST_TIMES: Final = 20
"""How many recovery budgets of attempts one turn may lose in all. Progress makes a budget whole again; but a call that
kills whoever runs it is progress too, once it is said to be in doubt, and a model may ask for it for ever."""


def used_up(turn: TurnState, agent: Agent) -> bool:
    """Whether the turn has used up one of its budgets."""
    lost_most = LOST_TIMES * max(1, agent.recovery_budget)
    return (
        turn.fruitless > agent.recovery_budget
        or turn.lost > lost_most
        or turn.refused > agent.provider_retries
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
            {"call": call.intent.call, "name": call.intent.name, "started": call.started}
            for call in turn.open_calls()
        ],
    }
