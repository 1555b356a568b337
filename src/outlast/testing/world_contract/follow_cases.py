"""Following a session: what watchers see, from every cursor, while it is written."""

from contextlib import aclosing
from typing import Final

import anyio

from outlast.errors import CommitConflict, SessionErased
from outlast.testing.world_contract.blocks import (
    claimed,
    held,
    landed,
    pieces,
    published,
    raises,
    read,
    read_until,
    same,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import START, Commit, Cursor, Delta, Gap, Item, Lease, World


async def _story(world: World) -> Cursor:
    """A session with everything that can stand in a stream; returns where it ends."""
    lease = await held(world)
    await published(world, lease, 2, b"a0", b"a1")
    await published(world, lease, 2, b"a2", first=2)
    await landed(world, lease, 3, b"three", events=4, sealed=3)
    await landed(world, lease, 4, b"four", events=0)
    await published(world, lease, 4, b"b0", b"b1", b"unsealed")
    await landed(world, lease, 5, b"five", events=2, sealed=2)
    await landed(world, lease, 6, b"six", sealed=3)
    await published(world, lease, 6, b"c0", b"c1")
    lease = (await claimed(world, "w2", dead=["w1"])).lease
    await published(world, lease, 7, b"d0")
    await landed(world, lease, 8, b"eight", events=3, sealed=1)
    await published(world, lease, 8, b"e0", b"e1")
    return Cursor(8, 4)


WHOLE: Final = [
    (Cursor(1, 0), b"first"),
    (Cursor(2, 0), b"takeover"),
    (Cursor(2, 1), b"a0"),
    (Cursor(2, 2), b"a1"),
    (Cursor(2, 3), b"a2"),
    *((Cursor(3, index), b"three") for index in range(4)),
    (Cursor(4, 0), b"four"),
    (Cursor(4, 1), b"b0"),
    (Cursor(4, 2), b"b1"),
    *((Cursor(5, index), b"five") for index in range(2)),
    *((Cursor(5, index), b"gap") for index in range(2, 5)),
    (Cursor(6, 0), b"six"),
    (Cursor(6, 1), b"c0"),
    (Cursor(6, 2), b"c1"),
    (Cursor(7, 0), b"takeover"),
    (Cursor(7, 1), b"d0"),
    *((Cursor(8, index), b"eight") for index in range(3)),
    (Cursor(8, 3), b"e0"),
    (Cursor(8, 4), b"e1"),
]


@promise()
async def a_watcher_sees_commits_and_deltas_in_order(store: Store) -> None:
    async with store.open() as world:
        end = await _story(world)
        items = await read_until(world, "s", end)
        same(pieces(items), WHOLE)
        same([item.first for item in items if isinstance(item.what, Commit)], [0] * 8)
        commits = [item.what for item in items if isinstance(item.what, Commit)]
        same(commits, await world.commits("s"))


@promise()
async def following_from_every_cursor_shows_exactly_the_rest(store: Store) -> None:
    async with store.open() as world:
        end = await _story(world)
        for position, (cursor, _) in enumerate(WHOLE[:-1]):
            items = await read_until(world, "s", end, cursor)
            same(pieces(items), WHOLE[position + 1 :])


@promise()
async def deltas_beyond_what_was_sealed_are_not_shown_and_shift_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await published(world, lease, 2, b"a0", b"a1", b"a2")
        await landed(world, lease, 3, sealed=1)
        for seen in range(4):
            [item] = await read(world, "s", 1, Cursor(2, max(1, seen)))
            same(item.cursor, Cursor(3, 0))


@promise()
async def a_delta_that_counts_and_is_lost_comes_as_a_gap(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await published(world, lease, 2, b"a0")
        await landed(world, lease, 3, sealed=4)
        items = await read(world, "s", 3, Cursor(2, 0))
        same([item.what for item in items[:2]], [Delta(b"a0"), Gap(3)])
        same((items[1].cursor, items[1].first), (Cursor(2, 4), 1))
        [gap] = await read(world, "s", 1, Cursor(2, 2))
        same((gap.what, gap.cursor, gap.first), (Gap(2), Cursor(2, 4), 2))


@promise()
async def publishing_again_changes_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await published(world, lease, 2, b"a0", b"a1")
        await published(world, lease, 2, b"a0", b"a1")
        await published(world, lease, 2, b"a1", b"a2", first=1)
        await published(world, lease, 2, first=3)
        await landed(world, lease, 3, sealed=3)
        same([body for _, body in pieces(await read(world, "s", 6))[2:5]], [b"a0", b"a1", b"a2"])


@promise()
async def deltas_with_a_hole_or_after_another_commit_are_refused(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await published(world, lease, 2, b"a0")
        for after, first in ((2, 2), (1, 0), (3, 0), (0, 0)):
            with raises(CommitConflict):
                await published(world, lease, after, b"late", first=first)
        await landed(world, lease, 3, sealed=1)
        with raises(CommitConflict):
            await published(world, lease, 2, b"late", first=1)
        items = await read(world, "s", 4)
        same([body for _, body in pieces(items)], [b"first", b"takeover", b"a0", b"body"])


@promise()
async def a_takeover_seals_what_the_dead_owner_showed(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await published(world, lease, 2, b"a0", b"a1")
        await claimed(world, "w2", dead=["w1"])
        items = await read(world, "s", 5)
        same([body for _, body in pieces(items)], [b"first", b"takeover", b"a0", b"a1", b"takeover"])


async def _write_on(world: World, lease: Lease) -> None:
    for seq in range(3, 40):
        sealed = 0
        for index in range(seq % 4):
            await published(world, lease, seq - 1, b"d%d" % index, first=index)
            sealed += 1
        if seq % 7 == 0:
            fresh = await claimed(world, f"w{seq}", dead=[lease.worker])
            lease = fresh.lease
        else:
            await landed(world, lease, seq, b"%d" % seq, events=seq % 3, sealed=sealed)
    await landed(world, lease, 40, b"end")


@promise()
async def live_watchers_see_what_a_late_one_sees(store: Store) -> None:
    seen: list[list[Item]] = [[], [], []]
    async with store.open() as world, store.open() as elsewhere:
        lease = await held(world)

        async def watch(number: int) -> None:
            seen[number] = await read_until(elsewhere if number else world, "s", Cursor(40, 0))

        async with anyio.create_task_group() as watching:
            for number in range(3):
                watching.start_soon(watch, number)
            await _write_on(world, lease)
        late = pieces(await read_until(world, "s", Cursor(40, 0)))
        for items in seen:
            same(pieces(items), late)
        same([cursor for cursor, _ in late], sorted({cursor for cursor, _ in late}))


@promise()
async def a_watcher_that_reconnects_after_every_item_misses_and_repeats_nothing(store: Store) -> None:
    seen: list[Item] = []
    async with store.open() as world:
        lease = await held(world)

        async def watch() -> None:
            after = START
            while after < Cursor(40, 0):
                [item] = await read(world, "s", 1, after)
                seen.append(item)
                after = item.cursor

        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            await _write_on(world, lease)
        same(pieces(seen), pieces(await read_until(world, "s", Cursor(40, 0))))


@promise()
async def a_cursor_ahead_of_the_session_waits_for_what_comes_behind_it(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        items: list[Item] = []

        async def watch() -> None:
            items.extend(await read(world, "s", 2, Cursor(4, 0)))

        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            await landed(world, lease, 3)
            await landed(world, lease, 4, events=3)
            await landed(world, lease, 5)
        same([(item.cursor, item.first) for item in items], [(Cursor(4, 2), 1), (Cursor(5, 0), 0)])


@promise()
async def a_watcher_is_told_that_the_session_was_erased(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        await held(world)
        async with anyio.create_task_group() as watching, aclosing(world.follow("s", START)) as following:
            await anext(following)
            await anext(following)
            watching.start_soon(other.erase, "s")
            with raises(SessionErased):
                await anext(following)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
