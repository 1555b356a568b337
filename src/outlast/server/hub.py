"""The hub of a process that serves: the feeds of its sessions, and of its tenants' lists. Belongs to one event loop."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from outlast.errors import WorldUnavailable
from outlast.groups import task_group
from outlast.records.events import Event
from outlast.server.feed import Bounds, Feed, Page, read_on
from outlast.server.feeds import BEAT_S, Changes, Hub, Shown
from outlast.server.listing import Listing
from outlast.world import Cursor, World

BOUNDS: Final = Bounds()


@dataclass(slots=True)
class _Seat:
    """Somebody who watches: where it is, and what was read for it alone."""

    place: Cursor
    page: list[Shown] = field(default_factory=list[Shown])
    """Behind `place`, in order, the next one last."""


class _Pages:
    """What was read for those who catch up, bounded for all together: who has taken nothing for longest loses it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: OrderedDict[int, tuple[_Seat, int]] = OrderedDict()
        self._size = 0

    def keep(self, seat: _Seat) -> None:
        """The seat's page is new, or somebody took of it."""
        self.drop(seat)
        if seat.page:
            size = sum(shown.size for shown in seat.page)
            self._sizes[id(seat)] = seat, size
            self._size += size
        while self._size > self._limit and len(self._sizes) > 1:
            oldest, _ = next(iter(self._sizes.values()))
            self.drop(oldest)
            oldest.page.clear()

    def drop(self, seat: _Seat) -> None:
        """The seat's page no longer counts."""
        _, size = self._sizes.pop(id(seat), (seat, 0))
        self._size -= size


class _Hub:
    """See `outlast.server.feeds.Hub`."""

    def __init__(self, world: World, tasks: TaskGroup, bounds: Bounds) -> None:
        self._world = world
        self._tasks = tasks
        self._bounds = bounds
        self._feeds: dict[tuple[str, str], tuple[Feed, set[int]]] = {}
        self._listings: dict[str, tuple[Listing, set[int]]] = {}
        self._pages = _Pages(bounds.pages_bytes)
        self._reads = anyio.CapacityLimiter(bounds.reads)
        self._ended = False

    async def follow(self, tenant: str, session: str, after: Cursor) -> AsyncGenerator[Event]:
        async with aclosing(self.batches(tenant, session, after)) as batches:
            async for batch in batches:
                for shown in batch:
                    yield shown.event

    async def batches(
        self, tenant: str, session: str, after: Cursor, beat_s: float = BEAT_S
    ) -> AsyncGenerator[Sequence[Shown]]:
        seat = _Seat(after)
        with self._seated(tenant, session, seat) as feed:
            while not self._ended:
                batch = await self._take(feed, seat, beat_s)
                if batch or not self._ended:
                    yield batch

    async def changes(self, tenant: str, beat_s: float = BEAT_S) -> AsyncGenerator[Changes | None]:
        with self._listed(tenant) as listing:
            async with aclosing(listing.changes(beat_s)) as found:
                async for changed in found:
                    yield changed

    def end(self) -> None:
        self._ended = True
        for feed, _ in self._feeds.values():
            feed.wake()
        for listing, _ in self._listings.values():
            listing.end()

    # One session

    @contextmanager
    def _seated(self, tenant: str, session: str, seat: _Seat) -> Generator[Feed]:
        """A seat at the feed of a session, which is read from when the first sits down until the last is gone."""
        key = tenant, session
        if key not in self._feeds:
            feed = Feed(self._world.for_tenant(tenant), session, self._bounds)
            self._feeds[key] = feed, set()
            self._tasks.start_soon(feed.read, seat.place)
        feed, seats = self._feeds[key]
        seats.add(id(seat))
        try:
            yield feed
        finally:
            self._pages.drop(seat)
            seats.discard(id(seat))
            if not seats:
                del self._feeds[key]
                feed.scope.cancel()

    async def _take(self, feed: Feed, seat: _Seat, beat_s: float) -> Sequence[Shown]:
        """What comes next; nothing after `beat_s` without, or at the end."""
        while not self._ended:
            batch = self._found(feed, seat)
            if batch:
                seat.place = batch[-1].place
                return batch
            if feed.error is not None:
                raise feed.error
            if feed.floor is not None and seat.place < feed.floor:
                before = seat.place
                await self._catch_up(feed, seat)
                if not seat.page and seat.place == before:
                    return ()
            elif not await feed.wait(beat_s):
                return ()
        return ()

    def _found(self, feed: Feed, seat: _Seat) -> Sequence[Shown]:
        if feed.floor is None:
            return ()
        if seat.place >= feed.floor:
            self._pages.drop(seat)
            seat.page.clear()
            return feed.behind(seat.place)
        batch: list[Shown] = []
        size = 0
        while seat.page and size < self._bounds.batch_bytes:
            batch.append(seat.page.pop())
            size += batch[-1].size
        self._pages.keep(seat)
        return batch

    async def _catch_up(self, feed: Feed, seat: _Seat) -> None:
        """Read the next page for one behind the window: as much as the World gives in time."""
        page = Page(seat.place)
        with anyio.move_on_after(self._bounds.read_s):
            try:
                async with self._reads:
                    await read_on(feed, page, self._bounds.page_bytes)
            except WorldUnavailable:
                if page.reached == seat.place:
                    await anyio.sleep(self._bounds.pause_s)
        seat.page = page.found[::-1]
        if not seat.page:
            seat.place = page.reached
        self._pages.keep(seat)

    # The list

    @contextmanager
    def _listed(self, tenant: str) -> Generator[Listing]:
        """The list of a tenant, which is read while anybody follows it."""
        if tenant not in self._listings:
            listing = Listing(self._world.for_tenant(tenant))
            self._listings[tenant] = listing, set()
            self._tasks.start_soon(listing.read)
        listing, seats = self._listings[tenant]
        seat = object()
        seats.add(id(seat))
        if self._ended:
            listing.end()
        try:
            yield listing
        finally:
            seats.discard(id(seat))
            if not seats:
                del self._listings[tenant]
                listing.scope.cancel()


@asynccontextmanager
async def open_hub(world: World, bounds: Bounds = BOUNDS) -> AsyncGenerator[Hub]:
    """A hub over the tenants of a World. When it closes, its streams end as after `Hub.end`."""
    async with task_group() as tasks:
        hub = _Hub(world, tasks, bounds)
        try:
            yield hub
        finally:
            hub.end()
            tasks.cancel_scope.cancel()
