"""A loop that is walked again must make the calls that the log has, each in its place; else both sides are shown."""

from typing import Any

from outlast.codec import canonical, to_json
from outlast.engine.context import Context
from outlast.engine.index import CallIndex
from outlast.fold import CallState
from outlast.records import CallIntent
from outlast.records.kinds import CallKind


class Walk:
    """Finds each call that a loop makes in the log, by lane and place, and parks a turn that went another way."""

    def __init__(self, context: Context, index: CallIndex) -> None:
        self._context = context
        self._index = index

    async def step(self, lane: str, kind: CallKind, name: str, about: object) -> CallState | None:
        """The call of the log at this place of the lane; None where the loop goes on anew.

        Args:
            about: what tells one such call from another: arguments, or the hash of a request.

        Raises:
            TurnStopped: the log has another call there; the turn is parked as diverged.
        """
        state = self._index.ahead(lane)
        if state is None:
            return None
        intent = state.intent
        same = intent.kind == kind and intent.name == name
        if same and (_to_the_letter(intent, about) or await self._is_same(intent, about)):
            self._index.go_on(lane)
            return state
        await self._diverge(state, [kind, name, about])
        return None

    async def end(self) -> None:
        """The loop has ended: nothing that the log has may be left.

        Raises:
            TurnStopped: something is; the turn is parked as diverged.
        """
        for state in self._index.left():
            await self._diverge(state, None)

    async def _is_same(self, intent: CallIntent, about: object) -> bool:
        if intent.kind == "model":
            return about == intent.match
        return canonical(about) == canonical(await self._about(intent))

    async def _about(self, intent: CallIntent) -> Any:
        return intent.match if intent.kind == "model" else await self._context.value(intent.arguments)

    async def _diverge(self, state: CallState, now: object) -> None:
        context, intent = self._context, state.intent
        logged = [intent.kind, intent.name, await self._about(intent)]
        evidence = {"lane": intent.lane, "call": intent.call, "logged": logged, "now": now}
        context.park("diverged", evidence)


def _to_the_letter(intent: CallIntent, about: object) -> bool:
    """Whether a call is about the very text that the log has, as nearly always."""
    if intent.kind == "model":
        return about == intent.match
    return not intent.arguments.ref and to_json(about, what=intent.name) == bytes(intent.arguments.json)
