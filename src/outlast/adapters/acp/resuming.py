"""How a turn that was cut short goes on in an agent."""

from collections.abc import Mapping
from typing import Final

from outlast.adapter import MAIN, Attempt, ToolResult
from outlast.adapters.acp.talk import last_text, results_in
from outlast.parts import find_parts
from outlast.tool import result_text

CUT_SHORT: Final = (
    "The process that you ran in was lost in the middle of this task, and you were started again. Go on with the task "
    "from where it stands now."
)
ASKED_FOR: Final = frozenset({"tool", "wait"})
"""The kinds of calls that an agent knows as tools."""
_CALLS: Final = " Of the tool calls that you had begun, this is known:"
_SHOWN: Final = 400


async def is_over(attempt: Attempt) -> str | None:
    """The last text, if the newest answer of the conversation asks for no tool; None if the turn goes on."""
    calls = attempt.turn.calls.values()
    asked = [state for state in calls if state.intent.kind == "model" and state.intent.lane == MAIN]
    if not asked or asked[-1].outcome is None or asked[-1].outcome.status != "ok":
        return None
    newest = asked[-1].intent.call
    if any(state.intent.asked_by == newest for state in calls):
        return None
    return last_text((await attempt.answers())[newest])


async def cut_short(attempt: Attempt) -> str:
    """What an agent is told whose model calls go past us: that it was cut short, and what became of its tools."""
    lines: list[str] = []
    for state in attempt.turn.calls.values():
        if state.intent.kind in ASKED_FOR and state.outcome is not None:
            result = await attempt.outcome(state.intent.call)
            said = result_text(result.value)[:_SHOWN]
            lines.append(
                f"- {state.intent.name} {state.intent.harness_id}: {result.status.replace('_', ' ')}. {said}"
            )
    return "\n".join([CUT_SHORT + _CALLS, *lines]) if lines else CUT_SHORT


async def correct_results(attempt: Attempt) -> None:
    """See to it that the model reads what the log says of each call: the agent's own files may lack it."""
    worded: Mapping[str, ToolResult] = {}
    for messages in (await attempt.requests()).values():
        worded = {**worded, **results_in(messages)}
    for state in attempt.turn.calls.values():
        intent, outcome = state.intent, state.outcome
        if (
            intent.kind not in ASKED_FOR
            or outcome is None
            or not intent.harness_id
            or outcome.status not in {"ok", "error"}
        ):
            continue
        known = worded.get(intent.harness_id)
        if known is None:
            result = await attempt.outcome(intent.call)
            shown = find_parts(result.value) if intent.runs_in == "worker" else None
            known = ToolResult(result.status, shown or result_text(result.value))
        attempt.calls.correct(intent.harness_id, known)
