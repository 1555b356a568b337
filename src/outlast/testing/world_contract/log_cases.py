"""The log: dense, whole or not at all, one commit per number, fenced."""

from dataclasses import replace
from typing import Final

import anyio

from outlast.errors import (
    BadPayload,
    BadSessionId,
    BlobUnknown,
    CommitConflict,
    Fenced,
    InputTaken,
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
    published,
    put,
    raises,
    read,
    same,
    sent,
    whole,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Lease


@promise()
async def the_first_commit_opens_a_session(store: Store) -> None:
    async with store.open() as world:
        first = commit(1, 0, b"first", status="new")
        same(await world.create("s", first, agent="coder", placement="host:a", labels={"team": "blue"}), True)
        head = await world.get("s")
        same((head.agent, head.placement, head.labels), ("coder", "host:a", {"team": "blue"}))
        same((head.seq, head.fence, head.format, head.snapshot_seq), (1, 0, 1, 0))
        same((head.turn_open, head.parked, head.status, head.worker), (True, False, "new", None))
        same((head.waiting_inputs, head.created_at_s), (0, head.updated_at_s))
        same(await world.commits("s"), [first])


@promise()
async def the_same_opening_again_changes_nothing(store: Store) -> None:
    async with store.open() as world:
        first = await opened(world)
        before = await world.get("s")
        same(await world.create("s", first, agent="coder"), False)
        same(await world.get("s"), before)


@promise()
async def another_opening_under_the_same_id_is_refused(store: Store) -> None:
    async with store.open() as world:
        first = await opened(world)
        with raises(SessionExists):
            await world.create("s", commit(1, 0, b"other"), agent="coder")
        with raises(SessionExists):
            await world.create("s", first, agent="another")
        with raises(SessionExists):
            await world.create("s", first, agent="coder", placement="host:a")
        with raises(SessionExists):
            await world.create("s", first, agent="coder", labels={"team": "blue"})
        same(await world.commits("s"), [first])


@promise()
async def of_many_who_open_one_session_one_is_told_that_it_did(store: Store) -> None:
    told: list[bool] = []
    async with store.open() as one, store.open() as other, anyio.create_task_group() as racers:

        async def race(turn: int) -> None:
            told.append(await (one if turn % 2 else other).create("s", commit(1, 0), agent="coder"))

        for turn in range(8):
            racers.start_soon(race, turn)
    same(sorted(told), [False] * 7 + [True])


@promise()
async def what_is_no_opening_is_refused(store: Store) -> None:
    async with store.open() as world:
        with raises(BadSessionId):
            await world.create("No Id", commit(1, 0), agent="coder")
        with raises(BadPayload):
            await world.create("s", commit(2, 0), agent="coder")
        with raises(BadPayload):
            await world.create("s", commit(1, 1), agent="coder")
        with raises(BadPayload):
            await world.create("s", commit(1, 0), agent="coder", labels={"half": "\ud800"})
        with raises(SessionUnknown):
            await world.get("s")


@promise()
async def an_unknown_session_is_said_to_be_unknown(store: Store) -> None:
    async with store.open() as world:
        nobody = Lease("nowhere", 1, "w1")
        with raises(SessionUnknown):
            await world.get("nowhere")
        with raises(SessionUnknown):
            await world.commits("nowhere")
        with raises(SessionUnknown):
            await world.commit_idle("nowhere", commit(2, 0))
        with raises(SessionUnknown):
            await world.erase("nowhere")
        with raises(SessionUnknown):
            await published(world, nobody, 1, b"delta")
        with raises(SessionUnknown):
            await read(world, "nowhere", 1)
        is_a(await put(world, nobody, commit(2, 1)), SessionUnknown)
        await world.release(nobody)


@promise()
async def commits_are_dense(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        is_a(await put(world, lease, commit(4, 1)), CommitConflict)
        for seq in range(3, 8):
            await landed(world, lease, seq, b"%d" % seq)
        same([there.header.seq for there in await whole(world, "s")], [1, 2, 3, 4, 5, 6, 7])
        same([there.body for there in await world.commits("s", after=3, limit=2)], [b"4", b"5"])


@promise()
async def a_reader_always_sees_a_prefix(store: Store) -> None:
    async with store.open() as world, store.open() as reader:
        lease = await held(world)
        done = anyio.Event()

        async def watch() -> None:
            while not done.is_set():
                seen = await reader.commits("s")
                same([there.header.seq for there in seen], list(range(1, len(seen) + 1)))

        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            for seq in range(3, 40):
                await landed(world, lease, seq)
            done.set()


@promise()
async def the_same_commit_again_has_landed(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        new = await landed(world, lease, 3)
        same(await put(world, lease, new), None)
        await landed(world, lease, 4)
        same(await put(world, lease, new), None)
        same(len(await whole(world, "s")), 4)


@promise()
async def a_zombie_is_told_that_its_commit_had_landed_before_the_takeover(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        new = await landed(world, lease, 3)
        await claimed(world, "w2", dead=["w1"])
        same(await put(world, lease, new), None)


@promise()
async def another_commit_at_the_same_number_is_a_conflict_and_the_first_stays(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        new = await landed(world, lease, 3)
        is_a(await put(world, lease, commit(3, 1, b"another")), CommitConflict)
        is_a(await put(world, lease, commit(1, 1, b"another")), CommitConflict)
        same((await whole(world, "s"))[2], new)


@promise()
async def a_stale_fence_writes_nothing(store: Store) -> None:
    async with store.open() as world:
        zombie = await held(world)
        owner = (await claimed(world, "w2", dead=["w1"])).lease
        for seq in (3, 4):
            is_a(await put(world, zombie, commit(seq, zombie.fence, b"late")), Fenced)
        with raises(Fenced):
            await published(world, zombie, 3, b"late")
        await landed(world, owner, 4)
        same([there.body for there in await whole(world, "s")], [b"first", b"takeover", b"takeover", b"body"])


@promise()
async def a_fence_that_was_never_given_writes_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        is_a(await put(world, replace(lease, fence=2), commit(3, 2)), Fenced)
        same((await world.get("s")).seq, 2)


@promise()
async def a_released_lease_writes_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, release=True)
        is_a(await put(world, lease, commit(4, 1)), Fenced)
        with raises(Fenced):
            await published(world, lease, 3, b"late")
        same((await world.get("s")).seq, 3)


@promise()
async def a_commit_that_consumes_what_is_not_there_leaves_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        bad = commit(
            3, 1, blobs={"h1": b"bytes"}, refs=("h1",), consumes=("in-1", "in-2"), status="bad", wake_at_s=5.0
        )
        before = await world.get("s")
        is_a(await put(world, lease, bad), InputTaken)
        same(await world.get("s"), before)
        same([there.id for there in await world.inputs("s")], ["in-1"])
        with raises(BlobUnknown):
            await world.get_many("s", ["h1"])
        is_a(await put(world, lease, commit(3, 1, refs=("h1",))), BlobUnknown)


@promise()
async def a_commit_without_its_blob_leaves_nothing(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        bad = commit(3, 1, blobs={"h1": b"bytes"}, refs=("h1", "nowhere"), consumes=("in-1",))
        is_a(await put(world, lease, bad), BlobUnknown)
        same((await world.get("s")).seq, 2)
        same([there.id for there in await world.inputs("s")], ["in-1"])
        with raises(BlobUnknown):
            await world.get_many("s", ["h1"])


@promise()
async def a_commit_lands_whole(store: Store) -> None:
    async with store.open() as world, store.open() as reader:
        lease = await held(world)
        await sent(world, "s", "in-1")
        new = commit(
            3, 1, blobs={"h1": b"bytes"}, refs=("h1",), consumes=("in-1",), status="took it", turn_open=False
        )
        same(await put(world, lease, new), None)
        head = await reader.get("s")
        same((head.seq, head.status, head.turn_open, head.waiting_inputs), (3, "took it", False, 0))
        same(await reader.get_many("s", ["h1"]), {"h1": b"bytes"})
        same(await reader.inputs("s"), [])


@promise()
async def a_refused_commit_does_not_hinder_its_neighbours(store: Store) -> None:
    async with store.open() as world:
        leases = [await held(world, f"s{number}") for number in range(6)]
        bad = {
            1: commit(9, 1),
            2: commit(3, 1, consumes=("nothing",)),
            3: commit(3, 1, refs=("nowhere",)),
            4: commit(3, 1, status="x" * 1001),
        }
        results = await world.commit_many(
            [(lease, bad.get(number, commit(3, 1))) for number, lease in enumerate(leases)]
        )
        wanted = [None, CommitConflict, InputTaken, BlobUnknown, BadPayload, None]
        same([None if result is None else type(result) for result in results], wanted)
        same([(await world.get(lease.session)).seq for lease in leases], [3, 2, 2, 2, 2, 3])


@promise()
async def commits_of_many_sessions_land_together(store: Store) -> None:
    async with store.open() as world:
        leases = [await held(world, f"s{number}") for number in range(40)]
        for seq in (3, 4, 5):
            batch = [(lease, commit(seq, 1, lease.session.encode())) for lease in leases]
            same(set(await world.commit_many(batch)), {None})
        same(await world.commit_many([]), [])
        for lease in leases:
            same(
                [there.body for there in await world.commits(lease.session, after=2)],
                [lease.session.encode()] * 3,
            )


@promise()
async def everything_in_a_commit_comes_back_as_it_was(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "ein süßer\x00 Name")
        every = bytes(range(256)) + b"\x00" * 100
        new = commit(
            3,
            1,
            every,
            blobs={"h1": every, "h2": b""},
            format=1,
            events=7,
            sealed=2,
            consumes=("ein süßer\x00 Name",),
            refs=("h1", "h2"),
            turn_open=True,
            wake_at_s=1234567890.123456,
            parked=True,
            status="läuft \x00 \U0001f9d1‍\U0001f4bb " * 20,
            snapshot=True,
        )
        same(await put(world, lease, new), None)
        same(await world.commits("s", after=2), [replace(new, blobs={})])
        same(await world.get_many("s", ["h2", "h1"]), {"h1": every, "h2": b""})
        head = await world.get("s")
        same((head.status, head.wake_at_s, head.parked), (new.header.status, 1234567890.123456, True))
        same(head.snapshot_seq, 3)


@promise()
async def the_head_says_what_the_newest_header_says(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, snapshot=True, wake_at_s=9.0, parked=True, status="one")
        await landed(world, lease, 4, turn_open=False)
        head = await world.get("s")
        same((head.seq, head.fence, head.snapshot_seq, head.worker), (4, 1, 3, "w1"))
        same((head.turn_open, head.wake_at_s, head.parked, head.status), (False, None, False, ""))


@promise()
async def the_format_of_a_session_is_the_highest_of_its_commits(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, format=4)
        await landed(world, lease, 4, format=2)
        same((await world.get("s")).format, 4)
        same([there.header.format for there in await whole(world, "s")], [1, 1, 4, 2])


@promise()
async def a_commit_of_twenty_megabytes_lands(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        large = bytes(range(256)) * (20 * 4096)
        new = commit(3, 1, large, blobs={"h1": large}, refs=("h1",))
        same(await put(world, lease, new), None)
        [there] = await world.commits("s", after=2)
        assert there.body == large
        assert (await world.get_many("s", ["h1"]))["h1"] == large


@promise()
async def five_thousand_commits_are_read_in_order(store: Store) -> None:
    async with store.open() as world:
        leases = [await held(world, f"s{number}") for number in range(10)]
        for seq in range(3, 503):
            await world.commit_many([(lease, commit(seq, 1, b"%d" % seq)) for lease in leases])
        long = await held(world, "long")
        for seq in range(3, 1200):
            await landed(world, long, seq, b"%d" % seq)
        commits = await whole(world, "long")
        same([there.header.seq for there in commits], list(range(1, 1200)))
        same(commits[2:], [commit(seq, 1, b"%d" % seq) for seq in range(3, 1200)])
        items = await read(world, "long", 1199)
        same([item.cursor.seq for item in items], list(range(1, 1200)))
        for lease in leases:
            same(len(await whole(world, lease.session)), 502)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
