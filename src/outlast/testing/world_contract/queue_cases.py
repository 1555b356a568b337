"""The queue: what is ready, and who gets it."""

from dataclasses import replace
from typing import Final

import anyio

from outlast.testing.world_contract.blocks import (
    TAKEOVER,
    claimed,
    commit,
    find_claim,
    held,
    landed,
    offer,
    opened,
    published,
    renew,
    same,
    sent,
    whole,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Claim, Lease, Takeover, World
from outlast.world.commit import seal

FAR_S: Final = 4_000_000_000.0
"""A wake time that no test lives to see."""


async def _is_ready(world: World) -> bool:
    return await find_claim(world, only="s") is not None


async def _now(world: World) -> float:
    return (await world.get("s")).created_at_s


@promise()
async def an_open_turn_is_ready(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        claim = await claimed(world)
        same((claim.lease, claim.seq, claim.proof, claim.previous), (Lease("s", 1, "w1"), 2, "free", None))
        same((await world.get("s")).worker, "w1")


@promise()
async def a_session_with_nothing_to_do_is_not_ready(store: Store) -> None:
    async with store.open() as world:
        await opened(world, turn_open=False)
        assert not await _is_ready(world)


@promise()
async def an_empty_world_has_nothing_to_claim(store: Store) -> None:
    async with store.open() as world:
        same(await find_claim(world), None)
        same(await find_claim(world, only="nowhere"), None)


@promise()
async def an_input_makes_any_session_ready(store: Store) -> None:
    async with store.open() as world:
        await opened(world, turn_open=True, parked=True, wake_at_s=FAR_S)
        assert not await _is_ready(world)
        await sent(world, "s", "in-1")
        assert await _is_ready(world)


@promise()
async def an_input_makes_an_idle_session_ready(store: Store) -> None:
    async with store.open() as world:
        await opened(world, turn_open=False)
        await sent(world, "s", "in-1")
        assert await _is_ready(world)


@promise()
async def a_consumed_input_makes_nothing_ready(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        await landed(world, lease, 3, consumes=("in-1",), turn_open=False, release=True)
        assert not await _is_ready(world)
        await sent(world, "s", "in-1")
        assert not await _is_ready(world)


@promise()
async def a_parked_turn_without_a_wake_time_waits_for_an_input(store: Store) -> None:
    async with store.open() as world:
        await opened(world, parked=True)
        assert not await _is_ready(world)
        await sent(world, "s", "in-1")
        assert await _is_ready(world)


@promise()
async def a_wake_time_wakes_a_session_whose_turn_is_parked(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, wake_at_s=await _now(world) + 1.5, parked=True, release=True)
        assert not await _is_ready(world)
        await store.turn(2)
        assert await _is_ready(world)


@promise()
async def a_session_may_begin_parked_with_a_wake_time(store: Store) -> None:
    async with store.open() as world:
        await opened(world, parked=True, wake_at_s=1.0)
        assert await _is_ready(world)


@promise()
async def the_takeover_of_a_woken_session_is_dated_behind_its_wake_time(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        wake_at_s = await _now(world) + 1.5
        await landed(world, lease, 3, wake_at_s=wake_at_s, parked=True, release=True)
        await store.turn(2)
        await claimed(world)
        head = await world.get("s")
        same(head.updated_at_s >= wake_at_s, True)


@promise()
async def a_wake_time_defers_an_open_turn_until_it_has_passed(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, wake_at_s=await _now(world) + 1.5, release=True)
        assert not await _is_ready(world)
        await store.turn(2)
        assert await _is_ready(world)


@promise()
async def a_wake_time_wakes_a_session_without_a_turn(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, wake_at_s=await _now(world) + 1.5, turn_open=False, release=True)
        assert not await _is_ready(world)
        await store.turn(2)
        assert await _is_ready(world)


@promise()
async def parking_means_nothing_to_a_session_without_a_turn(store: Store) -> None:
    async with store.open() as world:
        await opened(world, turn_open=False, parked=True, wake_at_s=1.0)
        assert await _is_ready(world)


@promise()
async def of_many_who_claim_one_session_one_gets_it(store: Store) -> None:
    claims: list[Claim] = []
    async with store.open() as one, store.open() as other:
        await opened(one)
        for racer in range(16):
            renew(one, f"w{racer}")

        async def race(racer: int) -> None:
            claim = await (one if racer % 2 else other).claim(offer(f"w{racer}"), TAKEOVER)
            if claim is not None:
                claims.append(claim)

        async with anyio.create_task_group() as racers:
            for racer in range(16):
                racers.start_soon(race, racer)
        same(len(claims), 1)
        head = await one.get("s")
        same((head.seq, head.fence, head.worker), (2, 1, claims[0].lease.worker))


@promise()
async def many_sessions_are_claimed_once_each(store: Store) -> None:
    claims: list[Claim] = []
    async with store.open() as one, store.open() as other:
        for number in range(12):
            await opened(one, f"s{number}")
        for racer in range(4):
            renew(one, f"w{racer}")

        async def drain(racer: int) -> None:
            while claim := await (one if racer % 2 else other).claim(offer(f"w{racer}"), TAKEOVER):
                claims.append(claim)

        async with anyio.create_task_group() as racers:
            for racer in range(4):
                racers.start_soon(drain, racer)
    same(sorted(claim.lease.session for claim in claims), sorted(f"s{number}" for number in range(12)))
    same({claim.lease.fence for claim in claims}, {1})


@promise()
async def each_claim_raises_the_fence_by_one(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        for fence in range(1, 6):
            claim = await claimed(world)
            same((claim.lease.fence, claim.seq), (fence, fence + 1))
            await world.release(claim.lease)
        same([there.header.fence for there in await whole(world, "s")], [0, 1, 2, 3, 4, 5])


@promise()
async def a_session_of_another_agent_is_not_given(store: Store) -> None:
    async with store.open() as world:
        await world.create("s", commit(1, 0), agent="writer")
        same(await find_claim(world), None)
        both = replace(offer(), agents=frozenset({"coder", "writer"}))
        assert await world.claim(both, TAKEOVER) is not None


@promise()
async def a_session_of_a_newer_format_is_not_given(store: Store) -> None:
    async with store.open() as world:
        await opened(world, format=3)
        same(await world.claim(replace(offer(), max_format=2), TAKEOVER), None)
        assert await world.claim(replace(offer(), max_format=3), TAKEOVER) is not None


@promise()
async def a_session_placed_elsewhere_is_not_given(store: Store) -> None:
    async with store.open() as world:
        await world.create("s", commit(1, 0), agent="coder", placement="host:a")
        same(await find_claim(world), None)
        same(await world.claim(replace(offer(), placements=frozenset({"any", "host:b"})), TAKEOVER), None)
        assert (
            await world.claim(replace(offer(), placements=frozenset({"any", "host:a"})), TAKEOVER) is not None
        )


@promise()
async def only_the_session_that_is_named_is_given(store: Store) -> None:
    async with store.open() as world:
        for session in ("s1", "s2", "s3"):
            await opened(world, session)
        same((await claimed(world, only="s2")).lease.session, "s2")
        same(await find_claim(world, only="s2"), None)
        await opened(world, "idle", turn_open=False)
        same(await find_claim(world, only="idle"), None)


@promise()
async def every_ready_session_is_given_in_the_end(store: Store) -> None:
    async with store.open() as world:
        await world.create("other", commit(1, 0), agent="writer")
        for number in range(5):
            await opened(world, f"s{number}")
        given = {(await claimed(world)).lease.session for _ in range(5)}
        same(given, {f"s{number}" for number in range(5)})
        same(await find_claim(world), None)


@promise()
async def a_takeover_keeps_what_stood_and_counts_the_deltas(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, wake_at_s=3.5, status="waiting", snapshot=True)
        await sent(world, "s", "in-1")
        await published(world, lease, 3, b"one", b"two", b"three")
        claim = await world.claim(offer("w2", dead=["w1"]), Takeover(b"mine", events=2, format=1))
        assert claim is not None
        same((claim.seq, claim.snapshot_seq, claim.status, claim.lease.fence), (4, 3, "waiting", 2))
        [there] = await world.commits("s", after=3)
        header = there.header
        same((there.body, header.seq, header.fence, header.events, header.format), (b"mine", 4, 2, 2, 1))
        same((header.sealed, header.turn_open, header.wake_at_s, header.status), (3, True, 3.5, "waiting"))
        same((header.consumes, header.refs, header.snapshot, header.release), ((), (), False, False))
        same(header.digest, seal(header, there.body))
        same([waiting.id for waiting in await world.inputs("s")], ["in-1"])
        head = await world.get("s")
        same((head.snapshot_seq, head.waiting_inputs, head.turn_open, head.wake_at_s), (3, 1, True, 3.5))


@promise()
async def a_takeover_keeps_a_turn_parked(store: Store) -> None:
    async with store.open() as world:
        await opened(world, parked=True)
        await sent(world, "s", "in-1")
        claim = await claimed(world)
        same((await world.commits("s", after=1))[0].header.parked, True)
        await world.release(claim.lease)
        same((await world.get("s")).parked, True)


@promise()
async def a_worker_of_an_older_format_is_not_given_what_was_committed_in_a_newer(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await landed(world, lease, 3, format=2, release=True)
        same(await world.claim(offer("w2"), TAKEOVER), None)
        assert await world.claim(replace(offer("w2"), max_format=2), TAKEOVER) is not None


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
