"""A directory that was brought back is the directory that was written down, whatever was there before."""

import io
import os
import tarfile
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import ManualClock
from outlast.drive import EMPTY_ROOT, Entry
from outlast.workspaces.drive import Drive, Edit, Folder, to_tar
from outlast.workspaces.drive.format import parse_root
from outlast.workspaces.drive.remoting import RemoteFolder
from outlast.workspaces.drive.serving import DirectoryTree
from tests.trees import MemoryPacks, Thing, Tree, edits, look, make, pairs, trees


@asynccontextmanager
async def _two(one: Tree, other: Tree) -> AsyncGenerator[tuple[MemoryPacks, Path, str, str]]:
    """Two directories and the roots that they were written down as, the second over the first."""
    packs = MemoryPacks()
    drive = Drive(packs, "default")
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        make(top / "one", one)
        make(top / "other", other)
        first = packs.land(drive, await Folder(drive, top / "one").checkpoint(EMPTY_ROOT))
        second = packs.land(drive, await Folder(drive, top / "other").checkpoint(first))
        yield packs, top, first, second


@given(pair=pairs(), cached=st.booleans(), fresh=st.booleans())
async def test_what_was_there_before_leaves_no_trace(
    pair: tuple[Tree, Tree], *, cached: bool, fresh: bool
) -> None:
    async with _two(*pair) as (packs, top, first, second):
        assert look(top / "other") == pair[1]
        cache = top / "cache" if cached else None
        folder = Folder(Drive(packs, "default"), top / "one", cache)
        await folder.checkpoint(first)
        await (Folder(Drive(packs, "default"), top / "one", cache) if fresh else folder).restore(second)
        assert look(top / "one") == pair[1]
        again = await folder.checkpoint(second)
        assert (again.root, again.packs, again.changed) == (second, {}, [])


@given(pair=pairs())
async def test_a_comparison_says_each_difference_and_no_other(pair: tuple[Tree, Tree]) -> None:
    one, other = pair
    async with _two(one, other) as (packs, _, first, second):
        found = [change async for change in Drive(packs, "default").diff(first, second)]
    said = {change.path.encode("utf-8", "surrogateescape"): change for change in found}
    assert len(said) == len(found)
    assert said.keys() == {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}
    for path, change in said.items():
        assert (change.before is None, change.after is None) == (path not in one, path not in other)


@given(pair=pairs(), parts=st.integers(1, 4))
async def test_an_edit_is_a_checkpoint_of_the_edited_directory(pair: tuple[Tree, Tree], parts: int) -> None:
    async with _two(*pair) as (packs, _, first, second):
        drive, root = Drive(packs, "default"), first
        changes = edits(*pair)
        for number in range(parts):
            capture = await drive.edit(
                root, changes[number::parts] if parts == 1 else _part(changes, number, parts)
            )
            root = packs.land(drive, capture)
        assert parse_root(root).digest == parse_root(second).digest


def _part(changes: list[Edit], number: int, parts: int) -> list[Edit]:
    size = -(-len(changes) // parts)
    return changes[number * size : (number + 1) * size]


@given(tree=trees())
async def test_what_a_tree_says_of_itself_is_what_is_in_it(tree: Tree) -> None:
    async with _two(tree, {}) as (packs, _, first, second):
        drive = Drive(packs, "default")
        assert second == EMPTY_ROOT
        found = {entry.path.encode("utf-8", "surrogateescape"): entry async for entry in drive.entries(first)}
        assert found.keys() == tree.keys()
        for path, entry in found.items():
            assert _thing(entry, b"") == Thing(tree[path].kind, tree[path].mode, tree[path].mtime_ns)
            if entry.kind == "file":
                assert await drive.read(first, entry.path) == tree[path].data


def _thing(entry: Entry, data: bytes) -> Thing:
    return Thing(entry.kind, entry.mode, entry.mtime_ns, data)


@given(
    names=st.lists(st.integers(0, 3000), unique=True, min_size=1, max_size=300),
    gone=st.sets(st.integers(0, 3000)),
    come=st.sets(st.integers(0, 3000), max_size=40),
)
async def test_a_large_directory_is_cut_alike_whatever_was_done_to_get_there(
    names: list[int], gone: set[int], come: set[int]
) -> None:
    packs = MemoryPacks()
    drive = Drive(packs, "default")

    def put(number: int) -> Edit:
        return Edit(f"{number:04}", Entry("", "file"), str(number).encode())

    root = packs.land(drive, await drive.edit(EMPTY_ROOT, [put(number) for number in names]))
    changes = [*(Edit(f"{number:04}", None) for number in gone), *map(put, come)]
    changed = packs.land(drive, await drive.edit(root, changes))
    want = (set(names) - gone) | come
    straight = packs.land(drive, await drive.edit(EMPTY_ROOT, [put(number) for number in sorted(want)]))
    assert parse_root(changed).digest == parse_root(straight).digest
    assert [entry.path async for entry in drive.entries(changed)] == [
        f"{number:04}" for number in sorted(want)
    ]


@given(tree=trees())
async def test_an_archive_holds_what_the_tree_does(tree: Tree) -> None:
    async with _two(tree, {}) as (packs, _top, first, _):
        data = b"".join([piece async for piece in to_tar(Drive(packs, "default"), first)])
        with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape", encoding="utf-8") as archive:
            members = {os.fsencode(member.name): member for member in archive}
            assert members.keys() == tree.keys()
            for path, member in members.items():
                thing = tree[path]
                assert abs(member.mtime - thing.mtime_ns / 1e9) < 1e-3
                if thing.kind == "file":
                    read = archive.extractfile(member)
                    assert read is not None
                    assert (read.read(), member.mode) == (thing.data, thing.mode)
                elif thing.kind == "link":
                    assert os.fsencode(member.linkname) == thing.data
                else:
                    assert (member.isdir(), member.mode) == (True, thing.mode)


@given(pair=pairs())
async def test_a_remote_directory_is_as_one_that_is_here(pair: tuple[Tree, Tree]) -> None:
    async with _two(*pair) as (packs, top, first, second):
        drive, tree = Drive(packs, "default"), DirectoryTree(str(top / "one"), ManualClock(2e9))
        folder = RemoteFolder(drive, tree, top / "cache")
        capture = await folder.checkpoint(EMPTY_ROOT)
        assert parse_root(capture.root).digest == parse_root(first).digest
        root = packs.land(drive, capture)
        assert (await folder.checkpoint(root)).root == root
        assert folder.asked == sum(thing.kind == "file" for thing in pair[0].values())  # each once
        await RemoteFolder(drive, tree, top / "cache").restore(second)
        assert look(top / "one") == pair[1]
        again = await RemoteFolder(drive, tree, top / "cache").checkpoint(second)
        assert (again.root, again.packs, again.changed) == (second, {}, [])
