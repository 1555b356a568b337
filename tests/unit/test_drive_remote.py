"""Directories on other machines, and machines that lie."""

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from outlast.clock import ManualClock
from outlast.drive import EMPTY_ROOT
from outlast.errors import OutlastError, WorkspaceError
from outlast.workspaces.drive.format import PIECE
from outlast.workspaces.drive.remote import Chunk, Scan, Seen
from outlast.workspaces.drive.remoting import RemoteFolder
from outlast.workspaces.drive.serving import DirectoryTree
from tests.trees import look
from tests.unit.drive_desk import LATER, Desk, packed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_large_remote_file_travels_in_pieces_and_one_of_them_is_new(desk: Desk) -> None:
    data = bytearray(os.urandom(3 * PIECE))
    desk.write("big", bytes(data))
    desk.write("one", bytes(data[:PIECE]))
    tree = DirectoryTree(str(desk.at), ManualClock(LATER))
    folder = RemoteFolder(desk.drive, tree)
    desk.root = desk.packs.land(desk.drive, await folder.checkpoint(EMPTY_ROOT))
    data[PIECE + 3] ^= 1
    desk.write("big", bytes(data))
    capture = await folder.checkpoint(desk.root)
    desk.root = desk.packs.land(desk.drive, capture)
    assert PIECE < packed(capture) < PIECE + 5_000
    assert capture.changed == ["big"]
    there = DirectoryTree(str(desk.top / "there"))
    (desk.top / "there").mkdir()
    await RemoteFolder(desk.drive, there).restore(desk.root)
    assert look(desk.top / "there") == look(desk.at)


class _Liar(DirectoryTree):
    """A machine that says what it likes."""

    says: Sequence[Seen] = ()
    gives: Sequence[Chunk] = ()

    async def scan(self) -> Scan:
        return Scan(0, self.says)

    async def read(self, paths: Sequence[bytes]) -> AsyncGenerator[Chunk]:
        for chunk in self.gives:
            yield chunk


@pytest.mark.parametrize(
    "path", [b"../x", b"/etc/passwd", b"a/../b", b"a//b", b"nowhere/x", b"f/x", b"", b"n" * 300]
)
async def test_a_machine_that_names_what_it_cannot_have_is_refused(desk: Desk, path: bytes) -> None:
    liar = _Liar(str(desk.at))
    liar.says = [Seen(b"f", "file"), Seen(path, "file")]
    with pytest.raises(OutlastError, match=r"cannot have|no path|longer name"):
        await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT)
    liar.says, liar.gives = [Seen(b"f", "file")], [Chunk(b"g", b"x", Seen(b"g", "file"))]
    with pytest.raises(WorkspaceError, match="not asked for"):
        await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT)


async def test_a_link_to_nowhere_and_a_time_beyond_all_times_are_no_crash(desk: Desk) -> None:
    liar = _Liar(str(desk.at))
    for target in (b"", b"x" * 5000, b"a\0b"):
        liar.says = [Seen(b"l", "link", target=target)]
        with pytest.raises(WorkspaceError, match="cannot have"):
            await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT)
    liar.says = [Seen(b"d", "dir", 0o755, 1 << 80)]
    root = desk.packs.land(desk.drive, await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT))
    assert [entry.mtime_ns async for entry in desk.drive.entries(root)] == [(1 << 63) - 1]


async def test_parts_that_make_no_file_are_refused(desk: Desk) -> None:
    liar = _Liar(str(desk.at))
    liar.says = [Seen(b"f", "file"), Seen(b"g", "file")]
    end = Seen(b"g", "file")
    for gives in (
        [Chunk(b"f", b"x" * PIECE), Chunk(b"g", b"x", end)],  # the beginning of one, and the end of another
        [Chunk(b"f", b"x" * (PIECE + 1), end)],
        [Chunk(b"g", b"x", end), Chunk(b"g", b"y", end)],  # twice
    ):
        liar.gives = gives
        with pytest.raises(WorkspaceError, match=r"make no file|not asked for"):
            await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT)


async def test_files_that_are_not_given_are_in_no_tree_and_said(desk: Desk) -> None:
    """They are gone by then, or may not be read: whoever wonders finds their names."""
    liar = _Liar(str(desk.at))
    liar.says = [Seen(b"f", "file"), Seen(b"g", "file", size=1)]
    liar.gives = [Chunk(b"g", b"x", Seen(b"g", "file", size=1))]
    capture = await RemoteFolder(desk.drive, liar).checkpoint(EMPTY_ROOT)
    root = desk.packs.land(desk.drive, capture)
    assert capture.left_out == ["f: gone meanwhile, or may not be read"]
    assert [entry.path async for entry in desk.drive.entries(root)] == ["g"]
