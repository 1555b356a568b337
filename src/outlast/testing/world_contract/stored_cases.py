"""What a session takes up: by part, and no other's."""

from typing import Final

from outlast.errors import SessionErased, SessionUnknown
from outlast.ids import blob_hash
from outlast.testing.world_contract.blocks import commit, held, published, raises, same
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Input, World


def _blob(world: World, data: bytes) -> dict[str, bytes]:
    return {blob_hash(world.tenant, data): data}


@promise()
async def what_a_session_takes_up_is_told_by_part(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        await held(world, "b")
        before = await world.stored("a")
        same(before.commits, 2)
        blobs = _blob(world, b"x" * 1000)
        new = commit(3, lease.fence, b"y" * 500, blobs, refs=tuple(blobs))
        same(await world.commit_many([(lease, new)]), [None])
        await world.put_input("a", Input("in-1", "d", b"z" * 70))
        after = await world.stored("a")
        same((after.commits, after.log_bytes - before.log_bytes), (3, 500))
        same((after.blobs, after.blob_bytes), (1, 1000))
        same(after.input_bytes, 70)
        same(after.bytes, after.log_bytes + 1000 + 70)
        same((await world.stored("b")).blobs, 0)


@promise()
async def what_is_consumed_or_dropped_takes_up_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world, "a")
        await world.put_input("a", Input("in-1", "d", b"z" * 70))
        await published(world, lease, 2, b"shown", b"more")
        shown = (await world.stored("a")).delta_bytes
        assert shown >= len(b"shownmore"), shown
        new = commit(3, lease.fence, consumes=("in-1",), sealed=2)
        same(await world.commit_many([(lease, new)]), [None])
        await world.drop_deltas(lease, 3)
        found = await world.stored("a")
        same((found.input_bytes, found.delta_bytes), (0, 0))


@promise()
async def what_two_sessions_name_counts_in_each(store: Store) -> None:
    async with store.open() as world:
        blobs = _blob(world, b"x" * 1000)
        for session in ("a", "b"):
            lease = await held(world, session)
            new = commit(3, lease.fence, b"y", blobs, refs=tuple(blobs))
            same(await world.commit_many([(lease, new)]), [None])
        same([(await world.stored(session)).blob_bytes for session in ("a", "b")], [1000, 1000])


@promise()
async def of_a_session_that_is_not_there_it_is_not_told(store: Store) -> None:
    async with store.open() as world:
        await held(world, "a")
        with raises(SessionUnknown):
            await world.stored("nobody")
        with raises(SessionUnknown):
            await world.for_tenant("other").stored("a")
        await world.erase("a")
        with raises(SessionErased):
            await world.stored("a")


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
