"""The inbox, and commits while nobody holds the session."""

from dataclasses import replace
from typing import Final

import anyio

from outlast.errors import (
    BadPayload,
    BlobUnknown,
    CommitConflict,
    Fenced,
    InputConflict,
    InputTaken,
    NotIdle,
    SessionUnknown,
)
from outlast.testing.world_contract.blocks import (
    claimed,
    commit,
    find_claim,
    held,
    is_a,
    landed,
    opened,
    put,
    raises,
    renew,
    same,
    sent,
    whole,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Input


@promise()
async def an_input_is_there_when_put_returns(store: Store) -> None:
    async with store.open() as world, store.open() as reader:
        await opened(world)
        new = Input("in-1", "digest", b"\x00body\xff", refs=("h1",), blobs={"h1": b"bytes"})
        there = await world.put_input("s", new)
        same(there, replace(new, blobs={}, arrival=there.arrival))
        same(await reader.inputs("s"), [there])
        same(await reader.find_input("s", "in-1"), there)
        same(await reader.find_input("s", "in-2"), None)
        same((await reader.get("s")).waiting_inputs, 1)


@promise()
async def the_same_input_again_changes_nothing(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        there = await sent(world, "s", "in-1")
        before = await world.get("s")
        same(await sent(world, "s", "in-1"), there)
        same(await world.get("s"), before)
        same(await world.inputs("s"), [there])


@promise()
async def one_id_with_another_content_is_refused(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        there = await sent(world, "s", "in-1")
        with raises(InputConflict):
            await sent(world, "s", "in-1", b"other")
        same(await world.inputs("s"), [there])
        await landed(world, lease, 3, consumes=("in-1",))
        with raises(InputConflict):
            await sent(world, "s", "in-1", b"other")


@promise()
async def an_input_repeated_after_it_was_consumed_says_by_which_commit(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        there = await sent(world, "s", "in-1")
        await landed(world, lease, 3, consumes=("in-1",))
        for again in (await sent(world, "s", "in-1"), await world.find_input("s", "in-1")):
            assert again is not None
            same((again.id, again.digest, again.consumed_by), ("in-1", there.digest, 3))
        same(await world.inputs("s"), [])


@promise()
async def inputs_are_read_in_the_order_in_which_they_came(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        names = ["m", "z", "a", "k", "b"]
        for name in names:
            await sent(world, "s", name)
        waiting = await world.inputs("s")
        same([there.id for there in waiting], names)
        arrivals = [there.arrival for there in waiting]
        same(arrivals, sorted(set(arrivals)))
        await landed(world, lease, 3, consumes=("a", "m"))
        same([there.id for there in await world.inputs("s")], ["z", "k", "b"])
        await sent(world, "s", "late")
        same([there.id for there in await world.inputs("s")], ["z", "k", "b", "late"])


@promise()
async def an_input_is_consumed_by_exactly_one_commit(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        taking = await landed(world, lease, 3, consumes=("in-1",))
        is_a(await put(world, lease, commit(4, 1, consumes=("in-1",))), InputTaken)
        await sent(world, "s", "in-2")
        is_a(await put(world, lease, commit(4, 1, consumes=("in-2", "in-2"))), InputTaken)
        same(await put(world, lease, taking), None)
        same((await world.get("s")).waiting_inputs, 1)
        same(len(await whole(world, "s")), 3)


@promise()
async def of_many_who_put_one_input_all_get_the_same(store: Store) -> None:
    arrivals: set[int] = set()
    async with store.open() as one, store.open() as other:
        await opened(one)
        async with anyio.create_task_group() as senders:

            async def send(turn: int) -> None:
                arrivals.add((await sent(one if turn % 2 else other, "s", "in-1")).arrival)

            for turn in range(8):
                senders.start_soon(send, turn)
        same(len(arrivals), 1)
        same((await one.get("s")).waiting_inputs, 1)


@promise()
async def an_input_that_comes_while_a_worker_holds_the_session_outlives_the_lease(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        await landed(world, lease, 3, turn_open=False, release=True)
        await claimed(world, "w2")
        same([there.id for there in await world.inputs("s")], ["in-1"])


@promise()
async def what_is_no_input_is_refused(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        with raises(BadPayload):
            await sent(world, "s", "half \ud800")
        with raises(BlobUnknown):
            await world.put_input("s", Input("in-1", "d", b"", refs=("nowhere",)))
        with raises(SessionUnknown):
            await sent(world, "nowhere", "in-1")
        with raises(SessionUnknown):
            await world.inputs("nowhere")
        with raises(SessionUnknown):
            await world.find_input("nowhere", "in-1")
        same(await world.inputs("s"), [])
        same((await world.get("s")).waiting_inputs, 0)


@promise()
async def blobs_of_an_input_are_held_for_the_commit_that_consumes_it(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await world.put_input("s", Input("in-1", "d", b"", refs=("h1",), blobs={"h1": b"bytes"}))
        same(await world.get_many("s", ["h1"]), {"h1": b"bytes"})
        await landed(world, lease, 3, consumes=("in-1",), refs=("h1",))
        same(await world.get_many("s", ["h1"]), {"h1": b"bytes"})


@promise()
async def an_idle_session_takes_a_commit_from_anyone(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, turn_open=False, release=True)
        new = commit(4, 1, b"edit", turn_open=False, status="edited")
        await world.commit_idle("s", new)
        await world.commit_idle("s", new)
        head = await world.get("s")
        same((head.seq, head.fence, head.worker, head.status), (4, 1, None, "edited"))
        same((await whole(world, "s"))[3], new)
        same(await find_claim(world), None)


@promise()
async def an_idle_commit_may_open_a_turn(store: Store) -> None:
    async with store.open() as world:
        await opened(world, turn_open=False)
        await world.commit_idle("s", commit(2, 0))
        same((await claimed(world)).seq, 3)


@promise()
async def no_idle_commit_while_a_lease_stands_or_a_turn_is_open(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        with raises(NotIdle):
            await world.commit_idle("s", commit(2, 0))
        lease = (await claimed(world)).lease
        await landed(world, lease, 3, turn_open=False)
        with raises(NotIdle):
            await world.commit_idle("s", commit(4, 1))
        same((await world.get("s")).seq, 3)


@promise()
async def an_idle_commit_lands_once_the_lease_ran_out(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, turn_open=False)
        renew(world, "w1", 1.0)
        await store.turn(1.5)
        await world.commit_idle("s", commit(4, 1, b"edit", turn_open=False))
        same((await world.get("s")).worker, "w1")
        is_a(await put(world, lease, commit(4, 1, b"late")), CommitConflict)


@promise()
async def an_idle_commit_keeps_the_rules_of_the_log(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, turn_open=False, release=True)
        with raises(CommitConflict):
            await world.commit_idle("s", commit(3, 1, b"another"))
        with raises(CommitConflict):
            await world.commit_idle("s", commit(5, 1))
        with raises(Fenced):
            await world.commit_idle("s", commit(4, 2))
        with raises(InputTaken):
            await world.commit_idle("s", commit(4, 1, consumes=("nothing",)))
        with raises(BlobUnknown):
            await world.commit_idle("s", commit(4, 1, refs=("nowhere",)))
        with raises(BadPayload):
            await world.commit_idle("s", commit(4, 1, status="x" * 1001))
        same((await world.get("s")).seq, 3)


@promise()
async def of_many_idle_commits_at_one_number_one_lands(store: Store) -> None:
    refused: list[Exception] = []
    async with store.open() as one, store.open() as other:
        await opened(one, turn_open=False)
        async with anyio.create_task_group() as writers:

            async def write(turn: int) -> None:
                try:
                    new = commit(2, 0, b"%d" % turn, turn_open=False)
                    await (one if turn % 2 else other).commit_idle("s", new)
                except CommitConflict as error:
                    refused.append(error)

            for turn in range(8):
                writers.start_soon(write, turn)
        same(len(refused), 7)
        same((await one.get("s")).seq, 2)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
