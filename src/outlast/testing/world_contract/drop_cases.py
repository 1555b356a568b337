"""Dropping the bytes of deltas: what is freed, what a reader is shown instead, and who may do it."""

from collections.abc import Iterable
from typing import Final

import anyio

from outlast.errors import Fenced, SessionErased, SessionUnknown
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
from outlast.world import Capability, Cursor, Delta, Gap, Lease, World

END: Final = Cursor(6, 1)


async def _story(world: World, session: str = "s") -> Lease:
    """Deltas after the commits 2, 3, 5 and 6, of which some do not count and the last are not counted yet."""
    lease = await held(world, session)
    await published(world, lease, 2, b"a0", b"a1")
    await published(world, lease, 2, b"a2", first=2)
    await landed(world, lease, 3, sealed=3)
    await published(world, lease, 3, b"b0", b"b1", b"unsealed")
    await landed(world, lease, 4, events=3, sealed=2)
    await landed(world, lease, 5, events=0)
    await published(world, lease, 5, b"c0")
    await landed(world, lease, 6, sealed=1)
    await published(world, lease, 6, b"d0")
    return lease


def _gapped(shown: Iterable[tuple[Cursor, bytes]], before: int) -> list[tuple[Cursor, bytes]]:
    """What is shown once the deltas after commits below `before` are gone."""
    delta = b"abcd"
    return [
        (cursor, b"gap" if len(body) == 2 and body[0] in delta and cursor.seq < before else body)
        for cursor, body in shown
    ]


@promise()
async def dropped_deltas_come_as_gaps_and_no_cursor_shifts(store: Store) -> None:
    async with store.open() as world:
        lease = await _story(world)
        whole, commits = pieces(await read_until(world, "s", END)), await world.commits("s")
        for before in (-1, 0, 2, 3, 4, 5, 6):
            await world.drop_deltas(lease, before)
            same(pieces(await read_until(world, "s", END)), _gapped(whole, before))
            same(await world.commits("s"), commits)


@promise()
async def a_reader_in_the_middle_of_what_was_dropped_is_told_how_much_is_missing(store: Store) -> None:
    async with store.open() as world:
        lease = await _story(world)
        await world.drop_deltas(lease, 4)
        whole = pieces(await read_until(world, "s", END))
        for position, (cursor, _) in enumerate(whole[:-1]):
            same(pieces(await read_until(world, "s", END, cursor)), whole[position + 1 :])
        for seen, missing in ((0, 3), (1, 2), (2, 1)):
            [gap] = await read(world, "s", 1, Cursor(2, seen))
            same((gap.what, gap.cursor, gap.first), (Gap(missing), Cursor(2, 3), seen))


@promise()
async def deltas_that_are_not_counted_yet_stay(store: Store) -> None:
    async with store.open() as world:
        lease = await _story(world)
        await world.drop_deltas(lease, 1000)
        await published(world, lease, 6, b"d1", first=1)
        [first, second] = await read(world, "s", 2, Cursor(6, 0))
        same([first.what, second.what], [Delta(b"d0"), Delta(b"d1")])
        await claimed(world, "w2", dead=["w1"])
        same([there.header.sealed for there in await world.commits("s", after=6)], [2])


@promise()
async def dropping_again_drops_what_came_since(store: Store) -> None:
    async with store.open() as world:
        lease = await _story(world)
        whole = pieces(await read_until(world, "s", END))
        for before in (4, 4, 2, 0):
            await world.drop_deltas(lease, before)
            same(pieces(await read_until(world, "s", END)), _gapped(whole, 4))
        await landed(world, lease, 7, sealed=1)
        await world.drop_deltas(lease, 7)
        same(pieces(await read_until(world, "s", END)), _gapped(whole, 7))


@promise()
async def only_the_newest_lease_drops(store: Store) -> None:
    async with store.open() as world:
        stale = await _story(world)
        whole = pieces(await read_until(world, "s", END))
        fresh = (await claimed(world, "w2", dead=["w1"])).lease
        with raises(Fenced):
            await world.drop_deltas(stale, 6)
        await world.release(fresh)
        with raises(Fenced):
            await world.drop_deltas(fresh, 6)
        same(pieces(await read_until(world, "s", END)), whole)
        with raises(SessionUnknown):
            await world.drop_deltas(Lease("nobody", 1, "w1"), 6)
        await world.erase("s")
        with raises(SessionErased):
            await world.drop_deltas(fresh, 6)


@promise()
async def the_deltas_of_other_sessions_and_tenants_stay(store: Store) -> None:
    async with store.open() as world:
        other = world.for_tenant("other")
        leases = [await _story(world, name) for name in ("a", "s", "t")]
        await _story(other)
        whole = pieces(await read_until(world, "s", END))
        await world.drop_deltas(leases[1], 1000)
        for one, name in ((world, "a"), (world, "t"), (other, "s")):
            same(pieces(await read_until(one, name, END)), whole)


@promise()
async def a_live_watcher_gets_each_thing_once_whole_or_as_a_gap(store: Store) -> None:
    seen: list[list[tuple[Cursor, bytes]]] = [[], [], []]
    last = Cursor(60, 0)
    async with store.open() as world, store.open() as elsewhere:
        lease = await held(world)

        async def watch(number: int) -> None:
            seen[number] = pieces(await read_until(elsewhere if number else world, "s", last))

        async with anyio.create_task_group() as watching:
            for number in range(3):
                watching.start_soon(watch, number)
            for seq in range(3, 61):
                for index in range(seq % 4):
                    await published(world, lease, seq - 1, b"%d.%d" % (seq, index), first=index)
                await landed(world, lease, seq, b"%d" % seq, sealed=seq % 4)
                await world.drop_deltas(lease, seq - seq % 5)
        late = pieces(await read_until(world, "s", last))
        for shown in seen:
            same([cursor for cursor, _ in shown], [cursor for cursor, _ in late])
            for (cursor, body), (_, left) in zip(shown, late, strict=True):
                wanted = b"%d.%d" % (cursor.seq + 1, cursor.index - 1)
                assert body == left or (left, body) == (b"gap", wanted), (cursor, body, left)


@promise(Capability.DURABLE)
async def what_was_dropped_is_still_a_gap_for_whoever_opens_the_store_later(store: Store) -> None:
    async with store.open() as world:
        lease = await _story(world)
        whole = pieces(await read_until(world, "s", END))
        await world.drop_deltas(lease, 4)
    async with store.open() as world:
        same(pieces(await read_until(world, "s", END)), _gapped(whole, 4))


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
