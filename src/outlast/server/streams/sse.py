"""Plain streams: what a session shows, as an `EventSource` reads it and any HTTP client can.

Each event is one frame: its cursor as `id`, itself as JSON in `data`. Its kind stands in the JSON, and with `named`
also as the frame's `event`: a listener for one kind is handy, but a client that must name every kind does not see those
that a later version adds, so it is not the default.

`failed` is a frame of its own, with `{"status": …, "error": …}`: nothing more can come, and the stream ends behind it.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from outlast.answers import failure
from outlast.errors import OutlastError
from outlast.server.feeds import BEAT_S, Hub, Shown
from outlast.server.streams.frames import HEARTBEAT, named_frame, retry_frame
from outlast.watch import of_turn
from outlast.world import Cursor

RETRY_MS: Final = 1_000
"""After this an `EventSource` comes back when its connection has ended."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody watches."""

    tenant: str
    session: str
    after: Cursor
    named: bool = False
    """Each frame has its event's kind as its name."""
    turn: int = 0
    """Only what this turn shows, to its end; 0: everything, without end."""


async def plain_stream(hub: Hub, wanted: Wanted, beat_s: float = BEAT_S) -> AsyncGenerator[bytes]:
    """The pieces of a plain stream: several frames in each, with a comment when nothing was sent for `beat_s`."""
    yield retry_frame(RETRY_MS)
    now = asyncio.get_running_loop().time
    part = _Part(wanted.turn)
    sent_s = now()
    try:
        async with aclosing(hub.batches(wanted.tenant, wanted.session, wanted.after, beat_s)) as batches:
            async for batch in batches:
                piece = _frames(part.of(batch), named=wanted.named)
                if piece or now() - sent_s >= beat_s:
                    yield piece or HEARTBEAT
                    sent_s = now()
                if part.ended:
                    return
    except OutlastError as error:
        yield failed_frame(error)


def failed_frame(error: OutlastError) -> bytes:
    """Why nothing more comes."""
    return named_frame("failed", {"status": failure(error).status_code, "error": str(error)})


class _Part:
    """What somebody wants of what comes: of one turn, up to its end, or everything."""

    def __init__(self, turn: int) -> None:
        self.ended = False
        self._turn = turn
        self._belongs = of_turn(turn)

    def of(self, batch: Sequence[Shown]) -> Sequence[Shown]:
        if not self._turn:
            return batch
        mine: list[Shown] = []
        for one in batch:
            if self._belongs(one.event):
                mine.append(one)
                if one.event.kind == "turn.settled":
                    self.ended = True
                    break
        return mine


def _frames(batch: Sequence[Shown], *, named: bool) -> bytes:
    if named:
        return b"".join([b"event: %b\n%b" % (one.event.kind.encode(), one.frame) for one in batch])
    return b"".join([one.frame for one in batch])
