"""Lists, erasing, tenants and blobs."""

from dataclasses import replace
from typing import Final

from outlast.errors import BadPayload, BlobUnknown, SessionErased, SessionUnknown
from outlast.testing.world_contract.blocks import (
    TAKEOVER,
    claimed,
    commit,
    find_claim,
    held,
    is_a,
    landed,
    offer,
    opened,
    published,
    put,
    raises,
    read,
    renew,
    same,
    sent,
)
from outlast.testing.world_contract.case import Case, Store, promise
from outlast.world import Input, World


async def _listed(world: World, *, limit: int, labels: dict[str, str] | None = None) -> list[str]:
    names: list[str] = []
    page = await world.list(limit=limit, labels=labels)
    while True:
        assert len(page.sessions) <= limit
        names += [head.session for head in page.sessions]
        if page.next is None:
            return names
        page = await world.list(after=page.next, limit=limit, labels=labels)


@promise()
async def sessions_are_listed_newest_change_first(store: Store) -> None:
    async with store.open() as world:
        same((await world.list()).sessions, [])
        for number in range(7):
            await opened(world, f"s{number}")
        for limit in (1, 3, 7, 100):
            same(await _listed(world, limit=limit), ["s6", "s5", "s4", "s3", "s2", "s1", "s0"])
        lease = (await claimed(world, only="s2")).lease
        await sent(world, "s5", "in-1")
        await landed(world, lease, 3)
        same((await _listed(world, limit=3))[:3], ["s2", "s5", "s6"])
        [head, *_] = (await world.list(limit=1)).sessions
        same(head, await world.get("s2"))


@promise()
async def a_list_is_narrowed_by_labels(store: Store) -> None:
    async with store.open() as world:
        for number in range(6):
            labels = {"parity": str(number % 2), "half\x00": "low" if number < 3 else "high"}
            await world.create(f"s{number}", commit(1, 0), agent="coder", labels=labels)
        same(await _listed(world, limit=2, labels={"parity": "0"}), ["s4", "s2", "s0"])
        same(await _listed(world, limit=2, labels={"parity": "0", "half\x00": "low"}), ["s2", "s0"])
        same(await _listed(world, limit=2, labels={"parity": "7"}), [])
        same(await _listed(world, limit=2, labels={"other": "0"}), [])
        same((await world.get("s3")).labels, {"parity": "1", "half\x00": "high"})


@promise()
async def a_page_that_never_was_is_refused(store: Store) -> None:
    async with store.open() as world:
        with raises(BadPayload):
            await world.list(after="nonsense")


