"""Whatever is written, whoever comes, dawdles and goes: each gets what is behind its cursor, once, in order."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import WorldUnavailable
from outlast.records.events import Event
from outlast.server.feed import Bounds
from outlast.server.feeds import Hub, Shown
from outlast.server.hub import open_hub
from outlast.testing.faults import AroundWorld
from outlast.watch import events
from outlast.world import START, Cursor, Item, World
from outlast.worlds.memory import open_memory
from tests.property.feeding import Writer, places

pytestmark = pytest.mark.anyio

Step: TypeAlias = tuple[str, int, int]
writes = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 4), st.integers(0, 2)),
    st.tuples(st.just("publish"), st.integers(1, 6), st.just(0)),
    st.tuples(st.just("claim"), st.just(0), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 8), st.just(0)),
)
watches = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 3), st.integers(1, 4)),
    st.tuples(st.just("take"), st.integers(0, 3), st.integers(1, 4)),
    st.tuples(st.just("come"), st.integers(0, 3), st.integers(0, 40)),
    st.tuples(st.just("leave"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("fail"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("pause"), st.integers(1, 3), st.just(0)),
)
steps = st.lists(st.one_of(writes, watches), min_size=15, max_size=80)
bounds = st.builds(
    Bounds,
    window_events=st.integers(1, 12),
    window_bytes=st.sampled_from((1, 3_000, 100_000)),
    batch_bytes=st.sampled_from((1, 2_000, 100_000)),
    page_bytes=st.sampled_from((1, 3_000, 100_000)),
    pages_bytes=st.sampled_from((1, 5_000, 100_000)),
    reads=st.integers(1, 2),
    pause_s=st.just(0.001),
)


class Failing(AroundWorld):
    """Away for the next few times that somebody follows."""

    left = 0

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async with aclosing(super().follow(session, after)) as items:
            async for item in items:
                if self.left:
                    self.left -= 1
                    raise WorldUnavailable(world="memory", reason="the test says so")
                yield item

    def for_tenant(self, tenant: str = "default") -> "Failing":
        return self


class Watcher:
    """Comes, takes, goes and comes back where it was."""

    def __init__(self, hub: Hub, begun: Cursor) -> None:
        self.begun = begun
        self.seen: list[Event] = []
        self._hub = hub
        self._batches: AsyncGenerator[Sequence[Shown]] | None = None

    @property
    def place(self) -> Cursor:
        return Cursor.parse(self.seen[-1].cursor) if self.seen else self.begun

    async def take(self, batches: int) -> None:
        """So many batches, or fewer if nothing comes."""
        if self._batches is None:
            self._batches = self._hub.batches("default", "s", self.place, 0.001)
        for _ in range(batches):
            self.seen += [shown.event for shown in await anext(self._batches)]

    async def leave(self) -> None:
        if self._batches is not None:
            await self._batches.aclose()
        self._batches = None


class Life:
    """A session, a hub, and those who watch."""

    def __init__(self, world: Failing, writer: Writer, hub: Hub) -> None:
        self.writer = writer
        self.gone: list[Watcher] = []
        self._world = world
        self._hub = hub
        self._there: dict[int, Watcher] = {}

    async def step(self, what: str, one: int, two: int) -> None:
        match what:
            case "commit":
                await self.writer.commit(one, two)
            case "publish":
                await self.writer.publish(one)
            case "claim":
                await self.writer.claim()
            case "drop":
                await self.writer.drop(one)
            case "fail":
                self._world.left = one
            case _:
                await self._watch(what, one, two)

    async def _watch(self, what: str, one: int, two: int) -> None:
        match what:
            case "pause":
                for _ in range(one):
                    await asyncio.sleep(0)
            case "come":
                await self._leave(one)
                self._there[one] = Watcher(self._hub, self._place(two))
            case "take":
                if one not in self._there:
                    self._there[one] = Watcher(self._hub, self._place(two * 7 + one))
                await self._there[one].take(two)
            case "leave" if one in self._there:
                await self._there[one].leave()
            case _:
                pass

    def _place(self, number: int) -> Cursor:
        """Some place that the session has."""
        writer = self.writer
        seq = number % (writer.seq + 1)
        most = writer.width + writer.deltas if seq == writer.seq else 6
        return Cursor(seq, number % most) if seq else START

    async def _leave(self, number: int) -> None:
        there = self._there.pop(number, None)
        if there is not None:
            await there.leave()
            self.gone.append(there)

    async def end(self) -> None:
        """The World is back, and everybody there takes all there is."""
        self._world.left = 0
        await self.writer.commit(1)
        for watcher in self._there.values():
            while watcher.place < Cursor(self.writer.seq, 0):
                await watcher.take(1)
        for number in list(self._there):
            await self._leave(number)


async def everything(world: World) -> list[Event]:
    """What a reader sees that nobody disturbs."""
    found: list[Event] = []
    last = Cursor((await world.get("s")).seq, 0)
    async with aclosing(events(world, "s", START)) as read:
        async for event in read:
            found.append(event)
            if Cursor.parse(event.cursor) >= last:
                break
    return found


@given(steps=steps, bounds=bounds)
async def test_each_watcher_gets_what_is_behind_its_cursor_once_and_in_order(
    steps: list[Step], bounds: Bounds
) -> None:
    async with open_memory() as memory:
        world, writer = Failing(memory), Writer(memory)
        await writer.open()
        async with open_hub(world, bounds) as hub:
            life = Life(world, writer, hub)
            for step in steps:
                await life.step(*step)
            await life.end()
        whole = places(await everything(memory))
        for watcher in life.gone:
            expected = [found for found in whole if watcher.begun < found[0] <= watcher.place]
            assert places(watcher.seen) == expected
