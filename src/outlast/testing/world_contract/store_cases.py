"""The store as a whole: hints, closing and opening again, several processes."""

import time
from itertools import chain
from typing import Final

import anyio

from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    find_claim,
    held,
    landed,
    opened,
    published,
    read,
    read_until,
    renew,
    same,
    sent,
    whole,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.testing.world_contract.second_process import Second, second_process
from outlast.world import Capability, Cursor, Input, Item, Subscription

SOON_S: Final = 10.0


async def _quiet(hints: Subscription) -> None:
    while await hints.wait(0.05):
        pass


@promise()
async def what_a_world_says_of_itself_is_so(store: Store) -> None:
    async with store.open() as world:
        same(world.capabilities, store.capabilities)
        same(world.tenant, "default")
        assert world.name
        same(world.for_tenant("ours").capabilities, world.capabilities)


@promise()
async def whoever_waits_for_a_session_is_woken_by_every_change(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        lease = await held(world)
        async with other.subscribe("s") as hints:
            await _quiet(hints)
            await landed(world, lease, 3)
            same(await hints.wait(SOON_S), True)
            await _quiet(hints)
            await published(world, lease, 3, b"delta")
            same(await hints.wait(SOON_S), True)
            await _quiet(hints)
            await sent(world, "s", "in-1")
            same(await hints.wait(SOON_S), True)
            await _quiet(hints)
            await sent(world, "s", "in-1")
            same(await hints.wait(SOON_S), True)


@promise()
async def whoever_waits_for_the_inbox_is_woken_by_every_input(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        lease = await held(world)
        async with other.subscribe("s", inbox=True) as hints:
            await _quiet(hints)
            await sent(world, "s", "in-1")
            same(await hints.wait(SOON_S), True)
            await landed(world, lease, 3)
            await _quiet(hints)
            await sent(world, "s", "in-1")
            same(await hints.wait(SOON_S), True)


@promise()
async def whoever_waits_for_work_is_woken_by_it(store: Store) -> None:
    async with store.open() as world, store.open() as other, other.subscribe() as hints:
        await _quiet(hints)
        await opened(world)
        same(await hints.wait(SOON_S), True)
        lease = (await claimed(world)).lease
        await _quiet(hints)
        await landed(world, lease, 3, release=True)
        same(await hints.wait(SOON_S), True)
        lease = (await claimed(world)).lease
        await _quiet(hints)
        await sent(world, "s", "in-1")
        same(await hints.wait(SOON_S), True)
        await _quiet(hints)
        await world.release(lease)
        same(await hints.wait(SOON_S), True)


@promise()
async def a_wait_for_nothing_ends_in_time(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        async with world.subscribe("s") as hints:
            await _quiet(hints)
            began = time.perf_counter()
            with anyio.fail_after(SOON_S):
                await hints.wait(0.2)
            assert time.perf_counter() - began < SOON_S


@promise()
async def a_change_between_two_waits_is_not_missed(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        async with world.subscribe("s") as hints:
            await _quiet(hints)
            await landed(world, lease, 3)
            same(await hints.wait(SOON_S), True)


@promise(Capability.DURABLE)
async def everything_is_there_when_the_store_is_opened_again(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await world.put_input("s", Input("in-1", "d", b"one"))
        await world.put_input("s", Input("in-2", "d", b"two", refs=("h1",), blobs={"h1": b"bytes"}))
        await landed(world, lease, 3, consumes=("in-1",), status="kept")
        await published(world, lease, 3, b"d0")
        await opened(world, "gone")
        await world.erase("gone")
        kept = (await world.get("s"), await whole(world, "s"), await world.inputs("s"), await world.list())
        seen = await read(world, "s", 4)
    async with store.open() as world:
        same(
            (await world.get("s"), await whole(world, "s"), await world.inputs("s"), await world.list()), kept
        )
        same(await read(world, "s", 4), seen)
        same(await world.get_many("s", ["h1"]), {"h1": b"bytes"})
        same(await find_claim(world, "w2"), None)
        await landed(world, lease, 4, sealed=1)


@promise(Capability.DURABLE)
async def closing_loses_nothing_that_is_under_way(store: Store) -> None:
    acknowledged: set[str] = set()
    async with store.open() as world:
        leases = [await held(world, f"s{number}") for number in range(8)]
        async with anyio.create_task_group() as writers:

            async def write(number: int) -> None:
                await landed(world, leases[number], 3)
                acknowledged.add(leases[number].session)

            for number in range(8):
                writers.start_soon(write, number)
    async with store.open() as world:
        for session in acknowledged:
            same((await world.get(session)).seq, 3)


@promise(Capability.MULTI_PROCESS)
async def a_watcher_sees_what_another_process_writes(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        items: list[Item] = []
        async with second_process(store) as second, anyio.create_task_group() as tasks:
            tasks.start_soon(second.append, lease, 3, 20)
            items += await read_until(world, "s", Cursor(22, 0))
        same([item.cursor.seq for item in items], list(range(1, 23)))


@promise(Capability.MULTI_PROCESS)
async def workers_in_several_processes_claim_each_session_once(store: Store) -> None:
    async with store.open() as world:
        for number in range(20):
            await opened(world, f"s{number}")
        claimed_by: list[list[str]] = []
        async with (
            second_process(store) as one,
            second_process(store) as other,
            anyio.create_task_group() as tasks,
        ):

            async def drain(second: Second, worker: str) -> None:
                claimed_by.append(await second.claim_all(worker))

            tasks.start_soon(drain, one, "w1")
            tasks.start_soon(drain, other, "w2")
        same(sorted(chain(*claimed_by)), sorted(f"s{number}" for number in range(20)))
        for number in range(20):
            same([there.header.fence for there in await whole(world, f"s{number}")], [0, 1])


@promise(Capability.MULTI_PROCESS, Capability.PUSH)
async def a_hint_reaches_another_process(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        async with second_process(store) as second, world.subscribe("s") as hints:
            await _quiet(hints)
            await second.append(lease, 3, 1)
            same(await hints.wait(SOON_S), True)


@promise(Capability.DURABLE)
async def a_worker_keeps_its_leases_across_an_opening(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        await claimed(world)
    async with store.open() as world:
        same([row.worker for row in await world.workers()], ["w1"])
        same(await find_claim(world, "w2"), None)
        renew(world, "w1", 0.5)
        await store.turn(1)
        same((await claimed(world, "w2")).proof, "expired")
        same((await world.commits("s", after=2))[0].header, commit(3, 2, b"takeover").header)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
