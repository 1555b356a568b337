"""The queue: for how long a session is whose."""

from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from outlast.testing.world_contract.blocks import (
    TAKEOVER,
    claimed,
    find_claim,
    held,
    landed,
    offer,
    opened,
    renew,
    retire,
    same,
    sent,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import WorkerRow, World

FAR_S: Final = 4_000_000_000.0
"""A wake time that no test lives to see."""


async def _now(world: World) -> float:
    return (await world.get("s")).created_at_s


@promise()
async def a_standing_lease_keeps_a_session(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        await held(world)
        await sent(world, "s", "in-1")
        same(await find_claim(other, "w2"), None)
        same(await find_claim(other, "w1"), None)


@promise()
async def a_lease_that_ran_out_is_taken_over_as_expired(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        await opened(world)
        await claimed(world, ttl_s=1.0)
        same(await find_claim(other, "w2"), None)
        await store.turn(1.5)
        claim = await claimed(other, "w2")
        same((claim.proof, claim.previous, claim.lease.fence), ("expired", "w1", 2))


@promise()
async def a_renewed_lease_stands_on(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        await claimed(world, ttl_s=1.0)
        for _ in range(3):
            await store.turn(0.6)
            renew(world, "w1", 1.0)
        same(await find_claim(world, "w2"), None)


@promise()
async def a_lease_of_a_worker_without_a_row_does_not_stand(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        assert await world.claim(offer("w1"), TAKEOVER) is not None
        same((await claimed(world, "w2")).proof, "expired")


@promise()
async def a_worker_proved_dead_loses_its_leases_at_once(store: Store) -> None:
    async with store.open() as world:
        await held(world)
        claim = await claimed(world, "w2", dead=["w1"])
        same((claim.proof, claim.previous), ("proved", "w1"))


@promise()
async def a_retired_worker_loses_its_leases_at_once(store: Store) -> None:
    async with store.open() as world:
        await held(world)
        retire(world, "w1")
        claim = await claimed(world, "w2")
        same((claim.proof, claim.previous), ("expired", "w1"))


@promise()
async def a_commit_that_releases_frees_the_session(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, release=True, status="handed over")
        same((await world.get("s")).worker, None)
        claim = await claimed(world, "w2")
        same((claim.proof, claim.previous, claim.status), ("free", None, "handed over"))


@promise()
async def release_frees_the_session(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await world.release(lease)
        same((await world.get("s")).worker, None)
        same((await claimed(world, "w2")).proof, "free")


@promise()
async def release_of_a_lease_that_is_gone_does_nothing(store: Store) -> None:
    async with store.open() as world:
        lost = await held(world)
        await claimed(world, "w2", dead=["w1"])
        await world.release(lost)
        await world.release(replace(lost, fence=2))
        same((await world.get("s")).worker, "w2")


@promise()
async def workers_are_listed_with_their_rows(store: Store) -> None:
    async with store.open() as world, store.open() as other:
        await opened(world)
        before = await _now(world)
        renew(world, "w1", 1.0)
        renew(world, "wörker/2 \x00", 60.0)
        await claimed(world, ttl_s=1.0)
        await store.turn(1.5)
        rows = {row.worker: row for row in await other.workers()}
        same(set(rows), {"w1", "wörker/2 \x00"})
        same(rows["w1"].holder, "holder of w1")
        assert before + 0.9 < rows["w1"].deadline_s < before + 30
        retire(other, "wörker/2 \x00")
        retire(other, "never there")
        same([row.worker for row in await world.workers()], ["w1"])


@promise()
async def a_renewal_promises_no_more_than_it_was_asked_for(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        liveness = world.open_liveness()
        row = WorkerRow("w1", "holder of w1", 0.0)
        assert 0.0 < await anyio.to_thread.run_sync(liveness.renew, row, 5.0) <= 5.0
        liveness.close()
        same(len(await world.workers()), 1)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
