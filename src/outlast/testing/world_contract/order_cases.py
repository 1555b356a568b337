"""Of several ready sessions, which is given: turns, priorities, the line, limits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import anyio

from outlast.errors import BadPayload
from outlast.testing.world_contract.blocks import (
    TAKEOVER,
    commit,
    landed,
    offer,
    raises,
    renew,
    same,
    sent,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Capability, Claim, Input, Limits, World
from outlast.world.checks import PRIORITY_LIMIT

AGENTS: Final = frozenset({"coder", "writer"})
RACERS: Final = 12


async def _ready(world: World, session: str, agent: str = "coder", priority: int = 0) -> None:
    await world.create(session, commit(1, 0), agent=agent, priority=priority)


async def _claim(
    world: World,
    worker: str = "w1",
    *,
    turns: Mapping[str, int] | None = None,
    limits: Limits | None = None,
    dead: Sequence[str] = (),
    ttl_s: float = 60.0,
) -> Claim | None:
    renew(world, worker, ttl_s)
    asked = replace(offer(worker, dead=dead), agents=AGENTS, turns=turns or {}, limits=limits or Limits())
    return await world.claim(asked, TAKEOVER)


async def _given(world: World, count: int, after: int = 0) -> list[str]:
    """The sessions of the next claims, each numbered as `WorkerOffer.turns` wants it."""
    names: list[str] = []
    for number in range(after, after + count):
        claim = await _claim(world, turns={"coder": number})
        assert claim is not None, "nothing was ready"
        names.append(claim.lease.session)
    return names


@promise()
async def the_higher_priority_is_given_first(store: Store) -> None:
    async with store.open() as world:
        for session, priority in (("low", -3), ("plain", 0), ("high", 7), ("higher", 8)):
            await _ready(world, session, priority=priority)
        same((await world.get("higher")).priority, 8)
        same(await _given(world, 4), ["higher", "high", "plain", "low"])


@promise()
async def of_one_priority_the_first_that_became_ready_is_given_first(store: Store) -> None:
    async with store.open() as world:
        for session in ("a", "b", "c"):
            await _ready(world, session)
        first = await _claim(world)
        assert first is not None
        same((first.lease.session, first.agent), ("a", "coder"))
        await world.release(first.lease)
        second = await _claim(world)
        assert second is not None
        await landed(world, second.lease, 3, release=True)
        same(await _given(world, 3), ["c", "a", "b"])


@promise()
async def an_input_sets_the_priority_of_its_session(store: Store) -> None:
    async with store.open() as world:
        for session in ("a", "b"):
            await _ready(world, session)
        urgent = Input("in-1", "same", b"now", priority=5)
        same((await world.put_input("b", urgent)).priority, None)
        same((await world.get("b")).priority, 5)
        await sent(world, "b", "in-2")
        await world.put_input("b", replace(urgent, priority=-5))
        same((await world.get("b")).priority, 5)
        same([there.priority for there in await world.inputs("b")], [None, None])
        same(await _given(world, 2), ["b", "a"])


@promise()
async def a_priority_set_under_a_lease_counts_when_it_ends(store: Store) -> None:
    async with store.open() as world:
        for session in ("a", "b"):
            await _ready(world, session)
        claim = await _claim(world)
        assert claim is not None
        await world.put_input("a", Input("in-1", "same", b"now", priority=1))
        await landed(world, claim.lease, 3, format=2)
        same(((await world.get("a")).priority, (await world.get("a")).worker), (1, "w1"))
        await world.release(claim.lease)
        both = replace(offer(), max_format=2)
        next_ = await world.claim(both, TAKEOVER)
        assert next_ is not None
        same(next_.lease.session, "a")


@promise()
async def a_priority_out_of_bounds_is_refused(store: Store) -> None:
    async with store.open() as world:
        for priority in (PRIORITY_LIMIT + 1, -PRIORITY_LIMIT - 1):
            with raises(BadPayload):
                await _ready(world, "s", priority=priority)
        await _ready(world, "s", priority=-PRIORITY_LIMIT)
        with raises(BadPayload):
            await world.put_input("s", Input("in-1", "same", b"now", priority=PRIORITY_LIMIT + 1))
        same(((await world.get("s")).waiting_inputs, (await world.get("s")).priority), (0, -PRIORITY_LIMIT))


@promise()
async def a_session_is_the_same_whatever_priority_it_is_opened_with_again(store: Store) -> None:
    async with store.open() as world:
        await _ready(world, "s", priority=2)
        same(await world.create("s", commit(1, 0), agent="coder", priority=9), False)
        same((await world.get("s")).priority, 2)


@promise()
async def each_eighth_claim_is_for_the_longest_ready_whatever_its_priority(store: Store) -> None:
    async with store.open() as world:
        await _ready(world, "low", priority=-PRIORITY_LIMIT)
        for number in range(20):
            await _ready(world, f"high-{number:02}", priority=PRIORITY_LIMIT)
        same((await _given(world, 8))[7], "low")


@promise()
async def each_third_claim_is_for_a_session_whose_wake_time_has_passed(store: Store) -> None:
    async with store.open() as world:
        await world.create("sleeper", commit(1, 0, wake_at_s=1.0), agent="coder")
        for number in range(6):
            await _ready(world, f"s{number}")
        await world.create("later", commit(1, 0, wake_at_s=2.0), agent="coder")
        same(await _given(world, 6), ["s0", "s1", "sleeper", "s2", "s3", "later"])


@promise()
async def the_agent_whose_turn_it_is_is_served_first(store: Store) -> None:
    async with store.open() as world:
        for number in range(3):
            await _ready(world, f"c{number}", priority=9)
        for number in range(2):
            await _ready(world, f"w{number}", "writer")
        given = [
            claim.lease.session
            for turns in (("writer", "coder"), ("coder", "writer"), ("writer",), ("writer", "coder"))
            if (claim := await _claim(world, turns=dict.fromkeys(turns, 0))) is not None
        ]
        same(given, ["w0", "c0", "w1", "c1"])


@promise()
async def a_limit_of_an_agent_is_kept(store: Store) -> None:
    limits = Limits({"coder": 2})
    async with store.open() as world, store.open() as other:
        for number in range(4):
            await _ready(world, f"c{number}")
        await _ready(world, "w0", "writer")
        first = await _claim(world, "w1", limits=limits)
        assert first is not None
        assert await _claim(other, "w2", limits=limits) is not None
        last = await _claim(world, "w1", limits=limits)
        same(last and last.lease.session, "w0")
        same(await _claim(other, "w2", limits=limits), None)
        same(await other.claim(replace(offer("w2", only="c2"), limits=limits), TAKEOVER), None)
        await world.release(first.lease)
        assert await _claim(other, "w2", limits=limits) is not None
        same(await _claim(world, "w1", limits=limits), None)
        assert await _claim(world, "w1") is not None, "whoever states no limit is not bound by one"


@promise()
async def a_limit_of_the_tenant_counts_all_its_agents_and_no_other_tenant_s(store: Store) -> None:
    limits = Limits(whole=2)
    async with store.open() as world:
        other = world.for_tenant("other")
        for agent, session in (("coder", "c0"), ("writer", "w0"), ("coder", "c1")):
            await _ready(world, session, agent)
            await _ready(other, session, agent)
        for tenant in (other, world):
            assert await _claim(tenant, limits=limits) is not None
            assert await _claim(tenant, limits=limits) is not None
            same(await _claim(tenant, limits=limits), None)


@promise()
async def a_lease_that_stands_no_more_counts_for_no_limit(store: Store) -> None:
    limits = Limits({"coder": 1}, whole=1)
    async with store.open() as world:
        for number in range(4):
            await _ready(world, f"c{number}")
        assert await _claim(world, "w1", limits=limits, ttl_s=1.0) is not None
        same(await _claim(world, "w2", limits=limits), None)
        await store.turn(1.5)
        assert await _claim(world, "w2", limits=limits) is not None
        same(await _claim(world, "w3", limits=limits), None)
        assert await _claim(world, "w3", limits=limits, dead=["w2"]) is not None


@promise()
async def a_limit_of_none_at_once_gives_nothing(store: Store) -> None:
    async with store.open() as world:
        await _ready(world, "s")
        same(await _claim(world, limits=Limits({"coder": 0})), None)
        same(await _claim(world, limits=Limits(whole=0)), None)


async def _race(one: World, other: World, limits: Limits) -> list[Claim]:
    claims: list[Claim] = []

    async def claim(racer: int) -> None:
        # Each of its own session: no two meet at one, where one would lose whatever the limits.
        own = f"{'cw'[racer % 2]}{racer}"
        asked = replace(offer(f"w{racer}", own), agents=AGENTS, limits=limits)
        found = await (one if racer % 3 else other).claim(asked, TAKEOVER)
        if found is not None:
            claims.append(found)

    async with anyio.create_task_group() as racers:
        for racer in range(RACERS):
            racers.start_soon(claim, racer)
    return claims


@promise(Capability.EXACT_LIMITS)
async def claims_that_race_never_pass_a_limit(store: Store) -> None:
    async with store.open() as one, store.open() as other:
        for number in range(RACERS):
            await _ready(one, f"c{number}")
            await _ready(one, f"w{number}", "writer")
            renew(one, f"w{number}")
        held: list[Claim] = []
        for limits in (Limits({"coder": 3, "writer": 2}), Limits({"coder": 4}, whole=7)):
            held += await _race(one, other, limits)
            while len(held) < (limits.whole or 5):  # whoever lost every race asks again
                held += await _race(one, other, limits)
            same(len(held), limits.whole or 5)
        agents = [claim.agent for claim in held]
        assert agents.count("coder") <= 4
        for claim in held[:2]:
            await one.release(claim.lease)
        same(len(await _race(one, other, Limits(whole=6))), 1)


@promise()
async def every_tenant_that_ever_had_a_session_is_listed(store: Store) -> None:
    async with store.open() as world:
        same(list(await world.tenants()), [])
        for tenant in ("zürich", "default", "a/b \x00"):
            await _ready(world.for_tenant(tenant), "s")
        await world.erase("s")
        same(list(await world.for_tenant("nobody").tenants()), ["a/b \x00", "default", "zürich"])


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
