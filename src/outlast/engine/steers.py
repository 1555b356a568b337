"""Steers that have arrived for the running turn."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from outlast.adapter import TakenSteer
from outlast.behind import is_note
from outlast.engine.context import Context


class AttemptSteers:
    """See `outlast.adapter.Steers`.

    A steer is taken by the commit of the model intent that carries it, or, when its turn never takes it, queued as the
    next prompt by the commit that settles the turn.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, TakenSteer] = {}
        self._all: list[TakenSteer] = []
        self._arrived = asyncio.Event()
        context.on_begin_again = self._take_back
        for note in context.writer.state.behind.waiting:
            self.put(TakenSteer(note.id, note.text))

    def _take_back(self) -> None:
        """What the loop was told and has put into no request, before it began again, it is told once more."""
        back = {steer.input: steer for steer in self._context.take_steers()}
        self._waiting = {**back, **self._waiting}

    def put(self, steer: TakenSteer) -> None:
        """A steer came in; one that is known already changes nothing."""
        if all(known.input != steer.input for known in self._all):
            self._waiting[steer.input] = steer
            self._all.append(steer)
            self._arrived.set()

    def waiting(self) -> Sequence[TakenSteer]:
        notes = {note.id for note in self._context.writer.state.behind.waiting}
        return [one for one in self._waiting.values() if not is_note(one.input) or one.input in notes]

    async def arrivals(self) -> AsyncIterator[TakenSteer]:
        at = 0
        while True:
            while at < len(self._all):
                yield self._all[at]
                at += 1
            self._arrived.clear()
            await self._arrived.wait()

    def untaken(self) -> Sequence[TakenSteer]:
        """Those that are in no model intent when the turn ends: also what was to be carried by one that never came."""
        left = [*self._context.take_steers(), *self._waiting.values()]
        return [steer for steer in left if not is_note(steer.input)]  # what is told like one waits in the log

    def carried(self, input_id: str, lane: str = "") -> None:
        steer = self._waiting.pop(input_id, None)
        if steer is not None:
            self._context.carry_steer(steer, lane)
