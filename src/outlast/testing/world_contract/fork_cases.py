"""Forks: a past that two sessions share, and nothing else that they do."""

import anyio

from outlast.errors import (
    BadPayload,
    BadSessionId,
    BlobUnknown,
    CommitUnknown,
    Fenced,
    OutlastError,
    SessionErased,
    SessionExists,
    SessionUnknown,
)
from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    held,
    is_a,
    landed,
    opened,
    pieces,
    published,
    put,
    raises,
    read,
    read_until,
    same,
    sent,
    whole,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Cursor, Gap, Input, Lease, World

RACERS = 8


async def _told(world: World, session: str = "s") -> Lease:
    """A session of five commits: the third and the fifth name a blob each, the fourth consumes an input."""
    lease = await held(world, session)
    assert (
        await put(world, lease, commit(3, 1, b"three", {"h1": b"early"}, refs=("h1",), snapshot=True)) is None
    )
    await sent(world, session, "in-1")
    await landed(world, lease, 4, b"four", consumes=("in-1",), status="four")
    assert (
        await put(world, lease, commit(5, 1, b"five", {"h2": b"late"}, refs=("h2",), turn_open=False)) is None
    )
    return lease


async def _fork(world: World, session: str, at: int, source: str = "s", body: bytes = b"fork") -> bool:
    fence = (await world.commits(source, at - 1, 1))[0].header.fence
    return await world.fork(source, session, commit(at + 1, fence, body))


@promise()
async def a_fork_has_the_past_of_its_source_and_goes_on_by_itself(store: Store) -> None:
    async with store.open() as world:
        lease = await _told(world)
        assert await _fork(world, "f", 4)
        source, fork = await whole(world, "s"), await whole(world, "f")
        same(fork[:4], source[:4])
        same([one.body for one in fork[4:]], [b"fork"])
        claim = await claimed(world, "w2", "f")
        same((claim.seq, claim.lease.fence, claim.proof, claim.snapshot_seq), (6, 2, "free", 3))
        await landed(world, claim.lease, 7, b"the fork's")
        await landed(world, lease, 6, b"the source's")
        same([one.body for one in await world.commits("f", 4)], [b"fork", b"takeover", b"the fork's"])
        same([one.body for one in await world.commits("s", 4)], [b"five", b"the source's"])
        same([one.header.seq for one in await whole(world, "f")], [1, 2, 3, 4, 5, 6, 7])


@promise()
async def a_fork_s_head_tells_of_what_it_has_and_of_nothing_later(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, snapshot=True)
        await landed(world, lease, 4, format=2, snapshot=True, turn_open=False)
        first = commit(4, 1, b"fork", status="forked", wake_at_s=None, turn_open=True)
        assert await world.fork("s", "f", first, labels={"of": "s\x00"}, priority=7)
        head = await world.get("f")
        facts = (
            head.seq,
            head.fence,
            head.format,
            head.snapshot_seq,
            head.turn_open,
            head.status,
            head.worker,
        )
        same(facts, (4, 1, 1, 3, True, "forked", None))
        facts = (head.agent, head.placement, head.waiting_inputs, dict(head.labels), head.priority)
        same(facts, ("coder", "any", 0, {"of": "s\x00"}, 7))
        assert await world.fork("s", "g", commit(5, 1, b"fork", snapshot=True), placement="host:b")
        head = await world.get("g")
        same((head.format, head.snapshot_seq, head.placement), (2, 5, "host:b"))
        same({one.session for one in (await world.list(labels={"of": "s\x00"})).sessions}, {"f"})


@promise()
async def the_same_fork_again_changes_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await _told(world)
        assert await _fork(world, "f", 4)
        before = await world.get("f")
        assert not await _fork(world, "f", 4)
        same(await world.get("f"), before)
        await claimed(world, "w2", "f")
        await landed(world, lease, 6)
        assert not await _fork(world, "f", 4)
        await world.erase("s")
        assert not await world.fork("s", "f", commit(5, 1, b"fork"))
        same(len(await whole(world, "f")), 6)


