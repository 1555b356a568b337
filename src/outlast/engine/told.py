"""What the model must read of tool calls: the results in the log, whatever a harness makes of them."""

from bisect import bisect_left
from typing import Final

from outlast.calls import ToolResult
from outlast.engine.context import Context
from outlast.engine.results import read_result, told_of
from outlast.fold import CallState
from outlast.records import CallIntent, CallOutcome

TOGETHER: Final = 64
"""Results that are fetched in one round trip."""
REMEMBERED: Final = 4 * TOGETHER
"""Results that are held at a time: those of a whole turn may be more than there is room for."""
UNKNOWN: Final = "The log holds no result of this call."


class Told:
    """The results of one attempt's calls, and where the harness may say otherwise."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fetched: dict[int, ToolResult] = {}
        """Results that stand behind blobs, those fetched last."""
        self._behind: list[int] = []
        """The calls of earlier attempts with such results, in order."""
        self._corrections: dict[str, ToolResult] = {}
        self._lasting: set[str] = set()
        """Of these, those that the log has for the turns to come."""

    def clear(self) -> None:
        """The loop begins again, and asks for none of them any more."""
        self._fetched.clear()
        self._behind = []

    def note(self, intent: CallIntent, result: ToolResult) -> None:
        """A call has ended."""
        if intent.harness_id and result.status in {"in_doubt", "interrupted", "cancelled"}:
            self._corrections[intent.harness_id] = result
            self._lasting.add(intent.harness_id)
        else:  # of an earlier call that had the same id
            self._corrections.pop(intent.harness_id, None)
            self._lasting.discard(intent.harness_id)

    async def of(self, state: CallState) -> ToolResult:
        """How a settled call ended."""
        outcome = state.outcome
        if outcome is None:
            return ToolResult("error", UNKNOWN)
        if not outcome.result.ref:
            return read_result(outcome, outcome.result.value())
        call = state.intent.call
        known = self._fetched.get(call)
        if known is None:
            known = await self._fetch(call, outcome)
        return known

    async def _fetch(self, call: int, outcome: CallOutcome) -> ToolResult:
        """The result of a call; with it those of the calls behind it, which a loop that is walked again asks for."""
        at, calls = bisect_left(self._behind, call), self._context.turn.calls
        following = [calls[number].outcome for number in self._behind[at : at + TOGETHER] if number != call]
        outcomes = [outcome, *(one for one in following if one is not None)]
        values = await self._context.values([one.result for one in outcomes])
        for one, value in zip(outcomes, values, strict=True):
            self._fetched[one.call] = read_result(one, value)
        known = self._fetched[call]
        while len(self._fetched) > REMEMBERED:
            del self._fetched[next(iter(self._fetched))]
        return known

    async def recall(self) -> None:
        """Read what earlier turns were told, and note whose results are to be fetched when they are asked for."""
        self._behind = [
            number
            for number, state in self._context.turn.calls.items()
            if state.outcome is not None and state.outcome.result.ref and state.intent.kind != "model"
        ]
        state = self._context.writer.state
        told, corrected = state.told, state.corrected
        values = await self._context.values([*told.values(), *(one.result for one in corrected.values())])
        for harness_id, value in zip(told, values[: len(told)], strict=True):
            self._corrections[harness_id] = ToolResult("in_doubt", value)
        for one, value in zip(corrected.values(), values[len(told) :], strict=True):
            self._corrections[one.harness_id] = read_result(one, value)
        self._lasting.update(told, corrected)

    def find(self, harness_id: str) -> ToolResult | None:
        """What must be read of a call, where the harness may say otherwise."""
        return self._corrections.get(harness_id)

    def correct(self, harness_id: str, result: ToolResult, *, told: bool) -> None:
        """From now on `result` must be read of a call; once a request has `told` it so, by those of later turns too."""
        if self._corrections.get(harness_id) != result:
            self._corrections[harness_id] = result
            self._lasting.discard(harness_id)
        if told and harness_id not in self._lasting:
            packer = self._context.writer.packer()
            record = told_of(self._context.turn.turn, harness_id, result, packer)
            self._context.append(record, packer=packer, lazy=True)
            self._lasting.add(harness_id)
