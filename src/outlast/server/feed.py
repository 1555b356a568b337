"""One session, read once, and those who watch it. Belongs to one event loop."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import anyio

from outlast.errors import WorldUnavailable
from outlast.server.feeds import Shown
from outlast.watch import events
from outlast.world import START, Cursor, World

RECENT_COMMITS: Final = 32
"""How far before the newest commit a reader begins at most: who comes from there shares it."""
BREATH: Final = 64
"""After so many events in a row those who watch are let take them."""
FIRST_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a hub may hold, in bytes as `Shown.size` counts them."""

    window_events: int = 1_000
    window_bytes: int = 512 * 1024
    """Of one session."""
    batch_bytes: int = 64 * 1024
    """Given to a watcher at once; one event is, however long."""
    page_bytes: int = 1024 * 1024
    """Read at once for one that catches up."""
    pages_bytes: int = 32 * 1024 * 1024
    """Read for all who catch up, and not taken yet."""
    reads: int = 8
    """So many are read for at once."""
    pause_s: float = 1.0
    """At most, before a World that is away is asked again."""
    read_s: float = 5.0
    """How long one such read may take, its place in the line included."""


class Feed:
    """The newest events of a session, and whoever waits for more.

    `floor` is the place behind which everything is in the window or yet to come; None before it is known.
    """

    def __init__(self, world: World, session: str, bounds: Bounds) -> None:
        self.world = world
        self.session = session
        self.floor: Cursor | None = None
        self.error: Exception | None = None
        """Why nothing more comes: whoever has taken what is in the window is told."""
        self.scope = anyio.CancelScope()
        self._bounds = bounds
        self._window: list[Shown] = []
        self._places: list[Cursor] = []
        self._size = 0
        self._waiting: set[asyncio.Future[None]] = set()

    # Reading

    async def read(self, after: Cursor) -> None:
        """Read until the feed's scope is cancelled, or nothing more can come.

        Args:
            after: where the first who watches goes on.
        """
        with self.scope:
            first_s = min(FIRST_PAUSE_S, self._bounds.pause_s)
            pause_s = first_s
            while True:
                newest = self._newest
                try:
                    await self._read(after)
                except WorldUnavailable:
                    pass  # below: it is asked again
                except Exception as error:  # noqa: BLE001 - whoever watches this session raises it; others go on
                    self.error = error
                    self.wake()
                    return
                pause_s = first_s if self._newest != newest else min(self._bounds.pause_s, 2 * pause_s)
                await anyio.sleep(pause_s)

    @property
    def _newest(self) -> Cursor | None:
        return self._places[-1] if self._places else self.floor

    async def _read(self, after: Cursor) -> None:
        place = self._newest
        if place is None:
            place = self.floor = _beginning(after, (await self.world.get(self.session)).seq)
            self.wake()
        taken = 0
        async with aclosing(events(self.world, self.session, place)) as found:
            async for event in found:
                self._add(Shown(event))
                taken += 1
                if taken % BREATH == 0:
                    await asyncio.sleep(0)

    def _add(self, shown: Shown) -> None:
        self._window.append(shown)
        self._places.append(shown.place)
        self._size += shown.size
        if len(self._window) > self._bounds.window_events or self._size > self._bounds.window_bytes:
            self._trim()
        self.wake()

    def _trim(self) -> None:
        """Forget the older half."""
        half = max(1, len(self._window) // 2)
        self.floor = self._places[half - 1]
        self._size -= sum(shown.size for shown in self._window[:half])
        del self._window[:half], self._places[:half]

    # Watching

    def behind(self, place: Cursor) -> Sequence[Shown]:
        """What the window holds behind a place not below the floor, as much as is given at once."""
        first = bisect_right(self._places, place)
        last, size = first, 0
        while last < len(self._window) and (size < self._bounds.batch_bytes or last == first):
            size += self._window[last].size
            last += 1
        return self._window[first:last]

    def wake(self) -> None:
        """Let those who wait look again."""
        waiting, self._waiting = self._waiting, set[asyncio.Future[None]]()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Until there may be something new; False if `seconds` passed without."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.add(waiter)
        # Cheaper than a scope with a deadline: it is made for each watcher at each event.
        timer = loop.call_later(seconds, _expire, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            woken = waiter not in self._waiting
            self._waiting.discard(waiter)
        return woken


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _beginning(after: Cursor, newest: int) -> Cursor:
    """Where the reader of a session begins whose newest commit has the number `newest`.

    Where a delta after the newest commit would be nobody can say yet, and whoever comes after the first may come from
    before it: what is shown behind the result can be reached by reading from anywhere before it.
    """
    recent = newest - RECENT_COMMITS
    floor = Cursor.behind(recent) if recent > 0 else START
    if after.seq >= newest:
        return Cursor.behind(newest - 1) if newest > 1 else START
    return max(after, floor)


@dataclass(slots=True)
class Page:
    """What was read for one that catches up, while it is read."""

    reached: Cursor
    """Up to here nothing is missing in `found`; behind it come places that nothing shows, too."""
    found: list[Shown] = field(default_factory=list[Shown])


async def read_on(feed: Feed, page: Page, most_bytes: int) -> None:
    """Read what comes behind a place below a feed's floor, up to about `most_bytes` or to where the feed goes on.

    It may be cancelled anywhere: the page is good as far as it has come. Where everything up to the floor is hidden
    it ends too, since something stands behind every floor.

    Raises:
        OutlastError
    """
    size = taken = 0
    async with aclosing(events(feed.world, feed.session, page.reached, hidden=True)) as read:
        async for event in read:
            shown = Shown(event)
            if event.kind != "hidden":
                page.found.append(shown)
            page.reached = shown.place
            size += shown.size
            taken += 1
            if size >= most_bytes or feed.floor is None or shown.place >= feed.floor:
                break
            if taken % BREATH == 0:
                await asyncio.sleep(0)