@promise()
async def an_erased_session_is_gone_and_its_id_stays_taken(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        await sent(world, "s", "in-1")
        await landed(world, lease, 3)
        await published(world, lease, 3, b"delta")
        await world.erase("s")
        await world.erase("s")
        is_a(await put(world, lease, commit(4, 1)), SessionErased)
        with raises(SessionErased):
            await world.get("s")
        with raises(SessionErased):
            await world.commits("s")
        with raises(SessionErased):
            await world.create("s", commit(1, 0), agent="coder")
        with raises(SessionErased):
            await world.commit_idle("s", commit(4, 1))
        with raises(SessionErased):
            await published(world, lease, 3, b"late")
        with raises(SessionErased):
            await read(world, "s", 1)
        await world.release(lease)


@promise()
async def an_erased_session_has_no_inbox_no_blobs_and_no_place_in_line(store: Store) -> None:
    async with store.open() as world:
        await opened(world)
        await world.put_input("s", Input("in-1", "d", b"body", refs=("h1",), blobs={"h1": b"bytes"}))
        await world.erase("s")
        with raises(SessionErased):
            await sent(world, "s", "in-1")
        with raises(SessionErased):
            await world.inputs("s")
        with raises(SessionErased):
            await world.find_input("s", "in-1")
        with raises(SessionErased):
            await world.get_many("s", ["h1"])
        same((await world.list()).sessions, [])
        same(await find_claim(world), None)
        same(await find_claim(world, only="s"), None)


@promise()
async def erasing_takes_the_bytes_that_nobody_else_names(store: Store) -> None:
    async with store.open() as world:
        blobs = {"both": b"shared", "one": b"alone"}
        await world.create("s1", commit(1, 0, blobs=blobs, refs=("both", "one")), agent="coder")
        await world.create("s2", commit(1, 0, refs=("both",)), agent="coder")
        await world.erase("s1")
        same(await world.get_many("s2", ["both"]), {"both": b"shared"})
        with raises(BlobUnknown):
            await world.create("s3", commit(1, 0, refs=("one",)), agent="coder")


@promise()
async def erasing_one_session_leaves_its_neighbours(store: Store) -> None:
    async with store.open() as world:
        leases = [await held(world, f"s{number}") for number in range(3)]
        for lease in leases:
            await sent(world, lease.session, "in-1")
            await landed(world, lease, 3)
            await published(world, lease, 3, b"delta")
        await world.erase("s1")
        for session in ("s0", "s2"):
            same(len(await world.commits(session)), 3)
            same(len(await world.inputs(session)), 1)
            same(len(await read(world, session, 4)), 4)
        same(await _listed(world, limit=10), ["s2", "s0"])


@promise()
async def blobs_are_read_by_the_sessions_that_name_them(store: Store) -> None:
    async with store.open() as world:
        await world.create("s1", commit(1, 0, blobs={"h1": b"bytes"}), agent="coder")
        await opened(world, "s2")
        same(await world.get_many("s1", ["h1"]), {"h1": b"bytes"})
        same(await world.get_many("s1", []), {})
        with raises(BlobUnknown):
            await world.get_many("s1", ["h1", "nowhere"])
        with raises(BlobUnknown):
            await world.get_many("s2", ["h1"])
        with raises(SessionUnknown):
            await world.get_many("nowhere", ["h1"])


@promise()
async def a_blob_given_again_keeps_its_first_bytes(store: Store) -> None:
    async with store.open() as world:
        lease = await held(world)
        same(await put(world, lease, commit(3, 1, blobs={"h1": b"bytes"})), None)
        same(await put(world, lease, commit(4, 1, blobs={"h1": b"packed otherwise"}, refs=("h1",))), None)
        same(await world.get_many("s", ["h1"]), {"h1": b"bytes"})


@promise()
async def commits_are_given_without_their_blobs(store: Store) -> None:
    async with store.open() as world:
        first = commit(1, 0, blobs={"h1": b"bytes"}, refs=("h1",))
        await world.create("s", first, agent="coder")
        same(await world.commits("s"), [replace(first, blobs={})])
        [item] = await read(world, "s", 1)
        same(item.what, replace(first, blobs={}))


@promise()
async def two_tenants_never_meet(store: Store) -> None:
    async with store.open() as world:
        ours, theirs = world.for_tenant("ours"), world.for_tenant("theirs")
        same((world.tenant, ours.tenant, theirs.tenant), ("default", "ours", "theirs"))
        await ours.create("s", commit(1, 0, b"ours", blobs={"h1": b"ours"}), agent="coder", labels={"a": "b"})
        with raises(SessionUnknown):
            await theirs.get("s")
        with raises(BlobUnknown):
            await theirs.create("s", commit(1, 0, refs=("h1",)), agent="coder")
        same(await theirs.create("s", commit(1, 0, b"theirs", blobs={"h1": b"theirs"}), agent="coder"), True)
        same(await ours.get_many("s", ["h1"]), {"h1": b"ours"})
        same(await theirs.get_many("s", ["h1"]), {"h1": b"theirs"})
        same([head.session for head in (await world.list()).sessions], [])
        same(len((await theirs.list()).sessions), 1)
        same((await theirs.list(labels={"a": "b"})).sessions, [])
        lease = (await claimed(theirs)).lease
        same(await find_claim(theirs), None)
        is_a(await put(world, lease, commit(3, 1)), SessionUnknown)
        same((await ours.get("s")).worker, None)
        await theirs.erase("s")
        same((await ours.commits("s"))[0].body, b"ours")
        same(await ours.get_many("s", ["h1"]), {"h1": b"ours"})


@promise()
async def a_worker_lives_for_every_tenant(store: Store) -> None:
    async with store.open() as world:
        ours = world.for_tenant("ours")
        await opened(ours)
        renew(world, "w1")
        assert await ours.claim(offer(), TAKEOVER) is not None
        same(await find_claim(ours, "w2"), None)


CASES: Final = tuple(there for there in list(globals().values()) if isinstance(there, Case))
