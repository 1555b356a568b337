"""What a tenant has spent: counted where a commit lands, once, by day."""

from dataclasses import replace
from typing import Final

from outlast.errors import CommitConflict
from outlast.testing.world_contract.blocks import commit, held, same
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Commit, Spent, World
from outlast.world.commit import DAY_S, SPENT_DAYS


async def _today(world: World, session: str = "a") -> int:
    """The day, by the World's clock, on which the session was opened a moment ago."""
    return int((await world.get(session)).created_at_s // DAY_S)


def _spending(seq: int, fence: int, day: int, **more: bool) -> Commit:
    return replace(commit(seq, fence, **more), spent=Spent(day, 0.5, 100, 2, 1.5))  # pyright: ignore[reportArgumentType] - facts


@promise()
async def what_commits_spend_is_counted_by_day(store: Store) -> None:
    async with store.open() as world:
        same(await world.spent(0), [])
        first, second = await held(world, "a"), await held(world, "b")
        day = await _today(world)
        new = [(first, _spending(3, first.fence, day)), (second, _spending(3, second.fence, day))]
        same(await world.commit_many(new), [None, None])
        same(await world.commit_many([(first, _spending(4, first.fence, day + 1, release=True))]), [None])
        same(await world.spent(day), [Spent(day, 1.0, 200, 4, 3.0), Spent(day + 1, 0.5, 100, 2, 1.5)])
        same(await world.spent(day + 1), [Spent(day + 1, 0.5, 100, 2, 1.5)])
        same([one.spent for one in await world.commits("a")], [None] * 4)


@promise()
async def a_commit_that_is_put_again_or_refused_spends_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        day = await _today(world)
        new = _spending(3, lease.fence, day)
        for _ in range(2):
            same(await world.commit_many([(lease, new)]), [None])
        (refused,) = await world.commit_many([(lease, _spending(7, lease.fence, day))])
        assert isinstance(refused, CommitConflict)
        same(await world.spent(0), [Spent(day, 0.5, 100, 2, 1.5)])


@promise()
async def what_a_tenant_spends_is_no_other_s(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        await world.commit_many([(lease, _spending(3, lease.fence, await _today(world)))])
        same(await world.for_tenant("other").spent(0), [])


@promise()
async def days_that_are_long_over_are_forgotten_by_the_world_s_clock(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        today = await _today(world)
        # Between the two of each pair a day may turn; and a worker whose clock is far ahead wipes nothing.
        days = (today - SPENT_DAYS - 1, today - SPENT_DAYS + 1, today, today + 500)
        for seq, day in enumerate(days, 3):
            await world.commit_many([(lease, _spending(seq, lease.fence, day))])
        same([one.day for one in await world.spent(0)], [*days[1:]])


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