@promise()
async def an_id_that_is_taken_is_not_a_fork_s(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        await held(world, "other")
        lease = await held(world, "t", "w3")
        for seq, body in ((3, b"not three"), (4, b"not four")):
            await landed(world, lease, seq, body)
        assert await _fork(world, "f", 4)
        for taken in ("f", "s", "other"):
            with raises(SessionExists):
                await _fork(world, taken, 4, body=b"another")
        with raises(SessionExists):
            await _fork(world, "f", 3)
        with raises(SessionExists):
            await world.fork("s", "f", commit(5, 1, b"fork"), labels={"a": "b"})
        with raises(SessionExists):
            await world.fork("s", "f", commit(5, 1, b"fork"), placement="host:b")
        with raises(SessionExists):
            await _fork(world, "f", 4, source="t")  # to the letter the same commit, of another past
        same(len(await whole(world, "f")), 5)


@promise()
async def a_fork_beyond_the_head_or_of_nothing_is_refused(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        for seq in (7, 20):
            with raises(CommitUnknown):
                await world.fork("s", "f", commit(seq, 1))
        with raises(Fenced):
            await world.fork("s", "f", commit(5, 0))
        with raises(Fenced):
            await world.fork("s", "f", commit(5, 2))
        with raises(BadPayload):
            await world.fork("s", "f", commit(1, 0))
        with raises(BadPayload):
            await world.fork("s", "f", commit(5, 1, sealed=1))
        with raises(BadPayload):
            await world.fork("s", "f", commit(5, 1, consumes=("in-1",)))
        with raises(BadSessionId):
            await world.fork("s", "No id", commit(5, 1))
        with raises(BlobUnknown):
            await world.fork("s", "f", commit(5, 1, refs=("nowhere",)))
        with raises(SessionUnknown):
            await world.fork("nobody", "f", commit(2, 0))
        with raises(SessionUnknown):
            await world.for_tenant("another").fork("s", "f", commit(5, 1))
        with raises(SessionUnknown):
            await world.get("f")
        same([head.session for head in (await world.list()).sessions], ["s"])
        await world.erase("s")
        with raises(SessionErased):
            await world.fork("s", "f", commit(5, 1))


@promise()
async def an_erased_id_is_not_a_fork_s(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        assert await _fork(world, "f", 4)
        await world.erase("f")
        with raises(SessionErased):
            await _fork(world, "f", 4)
        same(len(await whole(world, "s")), 5)


@promise()
async def a_fork_names_the_blobs_of_its_past_and_no_later_ones(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        first = commit(5, 1, b"fork", {"h3": b"own"}, refs=("h3", "h2"))
        assert await world.fork("s", "f", first)
        same(
            dict(await world.get_many("f", ["h1", "h2", "h3"])), {"h1": b"early", "h2": b"late", "h3": b"own"}
        )
        assert await _fork(world, "g", 4)
        same(dict(await world.get_many("g", ["h1"])), {"h1": b"early"})
        with raises(BlobUnknown):
            await world.get_many("g", ["h2"])
        with raises(BlobUnknown):
            await world.get_many("s", ["h3"])


@promise()
async def neither_s_erasure_takes_anything_from_the_other(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        assert await _fork(world, "f", 4)
        assert await _fork(world, "g", 5)
        before = await whole(world, "f")
        await world.erase("s")
        same(await whole(world, "f"), before)
        same(dict(await world.get_many("f", ["h1"])), {"h1": b"early"})
        same(dict(await world.get_many("g", ["h1", "h2"])), {"h1": b"early", "h2": b"late"})
        claim = await claimed(world, "w2", "f")
        await landed(world, claim.lease, 7)
        await world.erase("f")
        same(dict(await world.get_many("g", ["h1", "h2"])), {"h1": b"early", "h2": b"late"})
        same(len(await whole(world, "g")), 6)
        await world.erase("g")
        with raises(BlobUnknown):
            await world.create("new", commit(1, 0, refs=("h1",)), agent="coder")


@promise()
async def what_the_past_consumed_is_consumed_in_the_fork_and_nothing_else_waits(store: Store) -> None:
    async with store.open() as world:
        lease = await _told(world)
        await sent(world, "s", "in-2")
        await landed(world, lease, 6, consumes=("in-2",))
        await sent(world, "s", "in-3")
        assert await _fork(world, "f", 5)
        known = await world.find_input("f", "in-1")
        assert known is not None
        same((known.consumed_by, known.body), (4, b""))
        same(await world.find_input("f", "in-2"), None)
        same(await world.find_input("f", "in-3"), None)
        same(list(await world.inputs("f")), [])
        same((await sent(world, "f", "in-1")).consumed_by, 4)
        with raises(OutlastError):
            await world.put_input("f", Input("in-1", "another digest", b"another"))
        for name in ("in-4", "in-2"):
            await sent(world, "f", name)
        same([one.id for one in await world.inputs("f")], ["in-4", "in-2"])
        same([one.id for one in await world.inputs("s")], ["in-3"])


@promise()
async def cursors_into_the_shared_past_are_the_same_in_both(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, events=3)
        await published(world, lease, 3, b"a", b"b", b"lost")
        await landed(world, lease, 4, b"four", sealed=2, events=2)
        await published(world, lease, 4, b"c")
        assert await _fork(world, "f", 4)
        last = Cursor(4, 1)
        source = dict(pieces(await read_until(world, "s", last)))
        fork = dict(pieces(await read_until(world, "f", last)))
        same(list(fork), list(source))
        differing = {cursor: shown for cursor, shown in fork.items() if shown != source[cursor]}
        assert set(differing.values()) <= {b"gap"}, "only deltas may be gone"
        assert set(differing) <= {Cursor(3, 3), Cursor(3, 4)}
        for after in source:
            rest = dict(pieces(await read_until(world, "f", last, after)))
            same(list(rest), [cursor for cursor in source if cursor > after])
        own = await read(world, "f", 1, last)
        same([(item.cursor, item.what) for item in own], [(Cursor(5, 0), (await whole(world, "f"))[4])])
        assert not any(isinstance(item.what, Gap) for item in own)


@promise()
async def a_fork_can_be_forked_below_and_above_its_own_first_commit(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        assert await _fork(world, "f", 4)
        claim = await claimed(world, "w2", "f")
        await landed(world, claim.lease, 7, b"seven")
        assert await _fork(world, "above", 7, source="f")
        assert await _fork(world, "below", 3, source="f")
        same((await whole(world, "above"))[:7], await whole(world, "f"))
        same((await whole(world, "below"))[:3], (await whole(world, "s"))[:3])
        same(dict(await world.get_many("below", ["h1"])), {"h1": b"early"})
        await world.erase("f")
        await world.erase("s")
        same([one.body for one in await world.commits("above", 4)], [b"fork", b"takeover", b"seven", b"fork"])
        same(dict(await world.get_many("above", ["h1"])), {"h1": b"early"})


@promise()
async def of_racing_forks_under_one_id_one_lands(store: Store) -> None:
    async with store.open() as first, store.open() as second:
        await _told(first)
        made: list[bool] = []
        refused: list[OutlastError] = []

        async def race(world: World, number: int) -> None:
            try:
                made.append(await _fork(world, "f", 4, body=b"%d" % (number % 2)))
            except SessionExists as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for number in range(RACERS):
                tasks.start_soon(race, (first, second)[number // 2 % 2], number)
        same(made.count(True), 1)
        same(len(refused), RACERS // 2)
        same(len(await whole(first, "f")), 5)


@promise()
async def forks_land_beside_one_another_and_beside_the_source_s_commits(store: Store) -> None:
    async with store.open() as first, store.open() as second:
        lease = await _told(first)
        names = [f"f{number}" for number in range(RACERS)]

        async def go_on() -> None:
            for seq in range(6, 6 + RACERS):
                await landed(first, lease, seq, b"source")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            for number, name in enumerate(names):
                tasks.start_soon(_fork, (first, second)[number % 2], name, 3 + number % 3)
        for number, name in enumerate(names):
            same((await whole(first, name))[:-1], (await whole(first, "s"))[: 3 + number % 3])
        same(len(await whole(first, "s")), 5 + RACERS)


@promise()
async def a_fork_that_meets_the_source_s_erasure_is_whole_or_not_there(store: Store) -> None:
    async with store.open() as first, store.open() as second:
        for number in range(RACERS):
            source, fork = f"s{number}", f"f{number}"
            await _told(first, source)
            made: list[bool] = []

            async def make(source: str = source, fork: str = fork, made: list[bool] = made) -> None:
                try:
                    made.append(await second.fork(source, fork, commit(5, 1, b"fork")))
                except SessionErased:
                    made.append(False)

            async with anyio.create_task_group() as tasks:
                if number % 2:
                    tasks.start_soon(make)
                tasks.start_soon(first.erase, source)
                if not number % 2:
                    tasks.start_soon(make)
            if made == [True]:
                same(len(await whole(first, fork)), 5)
                same(dict(await first.get_many(fork, ["h1"])), {"h1": b"early"})
            else:
                with raises(SessionUnknown):
                    await first.get(fork)


@promise()
async def the_source_s_holder_has_no_part_in_a_fork(store: Store) -> None:
    async with store.open() as world:
        lease = await _told(world)
        assert await _fork(world, "f", 5)
        is_a(await put(world, Lease("f", lease.fence, lease.worker), commit(7, lease.fence)), Fenced)
        with raises(Fenced):
            await published(world, Lease("f", lease.fence, lease.worker), 6, b"stray")
        claim = await claimed(world, "w2", "f")
        same((claim.previous, claim.lease.fence), (None, 2))
        await landed(world, lease, 6)


@promise()
async def a_fork_is_ready_as_its_first_commit_says(store: Store) -> None:
    async with store.open() as world:
        await _told(world)
        await opened(world, "t", turn_open=False)
        assert await world.fork("t", "at-rest", commit(2, 0, b"fork", turn_open=False))
        assert await world.fork("s", "parked", commit(5, 1, b"fork", parked=True))
        assert await world.fork("s", "woken", commit(5, 1, b"fork", parked=True, wake_at_s=1.0))
        assert await world.fork("s", "open", commit(5, 1, b"fork"))
        same((await claimed(world, "w2")).lease.session, "open")
        await sent(world, "at-rest", "in-9")
        same({(await claimed(world, "w2")).lease.session for _ in range(2)}, {"at-rest", "woken"})


CASES: tuple[Case, ...] = (
    a_fork_has_the_past_of_its_source_and_goes_on_by_itself,
    a_fork_s_head_tells_of_what_it_has_and_of_nothing_later,
    the_same_fork_again_changes_nothing,
    an_id_that_is_taken_is_not_a_fork_s,
    a_fork_beyond_the_head_or_of_nothing_is_refused,
    an_erased_id_is_not_a_fork_s,
    a_fork_names_the_blobs_of_its_past_and_no_later_ones,
    neither_s_erasure_takes_anything_from_the_other,
    what_the_past_consumed_is_consumed_in_the_fork_and_nothing_else_waits,
    cursors_into_the_shared_past_are_the_same_in_both,
    a_fork_can_be_forked_below_and_above_its_own_first_commit,
    of_racing_forks_under_one_id_one_lands,
    forks_land_beside_one_another_and_beside_the_source_s_commits,
    a_fork_that_meets_the_source_s_erasure_is_whole_or_not_there,
    the_source_s_holder_has_no_part_in_a_fork,
    a_fork_is_ready_as_its_first_commit_says,
)
