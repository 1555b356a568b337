"""What the model must read of tool calls: the results in the log, whatever a harness makes of them."""

from typing import Final

from outlast.calls import ToolResult
from outlast.engine.context import Context
from outlast.engine.results import read_result
from outlast.fold import CallState
from outlast.records import CallIntent

TOGETHER: Final = 64
"""Results that are fetched in one round trip."""
UNKNOWN: Final = "The log holds no result of this call."


class Told:
    """The results of one attempt's calls, and where the harness may say otherwise."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._results: dict[int, ToolResult] = {}
        self._corrections: dict[str, ToolResult] = {}

    def clear(self) -> None:
        """The loop begins again, and asks for none of them any more."""
        self._results.clear()

    def note(self, intent: CallIntent, result: ToolResult) -> None:
        """A call has ended."""
        self._results[intent.call] = result
        if intent.harness_id and result.status in {"in_doubt", "interrupted", "cancelled"}:
            self._corrections[intent.harness_id] = result
        else:
            self._corrections.pop(intent.harness_id, None)  # of an earlier call that had the same id

    async def of(self, state: CallState) -> ToolResult:
        """How a settled call ended."""
        known = self._results.get(state.intent.call)
        if known is None and state.outcome is not None:
            known = read_result(state.outcome, await self._context.value(state.outcome.result))
            self._results[state.intent.call] = known
        return known or ToolResult("error", UNKNOWN)

    async def recall(self) -> None:
        """Read the results of all settled tool calls, and what earlier turns were told."""
        settled = [
            state.outcome
            for state in self._context.turn.calls.values()
            if state.intent.kind != "model" and state.outcome is not None
        ]
        for at in range(0, len(settled), TOGETHER):
            some = settled[at : at + TOGETHER]
            values = await self._context.values([outcome.result for outcome in some])
            for outcome, value in zip(some, values, strict=True):
                self._results[outcome.call] = read_result(outcome, value)
        for harness_id, payload in self._context.writer.state.told.items():
            self._corrections[harness_id] = ToolResult("in_doubt", await self._context.value(payload))

    def find(self, harness_id: str) -> ToolResult | None:
        """What must be read of a call, where the harness may say otherwise."""
        return self._corrections.get(harness_id)

    def correct(self, harness_id: str, result: ToolResult) -> None:
        """From now on `result` must be read of a call."""
        self._corrections[harness_id] = result
