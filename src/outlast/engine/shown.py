"""What watchers are to be shown of open calls, until it is on its way."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from outlast.codec import encode_delta
from outlast.errors import WorldUnavailable
from outlast.fold import TurnState
from outlast.records.events import LiveDelta
from outlast.world import Delta, Lease, World


class Deltas:
    """Waiting deltas in order; one that goes on where the last ended is one with it."""

    def __init__(self) -> None:
        self._waiting: list[LiveDelta] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, delta: LiveDelta) -> None:
        """One more."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and _goes_on(last, delta):
            self._waiting[-1] = msgspec.structs.replace(last, text=last.text + delta.text)
        else:
            self._waiting.append(delta)

    def drop(self, call: int) -> None:
        """Show nothing more of a call: its outcome is shown, or it is retracted."""
        self._waiting = [delta for delta in self._waiting if delta.call != call]

    def take(self, turn: TurnState | None) -> list[LiveDelta]:
        """All of calls that are open; none waits then."""
        alive = {} if turn is None else turn.calls
        taken = [delta for delta in self._waiting if delta.call in alive and alive[delta.call].open]
        self._waiting = []
        return taken


async def put(
    world: World, lease: Lease, place: tuple[int, int], deltas: Sequence[LiveDelta], lost: Callable[[], bool]
) -> None:
    """Publish deltas, until they are there or the lease is lost; `place` is their commit and the index of the first."""
    bodies = [Delta(encode_delta(delta)) for delta in deltas]
    pause = 0.05
    while True:
        try:
            return await world.publish(lease, *place, bodies)
        except WorldUnavailable:
            # The same indices may be put again; a World that is gone for good loses the lease to the keeper.
            if lost():
                return None
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 2)


def _goes_on(last: LiveDelta, delta: LiveDelta) -> bool:
    """Whether `delta` is the piece right after `last`, so that both are one."""
    return (last.call, last.kind, last.offset + len(last.text)) == (delta.call, delta.kind, delta.offset)
