"""Stores of packs in which something is not as we left it."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from outlast.drive import EMPTY_ROOT, Entry
from outlast.errors import Fenced, WorkspaceError
from outlast.ids import blob_hash
from outlast.workspaces.drive import Drive, Edit
from outlast.workspaces.drive.collecting import Reach
from outlast.workspaces.drive.stores import StoredPacks, directory, open_store
from tests.trees import MemoryPacks

PACKS = {blob_hash("default", b"a"): b"a"}


async def test_what_others_put_beside_the_packs_is_nobody_s_pack_and_no_claim(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    await store.claim("s", 3)
    await store.put_many(PACKS, session="s", fence=3)
    top = tmp_path / b"default".hex()
    for name in ("packs/README", "packs/ff", "packs/zz/.DS_Store", "fences/s/NOTE", "fences/s/²"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_bytes(b"not ours")
    assert await store.names() == list(PACKS)
    with pytest.raises(Fenced):
        await store.claim("s", 2)
    await store.claim("s", 4)
    assert (top / "fences/s/NOTE").exists()


async def test_claims_that_cannot_be_listed_let_nobody_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    await store.claim("s", 3)
    scandir = os.scandir

    def refused(path: str | Path) -> object:
        if "fences" in str(path):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(WorkspaceError, match="Permission denied"):
        await store.put_many(PACKS, session="s", fence=1)
    with pytest.raises(WorkspaceError, match="Permission denied"):
        await store.claim("s", 2)


async def test_a_pack_is_durable_with_every_directory_that_was_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And also where another put it, who may have died before its name was on the disk."""
    flushed: list[Path] = []
    flush = directory._flush  # pyright: ignore[reportPrivateUsage] - what reaches the disk shows in nothing else

    def noted(at: Path) -> None:
        flushed.append(at)
        flush(at)

    monkeypatch.setattr(directory, "_flush", noted)
    store = open_store(str(tmp_path / "the" / "store"))
    (name,) = PACKS
    key = Path(b"default".hex(), "packs", name.encode().hex()[-2:])
    await store.put_many(PACKS, session="s", fence=1)
    above = [tmp_path / "the" / "store" / key, *(tmp_path / "the" / "store" / key).parents]
    assert flushed == above[: above.index(tmp_path) + 1]
    flushed.clear()
    await store.put_many(PACKS, session="s", fence=1)
    assert flushed == [tmp_path / "the" / "store" / key]


class _Counted:
    """Packs that say how often each was read."""

    def __init__(self, packs: MemoryPacks) -> None:
        self._packs = packs
        self.asked: list[str] = []

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self.asked += names
        return await self._packs.get_many(names)


async def test_what_many_trees_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of it can be kept at hand."""
    packs = MemoryPacks()
    drive = Drive(packs, "default")
    root, roots = EMPTY_ROOT, list[str]()
    for number in range(40):
        edit = Edit(f"d{number:02}/{number}", Entry("", "file"), os.urandom(2_000))
        root = packs.land(drive, await drive.edit(root, [edit]))
        roots.append(root)
    monkeypatch.setattr("outlast.workspaces.drive.reading._PACKS_KEPT", 1)
    monkeypatch.setattr("outlast.workspaces.drive.reading._ITEMS_KEPT", 1)
    counted = _Counted(packs)
    reach = Reach(Drive(counted, "default").reader)
    for one in roots:
        await reach.add(one)
    assert reach.packs.keys() == packs.held.keys()
    assert len(counted.asked) <= 3 * len(roots)


async def test_a_store_without_anything_holds_nothing(tmp_path: Path) -> None:
    async def listed(store: StoredPacks) -> AsyncIterator[str]:
        for name in await store.names():
            yield name

    assert [name async for name in listed(open_store(str(tmp_path / "nowhere")))] == []
