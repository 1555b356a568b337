"""Packs in stores of their own: a directory, a bucket."""

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from pathlib import Path

import pytest

from outlast.clock import ManualClock, SystemClock
from outlast.drive import EMPTY_ROOT, Entry, PackStore
from outlast.errors import BadInput, Fenced, PacksBroken, PacksGone, WorkspaceError
from outlast.ids import blob_hash
from outlast.workspaces.drive import Drive, Edit
from outlast.workspaces.drive.collecting import collect
from outlast.workspaces.drive.format import parse_root
from outlast.workspaces.drive.stores import DirectoryObjects, StoredPacks, open_store
from tests.servers.s3 import s3_server


@pytest.fixture(params=["directory", "memory", pytest.param("s3", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[StoredPacks]:
    match request.param:
        case "directory":
            yield open_store(str(tmp_path / "store"))
        case "memory":
            yield open_store("memory:///")
        case _:
            with s3_server() as url:
                yield open_store(url)


def _packs(*texts: str) -> dict[str, bytes]:
    return {blob_hash("default", text.encode()): text.encode() for text in texts}


async def test_what_was_put_is_read_back(store: StoredPacks) -> None:
    packs = _packs(*map(str, range(20)))
    await store.claim("s", 1)
    await store.put_many(packs, session="s", fence=1)
    await store.put_many(packs, session="s", fence=1)  # as when the answer was lost
    assert await store.get_many(list(packs)) == packs
    assert sorted(await store.names()) == sorted(packs)
    assert await store.names(older_s=3600) == []
    (gone, *_) = packs
    await store.remove([gone, gone, *_packs("never there")])
    with pytest.raises(PacksGone, match=gone):
        await store.get_many(list(packs))


async def test_a_stale_fence_puts_nothing(store: StoredPacks) -> None:
    await store.claim("s", 1)
    await store.claim("s", 3)
    await store.claim("s", 3)
    await store.claim("other", 2)
    with pytest.raises(Fenced):
        await store.put_many(_packs("a"), session="s", fence=1)
    with pytest.raises(Fenced):
        await store.claim("s", 2)
    assert await store.names() == []
    await store.put_many(_packs("a"), session="s", fence=3)
    await store.put_many(_packs("b"), session="other", fence=2)
    assert len(await store.names()) == 2


async def test_a_pack_that_was_changed_in_its_store_is_refused(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/the%20store")
    await store.put_many(_packs("a"), session="s", fence=1)
    (file,) = (path for path in (tmp_path / "the store").rglob("*") if path.is_file())
    file.write_bytes(b"b")
    with pytest.raises(PacksBroken, match="not what its name says"):
        await store.get_many(list(_packs("a")))


async def test_tenants_do_not_meet(tmp_path: Path) -> None:
    one, other = open_store(str(tmp_path), "one"), open_store(str(tmp_path), "other")
    await one.put_many({blob_hash("one", b"a"): b"a"}, session="s", fence=1)
    assert await other.names() == []
    await other.put_many({blob_hash("other", b"a"): b"a"}, session="s", fence=1)
    await other.claim("s", 7)
    await one.claim("s", 2)


@pytest.mark.parametrize("url", ["relative/path", "", "file://host/path", "what://is/this", "s3:///"])
def test_what_names_no_store_is_said(url: str) -> None:
    with pytest.raises(BadInput, match="store"):
        open_store(url)


async def test_a_session_that_cannot_name_its_claims_is_refused(tmp_path: Path) -> None:
    for session in ("../x", "", "A"):
        with pytest.raises(BadInput):
            await open_store(str(tmp_path)).claim(session, 1)


async def test_a_store_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file is in the way")
    store = open_store(str(tmp_path / "store"))
    with pytest.raises(WorkspaceError, match="cannot be used"):
        await store.put_many(_packs("a"), session="s", fence=1)


async def test_what_a_dead_writer_left_is_no_pack_and_goes(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now())
    store = StoredPacks(DirectoryObjects(tmp_path, clock), "default")
    await store.put_many(_packs("a"), session="s", fence=1)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    left = file.with_name(".new-pack-left")
    left.write_bytes(b"half")
    assert await store.names() == list(_packs("a"))
    assert left.exists()
    clock.turn(200_000)
    assert await store.names() == list(_packs("a"))
    assert not left.exists()


class _Desk:
    """Trees in a store whose clock is turned."""

    def __init__(self, top: Path) -> None:
        self.clock = ManualClock(SystemClock().now())
        self.store = StoredPacks(DirectoryObjects(top, self.clock), "default")
        self.drive = self.fresh()

    def fresh(self) -> Drive:
        return Drive(self.store, "default", put=self._put)

    async def _put(self, packs: Mapping[str, bytes]) -> None:
        await self.store.put_many(packs, session="s", fence=1)

    async def edit(self, root: str, **files: bytes) -> str:
        capture = await self.drive.edit(
            root, [Edit(path, Entry("", "file"), data) for path, data in files.items()]
        )
        assert not capture.packs
        return capture.root

    async def collect(self, *roots: str) -> tuple[int, int]:
        async def read() -> AsyncIterator[str]:
            for root in roots:
                yield root

        found = await collect(self.store, read())
        return found.reached, found.removed


async def _read(drive: Drive, root: str) -> dict[str, bytes]:
    return {entry.path: data async for entry, data in drive.contents(root)}


async def test_a_collection_removes_what_no_root_leads_to(tmp_path: Path) -> None:
    desk = _Desk(tmp_path)
    first = await desk.edit(EMPTY_ROOT, a=b"one", b=b"stays")
    second = await desk.edit(first, a=b"two")
    lost = await desk.edit(second, a=b"three")
    assert await desk.collect(second) == (2, 0)  # all are young
    desk.clock.turn(100_000)
    assert await desk.collect(second) == (2, 1)
    assert await _read(desk.fresh(), second) == {"a": b"two", "b": b"stays"}
    assert await _read(desk.fresh(), first) == {"a": b"one", "b": b"stays"}
    with pytest.raises(PacksGone):
        await _read(desk.fresh(), lost)
    assert await desk.collect() == (0, 2)


async def test_a_collection_that_cannot_read_a_tree_removes_nothing(tmp_path: Path) -> None:
    desk = _Desk(tmp_path)
    root = await desk.edit(EMPTY_ROOT, a=b"one")
    await desk.edit(root, a=b"two")
    desk.clock.turn(100_000)
    missing = root.replace(parse_root(root).place.pack, "x" * 22)
    with pytest.raises(PacksGone):
        await desk.collect(root, missing)
    assert len(await desk.store.names()) == 2


async def test_what_is_put_beside_a_collection_stays(tmp_path: Path) -> None:
    """The same files as once before, in packs that are old and that nothing leads to, while those are collected."""
    desk = _Desk(tmp_path)
    await desk.edit(EMPTY_ROOT, a=b"one")
    desk.clock.turn(100_000)

    class Beside:
        """The store, in which something is put after it was listed."""

        root = ""

        async def names(self, *, older_s: float = 0.0) -> Sequence[str]:
            found = await desk.store.names(older_s=older_s)
            self.root = await desk.edit(EMPTY_ROOT, a=b"one")
            return found

        def __getattr__(self, name: str) -> object:
            return getattr(desk.store, name)

    beside = Beside()

    async def none() -> AsyncIterator[str]:
        for root in ():
            yield root

    store: PackStore = beside  # pyright: ignore[reportAssignmentType] - the rest is handed on
    assert (await collect(store, none())).removed == 1
    assert await _read(desk.fresh(), beside.root) == {"a": b"one"}
