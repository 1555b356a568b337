"""What a tenant has spent: counted where a commit lands, once, by day."""

from dataclasses import replace
from typing import Final

from outlast.errors import CommitConflict
from outlast.testing.world_contract.blocks import commit, held, same
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Commit, Spent
from outlast.world.commit import SPENT_DAYS

MAY: Final = 20_600
"""A day."""


def _spending(seq: int, fence: int, day: int = MAY, **more: bool) -> Commit:
    return replace(commit(seq, fence, **more), spent=Spent(day, 0.5, 100, 2, 1.5))  # pyright: ignore[reportArgumentType] - facts


@promise()
async def what_commits_spend_is_counted_by_day(store: Store) -> None:
    async with store.open() as world:
        same(await world.spent(0), [])
        first, second = await held(world, "a"), await held(world, "b")
        new = [(first, _spending(3, first.fence)), (second, _spending(3, second.fence))]
        same(await world.commit_many(new), [None, None])
        same(await world.commit_many([(first, _spending(4, first.fence, MAY + 1, release=True))]), [None])
        same(await world.spent(MAY), [Spent(MAY, 1.0, 200, 4, 3.0), Spent(MAY + 1, 0.5, 100, 2, 1.5)])
        same(await world.spent(MAY + 1), [Spent(MAY + 1, 0.5, 100, 2, 1.5)])
        same([one.spent for one in await world.commits("a")], [None] * 4)


@promise()
async def a_commit_that_is_put_again_or_refused_spends_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        new = _spending(3, lease.fence)
        for _ in range(2):
            same(await world.commit_many([(lease, new)]), [None])
        (refused,) = await world.commit_many([(lease, _spending(7, lease.fence))])
        assert isinstance(refused, CommitConflict)
        same(await world.spent(0), [Spent(MAY, 0.5, 100, 2, 1.5)])


@promise()
async def what_a_tenant_spends_is_no_other_s(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        await world.commit_many([(lease, _spending(3, lease.fence))])
        same(await world.for_tenant("other").spent(0), [])


@promise()
async def days_that_are_long_over_are_forgotten(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        for seq, day in ((3, MAY), (4, MAY + SPENT_DAYS), (5, MAY + SPENT_DAYS + 1)):
            await world.commit_many([(lease, _spending(seq, lease.fence, day))])
        same([one.day for one in await world.spent(0)], [MAY + SPENT_DAYS, MAY + SPENT_DAYS + 1])


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
