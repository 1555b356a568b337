"""What a turn may use up before a person must look at it: attempts in vain, money, tokens, calls, time."""

from typing import Any, Final

from outlast.adapter import Agent, Budget
from outlast.fold import CallState, SessionState, TurnState
from outlast.tally import tokens

LOST_TIMES: Final = 20
"""How many recovery budgets of attempts one turn may lose in all. Progress makes a budget whole again; but a call that
kills whoever runs it is progress too, once it is said to be in doubt, and a model may ask for it for ever."""


CUT_TIMES: Final = 3
"""How often one call may be cut off by the end of its worker's time: it does not fit into that, however often it is
tried."""


HANDED_TIMES: Final = 10
"""How often in a row a turn may be handed over with nothing settled. So often its workers' time was over before it came
to its next call: who wakes them would do so for ever."""


def cut_off(call: CallState, fence: int) -> bool:
    """Whether an open call runs in the attempt of `fence`, which ends."""
    intent = call.intent
    if intent.kind == "tool" and (intent.granted or call.tries):
        return call.started == fence
    return intent.kind in {"model", "tool"} and max(call.opened, call.started) == fence


def overspent(
    state: SessionState, turn: TurnState, budget: Budget, now_s: float, call: int = 0
) -> dict[str, Any] | None:
    """The limit that a turn has reached, as evidence; None while it is within all of them.

    Args:
        call: the one that is to begin, if it is counted already.
    """
    mark, whole = turn.mark, state.usage + turn.usage
    spent: dict[str, tuple[float, float | None]] = {
        "turn_usd": (turn.usage.cost_usd - mark.usage.cost_usd, budget.turn_usd),
        "turn_tokens": (tokens(turn.usage) - tokens(mark.usage), budget.turn_tokens),
        "turn_calls": (turn.count() - mark.calls, budget.turn_calls),
        "turn_s": (now_s - (mark.at_s or turn.at_s), budget.turn_s),
        "session_usd": (whole.cost_usd - mark.earlier.cost_usd - mark.usage.cost_usd, budget.session_usd),
        "session_tokens": (tokens(whole) - tokens(mark.earlier) - tokens(mark.usage), budget.session_tokens),
    }
    for name, (used, limit) in spent.items():
        if limit is not None and used >= limit:
            if name == "turn_calls" and call and turn.count(before=call) - mark.calls < limit:
                continue  # those beyond the limit come after it
            return {"limit": name, "used": round(used, 6), "of": limit}
    return None


def used_up(turn: TurnState, agent: Agent) -> bool:
    """Whether the turn has used up one of its budgets."""
    lost_most = LOST_TIMES * max(1, agent.recovery_budget)
    return (
        turn.fruitless > agent.recovery_budget
        or turn.lost > lost_most
        or turn.refused > agent.provider_retries
        or turn.handed >= HANDED_TIMES
        or any(call.cuts >= CUT_TIMES for call in turn.open_calls())
    )


def evidence(turn: TurnState) -> dict[str, Any]:
    """Why a turn is stuck: what was tried, and what every attempt found open."""
    return {
        "fruitless_attempts": max(0, turn.fruitless),
        "lost_attempts": turn.lost,
        "refused_by_provider": turn.refused,
        "handed_over_in_vain": turn.handed,
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
