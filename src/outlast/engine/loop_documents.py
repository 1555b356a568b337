"""Documents as a loop has them: looks and edits are calls of its lane, and the same when it is walked again."""

from collections.abc import Mapping

import msgspec

from outlast.documents import Document, Wish
from outlast.engine.context import Context
from outlast.engine.waits import Waits
from outlast.engine.walk import Walk
from outlast.errors import BadEdit, TurnStopped
from outlast.fold import CallState
from outlast.gate import Point
from outlast.records import AnyRecord, CallOutcome, Payload
from outlast.records.kinds import OutcomeStatus

POLICY = "document"
"""What their points are crossed with."""


class LoopDocuments:
    """Looks and edits of one attempt (`outlast.adapter.Attempt` says what is promised)."""

    def __init__(self, context: Context, walk: Walk, waits: Waits) -> None:
        self._context = context
        self._walk = walk
        self._waits = waits

    async def read(self, name: str, lane: str) -> Document:
        state = await self._call(f"read {name}", {}, lane)
        outcome = state.outcome
        if outcome is None:
            context = self._context
            there = context.writer.state.documents.get(name)
            found = (0, Payload()) if there is None else (there.version, there.value)
            outcome = self._outcome(state, "ok", *found)
            context.append(outcome, lazy=True)
        return Document(name, outcome.version, await self._context.value(outcome.result))

    async def edit(self, wish: Wish, lane: str) -> Document:
        about = {"edits": msgspec.to_builtins(wish.edits), "if_version": wish.if_version}
        state = await self._call(f"edit {wish.name}", about, lane)
        outcome = state.outcome or await self._edit(state, wish)
        value = await self._context.value(outcome.result)
        if outcome.status != "ok":
            raise BadEdit(name=wish.name, reason=value)
        return Document(wish.name, outcome.version, value)

    async def _edit(self, state: CallState, wish: Wish) -> CallOutcome:
        context, call = self._context, state.intent.call
        packer = context.writer.packer()
        edits: list[AnyRecord] = []
        try:
            (edited,) = await context.documents.land([wish], packer, call=call)
            edits.append(edited)
            outcome = self._outcome(state, "ok", edited.version, edited.value)
        except BadEdit as error:
            edits.append(context.documents.rejected(wish.name, error, call=call))
            reason = packer.payload(str(error.facts["reason"]), what="the reason")
            outcome = self._outcome(state, "error", context.writer.state.version_of(wish.name), reason)
        landed = context.append(*edits, outcome, packer=packer)
        await context.gate.cross(Point.OUTCOME_QUEUED, call=call, policy=POLICY)
        await context.writer.durable(landed)
        await context.gate.cross(Point.AFTER_OUTCOME, call=call, policy=POLICY)
        return outcome

    async def _call(self, name: str, about: Mapping[str, object], lane: str) -> CallState:
        """The call at this place of the lane, found in the log or begun."""
        state = await self._walk.step(lane, "value", name, about)
        if state is None:
            if self._context.stopping is not None:
                raise TurnStopped(self._context.stopping)
            state = self._waits.intend("value", name, about, lane)
        return state

    def _outcome(self, state: CallState, status: OutcomeStatus, version: int, value: Payload) -> CallOutcome:
        intent, now_s = state.intent, self._context.clock.now()
        return CallOutcome(intent.call, intent.turn, status, value, intent.lane, at_s=now_s, version=version)
