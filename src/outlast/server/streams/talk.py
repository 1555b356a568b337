"""One turn, read and made into chunks once for all who watch it here by one protocol."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
from msgspec import Raw
from msgspec.structs import replace

from outlast.records import Payload
from outlast.records.events import Event, EventKind
from outlast.server.feeds import BEAT_S, Hub, Shown
from outlast.server.streams.moves import Move
from outlast.server.streams.turning import TurnMoves
from outlast.squeezing import unsqueeze
from outlast.world import Cursor, World

SHOWN_BYTES: Final = 4 * 1024 * 1024
"""A value that takes more as JSON is told by its size."""
IDLE_BYTES: Final = 32 * 1024 * 1024
"""Chunks that are kept of turns that nobody watches now, for who comes back."""
_READ: Final[frozenset[EventKind]] = frozenset(
    {"turn.opened", "call.opened", "call.settled", "document.edited", "turn.settled"}
)


class Projection(Protocol):
    """Makes moves into chunks; the list only grows."""

    @property
    def chunks(self) -> Sequence[object]: ...

    @property
    def weight(self) -> int:
        """Bytes of its chunks."""
        ...

    @property
    def over(self) -> bool:
        """No more will come: the turn is settled."""
        ...

    def take(self, move: Move) -> None:
        """Take in the next move."""
        ...


Shows = TypeVar("Shows", bound=Projection)


@dataclass(frozen=True, slots=True)
class Place:
    """Which turn, and where in the log to begin to look for it."""

    tenant: str
    session: str
    prompt: str
    """Id of the input that became it, or will."""
    after: Cursor
    """Before the commit that opens it."""


class Talk(Generic[Shows]):
    """A turn as one projection shows it.

    * Whoever watches and has all that is there reads on, one of them for all. Who does is not known to the others: when
      it leaves, another takes its place, from the same cursor.
    * An event is taken in whole or not at all, so that leaving in the middle shifts no index.
    """

    def __init__(self, hub: Hub, world: World, place: Place, shows: Shows) -> None:
        self.shows = shows
        self.ended = False
        """The hub gives no more: whoever watches is to come back, to another process."""
        self._hub = hub
        self._world = world
        self._place = place
        self._cursor = place.after
        self._moves = TurnMoves(place.prompt)
        self._source: AsyncGenerator[Sequence[Shown]] | None = None
        self._reading = False
        self._changed = anyio.Event()

    @property
    def turn(self) -> int:
        """Number of the turn; 0 before it was opened."""
        return self._moves.turn

    async def more(self, count: int) -> bool:
        """Wait for more than `count` chunks. False: nothing came for a while, or nothing will.

        Raises:
            SessionUnknown, SessionErased, OutlastError: as `Hub.batches`.
        """
        while len(self.shows.chunks) <= count:
            if self.shows.over or self.ended:
                return False
            if self._reading:
                await self._changed.wait()
                continue
            if not await self._read() and len(self.shows.chunks) <= count:
                return False
        return True

    async def reach(self, seq: int) -> None:
        """Wait until everything up to commit `seq` is taken in."""
        while self._cursor.seq < seq and not (self.shows.over or self.ended):
            if self._reading:
                await self._changed.wait()
            else:
                await self._read()

    async def close(self) -> None:
        """Nobody watches: read no more until somebody does."""
        source, self._source = self._source, None
        if source is not None:
            with anyio.CancelScope(shield=True):
                await source.aclose()

    async def _read(self) -> bool:
        """Take in the next batch; False if it was empty: nothing came for a while."""
        self._reading, whole = True, False
        try:
            if self._source is None:
                place = self._place
                self._source = self._hub.batches(place.tenant, place.session, self._cursor, BEAT_S)
            batch = await anext(self._source, None)
            if batch:
                self._take(batch, await self._values(batch))
            self.ended = batch is None
            whole = True
        finally:
            self._reading = False
            changed, self._changed = self._changed, anyio.Event()
            changed.set()
            if not whole:
                await self.close()
        return bool(batch)

    def _take(self, batch: Sequence[Shown], values: dict[str, bytes]) -> None:
        for shown in batch:
            for move in self._moves.take(_filled(shown.event, values)):
                self.shows.take(move)
            self._cursor = shown.place

    async def _values(self, batch: Sequence[Shown]) -> dict[str, bytes]:
        """What stands behind blobs, of that which is shown."""
        turn = self._moves.turn
        events = [shown.event for shown in batch]
        if not turn and not any(event.name == self._place.prompt for event in events):
            return {}
        refs = {
            event.payload.ref
            for event in events
            if event.kind in _READ and event.payload.ref and event.payload.size <= SHOWN_BYTES
        }
        if not refs:
            return {}
        found = await self._world.get_many(self._place.session, sorted(refs))
        return {ref: unsqueeze(data) for ref, data in found.items()}


def _filled(event: Event, values: dict[str, bytes]) -> Event:
    value = values.get(event.payload.ref)
    return event if value is None else replace(event, payload=Payload(Raw(value)))


class Talks:
    """The turns that are watched in this process, by protocol, and some that were. Belongs to one event loop."""

    def __init__(self, idle_bytes: int = IDLE_BYTES) -> None:
        self._limit = idle_bytes
        self._watched: dict[tuple[str, ...], tuple[Talk[Any], list[None]]] = {}
        self._idle: OrderedDict[tuple[str, ...], Talk[Any]] = OrderedDict()
        self._idle_bytes = 0

    @asynccontextmanager
    async def sit(self, key: tuple[str, ...], make: Callable[[], Talk[Shows]]) -> AsyncGenerator[Talk[Shows]]:
        """The turn of this key, made if it is not there.

        Args:
            key: tenant, session, prompt and protocol; always of the same kind of projection.
        """
        talk, seats = self._watched.get(key) or (self._unidle(key) or make(), [])
        self._watched[key] = talk, seats
        seats.append(None)
        try:
            yield talk
        finally:
            seats.pop()
            if not seats:
                del self._watched[key]
                await talk.close()
                self._keep(key, talk)

    def _unidle(self, key: tuple[str, ...]) -> Talk[Any] | None:
        talk = self._idle.pop(key, None)
        if talk is not None:
            self._idle_bytes -= talk.shows.weight
        return talk

    def _keep(self, key: tuple[str, ...], talk: Talk[Any]) -> None:
        if key in self._watched or talk.ended:  # somebody came while it was closed
            return
        self._idle[key] = talk
        self._idle_bytes += talk.shows.weight
        while self._idle and self._idle_bytes > self._limit:
            _, oldest = self._idle.popitem(last=False)
            self._idle_bytes -= oldest.shows.weight
