from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs

from outlast.errors import BadPayload, BlobUnknown, CommitConflict, Fenced, SessionUnknown
from outlast.records import FORMAT
from outlast.world import Claim, Commit, Header, Lease, Takeover, WorkerOffer, WorkerRow, World
from outlast.world.commit import make_commit
from outlast.worlds.memory import open_memory
from outlast.worlds.sqlite import open_sqlite
from outlast.worlds.sqlite.mutex import Mutex

NAMES = [f"s{number}" for number in range(12)]


@pytest.fixture
async def worlds(tmp_path: Path) -> AsyncIterator[Sequence[World]]:
    async with open_memory() as memory, open_sqlite(tmp_path / "world.db") as sqlite:
        yield [memory, sqlite]


def commit(claim: Claim, body: bytes = b"[1,2]", **facts: object) -> Commit:
    header = Header(claim.seq + 1, claim.lease.fence, FORMAT, 2, turn_open=True, status="turn 1 · ü")
    return make_commit(structs.replace(header, **facts), body)


async def claimed(world: World) -> list[Claim]:
    """Sessions with an open turn, held by one worker."""
    liveness = world.open_liveness()
    liveness.renew(WorkerRow("w", "", 0.0), 60.0)
    liveness.close()
    claims: list[Claim] = []
    for name in NAMES:
        first = make_commit(Header(1, 0, FORMAT, 1, turn_open=True), b"[0]")
        await world.create(name, first, agent="a")
        offer = WorkerOffer("w", frozenset({"a"}), FORMAT, only=name)
        claim = await world.claim(offer, Takeover(b"[]", 0, FORMAT))
        assert claim is not None
        claims.append(claim)
    return claims


async def outcome(world: World) -> list[object]:
    """What many commits in one batch come to, usual ones and others."""
    claims = await claimed(world)
    one, two, three, four, five, six, seven, eight, nine, ten, *_ = claims
    batch = [
        (one.lease, commit(one)),
        (two.lease, commit(two, b"")),
        (three.lease, commit(three, b"\x00\xff" * 3000)),
        (replace(four.lease, fence=four.lease.fence - 1), commit(four)),
        (replace(five.lease, worker="other"), commit(five)),
        (six.lease, commit(six, seq=six.seq + 2)),
        (seven.lease, commit(seven, refs=("nowhere",))),
        (eight.lease, commit(eight, parked=True)),
        (nine.lease, commit(nine, status="x" * 2000)),
        (ten.lease, commit(ten, turn_open=False)),
        (Lease("nobody", 1, "w"), commit(ten)),
    ]
    results = await world.commit_many(batch)
    again = await world.commit_many(batch[:3])
    following = await world.commit_many(
        [(claim.lease, commit(replace(claim, seq=claim.seq + 1))) for claim in (one, two, eight)]
    )
    logs = [[(c.header, c.body) for c in await world.commits(name)] for name in NAMES]
    heads = [replace(await world.get(name), created_at_s=0.0, updated_at_s=0.0) for name in NAMES]
    newest = [head.session for head in (await world.list()).sessions]
    return [[type(result) for result in [*results, *again, *following]], logs, heads, sorted(newest)]


async def test_commits_written_together_come_to_the_same_as_each_alone(worlds: Sequence[World]) -> None:
    memory, sqlite = [await outcome(world) for world in worlds]
    assert sqlite == memory
    nothing = type(None)
    assert memory[0] == [
        *(nothing, nothing, nothing, Fenced, Fenced, CommitConflict, BlobUnknown, nothing, BadPayload),
        *(nothing, SessionUnknown),
        *[nothing] * 6,
    ]


async def test_a_session_twice_in_one_batch_lands_in_order(worlds: Sequence[World]) -> None:
    for world in worlds:
        one, two, *_ = await claimed(world)
        after = commit(replace(one, seq=one.seq + 1), b"[3,4]")
        results = await world.commit_many(
            [(one.lease, commit(one)), (two.lease, commit(two)), (one.lease, after)]
        )
        assert results == [None, None, None]
        assert [c.body for c in await world.commits("s0", one.seq)] == [b"[1,2]", b"[3,4]"]


async def test_commits_written_together_are_listed_by_their_newest_change(worlds: Sequence[World]) -> None:
    for world in worlds:
        claims = await claimed(world)
        chosen = [claims[place] for place in (7, 3, 5)]
        await world.commit_many([(claim.lease, commit(claim)) for claim in chosen])
        listed = [head.session for head in (await world.list(limit=3)).sessions]
        assert listed == ["s5", "s3", "s7"]


async def test_lone_commits_that_share_a_transaction_are_listed_in_their_order(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "world.db") as world:
        claims = await claimed(world)
        async with anyio.create_task_group() as tasks:
            with Mutex(world.store.files.lock):  # what comes meanwhile is one batch, or two
                for place in (2, 9, 4):
                    tasks.start_soon(world.commit_many, [(claims[place].lease, commit(claims[place]))])
                await anyio.lowlevel.checkpoint()
        assert [head.session for head in (await world.list(limit=3)).sessions] == ["s4", "s9", "s2"]
