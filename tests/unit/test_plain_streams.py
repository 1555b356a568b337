"""Plain streams and pages: what they promise of cursors, ends and silences, without a network."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import ManualClock
from outlast.errors import SessionErased, SessionUnknown
from outlast.records import AttemptEnded, TurnOpened, TurnParked, TurnSettled
from outlast.records.events import Event
from outlast.records.payload import EMPTY
from outlast.server.feed import Bounds
from outlast.server.feeds import Shown
from outlast.server.hub import open_hub
from outlast.server.limits import Buckets, Rate
from outlast.server.paging import opening_of, page_of, settling_of
from outlast.server.streams.sse import Wanted, plain_stream
from outlast.testing.faults import AroundWorld
from outlast.watch import events
from outlast.world import START, Cursor, Item, World
from outlast.worlds.memory import open_memory
from tests.event_source import Message, Parser
from tests.property.feeding import Writer

pytestmark = pytest.mark.anyio


def read(pieces: list[bytes]) -> list[Message]:
    parser = Parser()
    return [message for piece in pieces for message in parser.feed(piece)]


async def some(pieces: AsyncGenerator[bytes], count: int) -> list[bytes]:
    """So many pieces, the first of which sets the pause of an `EventSource`."""
    async with aclosing(pieces):
        return [await anext(pieces) for _ in range(count)]


async def test_a_stream_begins_at_once_and_says_when_to_come_back() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        [first] = await some(plain_stream(hub, Wanted("default", "s", START)), 1)
    assert first == b"retry: 1000\n\n"


async def test_each_event_has_its_cursor_as_id_and_its_kind_in_the_data() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        writer = Writer(world)
        await writer.open()
        await writer.publish(1, "one\r\ntwo \u2028 three")
        seen = read(await some(plain_stream(hub, Wanted("default", "s", START)), 2))
        assert [(one.name, one.last_event_id) for one in seen] == [
            ("message", "1.0"),
            ("message", "2.0"),
            ("message", "2.1"),
        ]
        assert '"kind":"call.text"' in seen[2].data
        named = read(await some(plain_stream(hub, Wanted("default", "s", START, named=True)), 2))
        assert [one.name for one in named] == ["turn.opened", "attempt.opened", "call.text"]
        assert [one.data for one in named] == [one.data for one in seen]


async def test_a_silent_stream_gives_a_sign_of_life() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        writer = Writer(world)
        await writer.open()
        pieces = await some(plain_stream(hub, Wanted("default", "s", Cursor(2, 0)), beat_s=0.01), 4)
    assert pieces[1:] == [b": still here\n\n"] * 3
    assert read(pieces) == []


async def test_the_stream_of_a_session_that_is_not_there_says_so_and_ends() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        pieces = [piece async for piece in plain_stream(hub, Wanted("default", "nobody", START))]
    [failed] = read(pieces)
    assert failed.name == "failed"
    assert '"status":404' in failed.data
    assert failed.last_event_id == ""


async def test_a_session_that_is_erased_ends_its_streams_behind_what_it_had_shown() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        writer = Writer(world)
        await writer.open()
        stream = plain_stream(hub, Wanted("default", "s", START))
        pieces = [await anext(stream), await anext(stream)]
        await world.erase("s")
        pieces += [piece async for piece in stream]
        assert [one.name for one in read(pieces)] == ["message", "message", "failed"]
        with pytest.raises(SessionErased):
            async for _ in hub.follow("default", "s", START):
                pass
        with pytest.raises(SessionUnknown):
            async for _ in hub.follow("other", "s", START):
                pass


async def test_every_stream_ends_in_order_when_the_hub_ends_and_new_ones_at_once() -> None:
    async with open_memory() as world, open_hub(world) as hub:
        writer = Writer(world)
        await writer.open()
        stream = plain_stream(hub, Wanted("default", "s", START))
        await anext(stream)
        await anext(stream)
        changes = hub.changes("default")
        await anext(changes)
        hub.end()
        assert [piece async for piece in stream] == []
        assert [changed async for changed in changes] == []
        assert [event async for event in hub.follow("default", "s", START)] == []
        assert [changed async for changed in hub.changes("default")] == []


async def test_who_takes_nothing_holds_back_nobody_and_catches_up() -> None:
    bounds = Bounds(window_events=20, batch_bytes=3_000, page_bytes=8_000, pages_bytes=16_000)
    async with open_memory() as world, open_hub(world, bounds) as hub:
        writer = Writer(world)
        await writer.open()
        slow = [hub.follow("default", "s", START) for _ in range(20)]
        for one in slow:
            await anext(one)
        quick = hub.follow("default", "s", START)
        with anyio.fail_after(5):
            for _ in range(100):
                await writer.commit(5)
                while Cursor.parse((await anext(quick)).cursor) < Cursor(writer.seq, 4):
                    pass
        last = Cursor(writer.seq, 4)
        for one in slow:
            seen = [Cursor(1, 0)]
            while seen[-1] < last:
                seen.append(Cursor.parse((await anext(one)).cursor))
            assert len(seen) == len(set(seen)) == 2 + 500
            await one.aclose()
        await quick.aclose()


async def test_those_who_catch_up_get_past_a_tail_that_nothing_shows_and_hold_up_nobody() -> None:
    """More of them than are read for at once; the newest commit is hidden, and the reader began behind the others."""
    async with open_memory() as world, open_hub(world, Bounds(reads=2)) as hub:
        writer = Writer(world)
        await writer.open()
        for _ in range(3):
            await writer.commit(1)
        await writer.commit(0, hidden=2)
        first = hub.batches("default", "s", Cursor.behind(writer.seq), 0.01)
        assert await anext(first) == (), "it has seen everything, and the reader begins at the newest commit"
        late = [hub.batches("default", "s", START, 10.0) for _ in range(6)]
        last = hub.batches("default", "s", Cursor(writer.seq - 1, 0), 10.0)
        with anyio.fail_after(2):
            for one in late:
                seen = [shown.place for shown in await anext(one)]
                assert seen == [Cursor(seq, 0) for seq in range(1, writer.seq)]
        async with anyio.create_task_group() as tasks:
            for one in (*late, last):
                tasks.start_soon(anext_is, one, Cursor(writer.seq + 1, 0))
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(2):
                await writer.commit(1)
        for one in (first, *late, last):
            await one.aclose()


async def anext_is(batches: AsyncGenerator[Sequence[Shown]], place: Cursor) -> None:
    """What comes next, and within a moment, is this alone."""
    with anyio.fail_after(2):
        assert [shown.place for shown in await anext(batches)] == [place]


async def test_a_slow_world_gives_one_that_catches_up_a_page_in_pieces() -> None:
    """What was read before the time for one read is over is given, and the next read goes on behind it."""
    async with open_memory() as memory:
        writer = Writer(memory)
        await writer.open()
        for _ in range(20):
            await writer.commit(1, hidden=1)
        async with open_hub(Slow(memory), Bounds(read_s=0.05)) as hub:
            first = hub.batches("default", "s", Cursor.behind(writer.seq), 0.01)
            await anext(first)
            seen: list[Cursor] = []
            async with aclosing(hub.batches("default", "s", START, 10.0)) as batches:
                with anyio.fail_after(5):
                    while not seen or seen[-1] < Cursor(writer.seq, 0):
                        seen += [shown.place for shown in await anext(batches)]
            await first.aclose()
        assert len(seen) == len(set(seen)) == writer.seq


class Slow(AroundWorld):
    """Takes a while for each item."""

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async with aclosing(super().follow(session, after)) as items:
            async for item in items:
                await anyio.sleep(0.02)
                yield item

    def for_tenant(self, tenant: str = "default") -> "Slow":
        return self


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=100))
async def test_pages_one_after_the_other_hold_every_committed_event_once(
    limit: int, commits: list[tuple[int, int]]
) -> None:
    async with open_memory() as world:
        writer = Writer(world)
        await writer.open()
        for number, (shown, hidden) in enumerate(commits):
            await writer.commit(shown, hidden)
            if number % 5 == 0:
                await writer.publish(1)
        found: list[Event] = []
        after, head = START, await world.get("s")
        while True:
            page = await page_of(world, head, after, limit)
            found += page.events
            after = Cursor.parse(page.next)
            if len(page.events) < limit:
                break
        assert await page_of(world, head, after, limit) == type(page)([], str(after))
        whole: list[Event] = []
        async with aclosing(events(world, "s", START)) as read_:
            while len(whole) < len(found) + len(range(0, len(commits), 5)):
                whole.append(await anext(read_))
        assert found == [event for event in whole if event.kind != "call.text"]


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30), st.integers(1, 40))
async def test_the_ends_of_each_turn_are_found_wherever_they_stand(
    turns: list[tuple[int, bool]], number: int
) -> None:
    """Each with so many commits between, and its end in the commit that opens the next, or in one of its own."""
    async with open_memory() as world:
        writer = Turns(world)
        await writer.open()
        for between, apart in turns:
            await writer.turn(between, apart=apart)
        head = await world.get("s")
        assert await opening_of(world, head, number) == writer.opened.get(number)
        assert await settling_of(world, head, number) == writer.settled.get(number)


class Turns(Writer):
    """Writes turn after turn."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.opened = {1: Cursor(1, 0)}
        self.settled: dict[int, Cursor] = {}

    async def turn(self, between: int, *, apart: bool) -> None:
        """Settle the open turn and open the next."""
        turn = len(self.opened)
        for at in range(between):
            parked = TurnParked(turn, "signal") if at % 3 == 2 else AttemptEnded(max(1, turn - 1), "failed")
            await self.write([parked])
        ended, begun = TurnSettled(turn, "done"), TurnOpened(turn + 1, "nobody", EMPTY)
        if apart:
            await self.write([ended])
            self.settled[turn] = Cursor(self.seq, 0)
            await self.write([begun])
            self.opened[turn + 1] = Cursor(self.seq, 0)
        else:
            await self.write([ended, begun])
            self.settled[turn], self.opened[turn + 1] = Cursor(self.seq, 0), Cursor(self.seq, 1)


async def test_who_asks_too_often_for_streams_is_given_turns_one_after_the_other() -> None:
    clock = ManualClock()
    buckets = Buckets(Rate(2.0, 3.0), clock)
    assert [buckets.reserve("a", 1.0) for _ in range(6)] == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]
    assert buckets.reserve("a", 1.0) == 1.5, "what was not taken is there for the next"
    assert buckets.reserve("b", 1.0) == 0.0
    assert buckets.take("a") == 1.5
    clock.turn(10.0)
    assert buckets.take("a") == 0.0
