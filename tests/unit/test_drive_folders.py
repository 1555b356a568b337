"""Directories that are written down while others work in them, and brought back over whatever is there."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast.clock import ManualClock
from outlast.drive import EMPTY_ROOT, Capture, Entry
from outlast.errors import PacksGone, WorkspaceError
from outlast.ids import blob_hash, content_hash
from outlast.workspaces.drive import Drive, Edit, Folder
from outlast.workspaces.drive.building import Builder
from outlast.workspaces.drive.format import PIECE, parse_root, root_text
from outlast.workspaces.drive.packing import PACK_BYTES, PackWriter
from outlast.workspaces.drive.scanning import Scanner, build
from outlast.workspaces.drive.statcache import Known, is_racy, load
from tests.trees import MemoryPacks, look
from tests.unit.drive_desk import LATER, Desk, packed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_small_change_is_one_small_pack(desk: Desk) -> None:
    for number in range(500):
        desk.write(f"d{number % 7}/f{number}", os.urandom(200))
    await desk.keep()
    desk.write("d3/f10", b"changed")
    capture = await desk.keep()
    assert capture.changed == ["d3/f10"]
    assert len(capture.packs) == 1
    assert packed(capture) < 8_000


async def test_nothing_changed_is_nothing_new(desk: Desk) -> None:
    desk.write("a")
    await desk.keep()
    assert await desk.keep() == Capture(desk.root, {}, [], left_out=[])


async def test_a_new_process_knows_what_the_last_one_knew(desk: Desk) -> None:
    for number in range(50):
        desk.write(f"f{number}", b"%d" % number)
    await desk.keep()
    desk.renew()
    desk.packs.asked.clear()
    desk.write("f7", b"new")
    capture = await desk.keep()
    assert capture.changed == ["f7"]
    assert desk.packs.asked == []  # not even the nodes were read


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty"])
async def test_a_cache_that_is_lost_is_made_again(desk: Desk, damage: str) -> None:
    desk.write("a", b"one")
    desk.write("d/b", b"two")
    await desk.keep()
    data = desk.cache.read_bytes()
    match damage:
        case "gone":
            desk.cache.unlink()
        case "cut":
            desk.cache.write_bytes(data[:-3])
        case "flipped":
            desk.cache.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
        case _:
            desk.cache.write_bytes(b"")
    desk.renew()
    desk.write("a", b"new")
    capture = await desk.keep()
    assert capture.changed == ["a"]
    assert packed(capture) < 1_000
    assert (await desk.read("a"), await desk.read("d/b")) == (b"new", b"two")


async def test_what_only_a_lost_commit_held_is_given_again(desk: Desk) -> None:
    desk.write("a", b"one")
    await desk.keep()
    desk.write("a", b"two")
    lost = await desk.folder.checkpoint(desk.root)
    assert lost.packs
    desk.renew()
    capture = await desk.keep()  # over the tree that the log has
    assert capture.root == lost.root
    assert capture.packs.keys() == lost.packs.keys()
    assert capture.changed == ["a"]
    assert await desk.read("a") == b"two"


async def test_packs_are_given_until_their_commit_is_durable(desk: Desk) -> None:
    desk.write("a", b"one")
    first = await desk.folder.checkpoint(EMPTY_ROOT)
    desk.write("b", b"two")
    second = await desk.folder.checkpoint(first.root)
    assert second.packs.keys() > first.packs.keys()
    assert (await desk.folder.checkpoint(second.root)).packs.keys() == second.packs.keys()
    desk.drive.captured(second.root)
    assert not (await desk.folder.checkpoint(second.root)).packs


async def test_a_file_written_twice_within_a_tick_is_read_twice(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.folder = Folder(desk.drive, desk.at, desk.cache)  # by the real clock
    for number in range(60):
        for word in (b"one", b"two"):
            desk.write("a", b"%s %d" % (word, number))
            os.utime(desk.at / "a", ns=(1, 1))  # as a program may that hides its change
            await desk.keep()
            assert await desk.read("a") == b"%s %d" % (word, number)


def test_a_stat_proves_nothing_within_a_tick_of_the_look() -> None:
    second = 1_000_000_000
    assert is_racy(100 * second + 5, 100 * second + 6)
    assert is_racy(100 * second + 5, 100 * second + 10_000_000)
    assert not is_racy(100 * second + 5, 100 * second + 50_000_000)
    assert is_racy(100 * second, 101 * second)  # a clock that keeps whole seconds
    assert not is_racy(100 * second, 103 * second)
    assert is_racy(200 * second + 1, 100 * second)  # a clock that is ahead of ours


async def test_stats_of_another_life_of_the_machine_prove_nothing(desk: Desk) -> None:
    desk.write("a", b"one")
    await desk.keep()
    known = load(desk.cache)
    assert known is not None
    assert known.dirs[b""][b"a"][0] is not None
    body = msgspec.msgpack.decode(desk.cache.read_bytes()[32:])
    body[2] = "another life"
    data = msgspec.msgpack.encode(body)
    desk.cache.write_bytes(content_hash(data) + data)
    known = load(desk.cache)
    assert known is not None
    assert known.dirs[b""][b"a"][0] is None


async def test_one_changed_piece_of_a_large_file_is_one_new_piece(desk: Desk) -> None:
    data = bytearray(os.urandom(5 * PIECE + 17))
    desk.write("big", bytes(data))
    await desk.keep()
    data[3 * PIECE + 5] ^= 1
    desk.write("big", bytes(data))
    capture = await desk.keep()
    assert PIECE < packed(capture) < PIECE + 5_000
    assert await desk.read("big") == data
    desk.renew()
    desk.cache.unlink()
    data += b"more"
    desk.write("big", bytes(data))
    capture = await desk.keep()
    assert packed(capture) < 5_000
    assert await desk.read("big") == data


async def test_a_moved_file_is_not_stored_again(desk: Desk) -> None:
    desk.write("a/file", os.urandom(100_000))
    await desk.keep()
    (desk.at / "b").mkdir()
    (desk.at / "a" / "file").rename(desk.at / "b" / "other")
    capture = await desk.keep()
    assert sorted(capture.changed) == ["a/file", "b", "b/other"]
    assert packed(capture) < 2_000


async def test_sockets_pipes_and_devices_are_left_out_and_said(desk: Desk) -> None:
    desk.write("file")
    os.mkfifo(desk.at / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(desk.at / "socket"))
        capture = await desk.keep()
    assert sorted(capture.left_out) == ["pipe: a pipe", "socket: a socket"]
    assert [entry.path async for entry in desk.drive.entries(desk.root)] == ["file"]


async def test_hard_links_come_back_as_files(desk: Desk, tmp_path: Path) -> None:
    desk.write("a", b"same")
    os.link(desk.at / "a", desk.at / "b")
    await desk.keep()
    outside = tmp_path / "outside"
    os.link(desk.at / "a", outside)
    desk.write("c")
    await Folder(desk.drive, desk.at).restore(desk.root)
    assert (desk.at / "a").stat().st_ino != outside.stat().st_ino  # which is not ours to change
    assert (desk.at / "a").read_bytes() == (desk.at / "b").read_bytes() == b"same"


def _scanner(top: Path) -> tuple[Scanner, Builder, MemoryPacks]:
    packs = MemoryPacks()
    builder = Builder(PackWriter(lambda data: blob_hash("default", data), packs.held.__setitem__), {}, {})
    return Scanner(Known(EMPTY_ROOT), builder, ManualClock(LATER)), builder, packs


def _scanned(scanner: Scanner, builder: Builder, top: Path) -> str:
    fd = os.open(top, os.O_RDONLY)
    try:
        span = build(scanner.scan(fd), builder)
    finally:
        os.close(fd)
    builder.close()
    return root_text(span)


async def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(bytes(3 * PIECE))
    scanner, builder, packs = _scanner(tmp_path)
    calls = 0

    def change() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:  # two pieces have been read
            file.write_bytes(b"1" * (2 * PIECE + 1))

    scanner.check = change
    root = _scanned(scanner, builder, tmp_path)
    assert await Drive(packs, "default").read(root, "big") == b"1" * (2 * PIECE + 1)
    assert scanner.found.dirs[b""][b"big"][0] is not None


async def test_a_file_that_never_stands_still_is_taken_as_it_was_and_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(bytes(2 * PIECE))
    scanner, builder, packs = _scanner(tmp_path)

    def grow() -> None:
        with file.open("ab") as log:
            log.write(b"line\n")

    scanner.check = grow
    root = _scanned(scanner, builder, tmp_path)
    data = await Drive(packs, "default").read(root, "log")
    assert file.read_bytes().startswith(data)
    assert scanner.found.dirs[b""][b"log"][0] is None


async def test_a_directory_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"the secret")
    top = tmp_path / "work"
    for number in range(10):
        (top / f"d{number}").mkdir(parents=True)
        (top / f"d{number}" / "secret").write_bytes(b"nothing")
    scanner, builder, packs = _scanner(top)
    calls = 0

    def swap() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            for path in top.iterdir():
                path.rename(tmp_path / f"gone-{path.name}")
                path.symlink_to(outside)

    scanner.check = swap
    root = _scanned(scanner, builder, top)
    drive = Drive(packs, "default")
    found = {entry.path async for entry in drive.entries(root) if entry.kind == "file"}
    assert len(found) == 1  # the one that was open already
    assert [await drive.read(root, path) for path in found] == [b"nothing"]


async def test_a_link_in_the_way_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"theirs")
    desk.write("d/a", b"ours")
    desk.write("f", b"ours")
    await desk.keep()
    (desk.at / "d" / "a").unlink()
    (desk.at / "d").rmdir()
    (desk.at / "d").symlink_to(outside)
    (desk.at / "f").unlink()
    (desk.at / "f").symlink_to(outside / "a")
    (desk.at / "extra").symlink_to(outside)
    desk.renew()
    await desk.folder.restore(desk.root)
    assert {path: thing.data for path, thing in look(desk.at).items()} == {
        b"d": b"",
        b"d/a": b"ours",
        b"f": b"ours",
    }
    assert [path.name for path in outside.iterdir()] == ["a"]
    assert (outside / "a").read_bytes() == b"theirs"


async def test_only_what_differs_is_written(desk: Desk) -> None:
    for number in range(20):
        desk.write(f"f{number}", b"%d" % number)
    await desk.keep()
    before = {path.name: path.stat().st_ino for path in desk.at.iterdir()}
    desk.write("f3", b"other")
    (desk.at / "f4").unlink()
    (desk.at / "f5").chmod(0o600)
    desk.renew()
    restored = await desk.folder.restore(desk.root)
    assert (restored.written, restored.removed, restored.entries) == (2, 0, 20)
    after = {path.name: path.stat().st_ino for path in desk.at.iterdir()}
    assert {name for name in before if before[name] != after[name]} <= {"f3", "f4"}
    assert (await desk.keep()).changed == []


async def test_a_change_that_hides_its_time_is_found_without_a_cache(desk: Desk) -> None:
    desk.write("a", b"one")
    await desk.keep()
    stat = (desk.at / "a").stat()
    desk.write("a", b"two")
    os.utime(desk.at / "a", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    await Folder(desk.drive, desk.at).restore(desk.root)
    assert (desk.at / "a").read_bytes() == b"one"


async def test_a_very_deep_directory_is_removed(desk: Desk) -> None:
    desk.write("a")
    await desk.keep()
    fd = os.open(desk.at, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    capture = await desk.folder.checkpoint(desk.root)
    assert "nested deeper" in capture.left_out[0]
    await desk.folder.restore(desk.root)
    assert look(desk.at).keys() == {b"a"}


async def test_what_is_skipped_is_neither_written_down_nor_touched(desk: Desk) -> None:
    desk.write("a")
    desk.write(".venv/lib", b"theirs")
    folder = Folder(desk.drive, desk.at, skips=lambda path: path.rpartition(b"/")[2] == b".venv")
    root = desk.packs.land(desk.drive, await folder.checkpoint(EMPTY_ROOT))
    assert [entry.path async for entry in desk.drive.entries(root)] == ["a"]
    desk.write("later/.venv/lib", b"theirs too")
    desk.write("later/file")
    await folder.restore(root)
    assert look(desk.at).keys() == {
        b"a",
        b".venv",
        b".venv/lib",
        b"later",
        b"later/.venv",
        b"later/.venv/lib",
    }


async def test_an_empty_tree_is_an_empty_directory(desk: Desk) -> None:
    assert (await desk.folder.checkpoint(EMPTY_ROOT)).root == EMPTY_ROOT
    desk.write("a")
    await desk.keep()
    await desk.folder.restore(EMPTY_ROOT)
    assert look(desk.at) == {}
    assert (await desk.keep()).root == EMPTY_ROOT


async def test_a_directory_that_is_not_there_is_said(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="cannot be written down"):
        await Folder(desk.drive, tmp_path / "nowhere").checkpoint(EMPTY_ROOT)


async def test_large_trees_are_handed_on_pack_by_pack(desk: Desk) -> None:
    puts: list[int] = []

    async def put(packs: Mapping[str, bytes]) -> None:
        puts.extend(map(len, packs.values()))
        desk.packs.held.update(packs)

    for number in range(24):
        desk.write(f"f{number}", os.urandom(PIECE))
    drive = Drive(desk.packs, "default", put=put)
    capture = await Folder(drive, desk.at).checkpoint(EMPTY_ROOT)
    assert not capture.packs
    assert max(puts) < PACK_BYTES + 2 * PIECE
    assert len(puts) >= 5
    await Folder(Drive(desk.packs, "default"), desk.top / "other").restore(capture.root)
    assert look(desk.top / "other") == look(desk.at)
    edited = await drive.edit(capture.root, [Edit("f0", Entry("", "file"), b"small")])
    assert not edited.packs
    assert parse_root(edited.root).place.pack in desk.packs.held


async def test_a_restore_without_its_packs_leaves_the_directory_as_it_was(desk: Desk) -> None:
    desk.write("a", b"one")
    await desk.keep()
    desk.write("a", b"two")
    desk.packs.held.clear()
    desk.renew()
    with pytest.raises(PacksGone):
        await desk.folder.restore(desk.root)
    assert (desk.at / "a").read_bytes() == b"two"


async def test_a_file_that_says_it_has_a_million_gigabytes_is_no_endless_read(desk: Desk) -> None:
    desk.write("a")
    with (desk.at / "hole").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(WorkspaceError, match="64 GB"):
        await desk.keep()
    (desk.at / "hole").unlink()
    await desk.keep()


async def test_a_checkpoint_that_nobody_waits_for_ends(desk: Desk) -> None:
    for number in range(40):
        desk.write(f"d{number}/f", os.urandom(300_000))

    async def put(packs: Mapping[str, bytes]) -> None:
        scope.cancel()

    with anyio.CancelScope() as scope:
        await Folder(Drive(desk.packs, "default", put=put), desk.at).checkpoint(EMPTY_ROOT)
    assert scope.cancelled_caught
    await desk.keep()
    assert await desk.read("d7/f") == (desk.at / "d7" / "f").read_bytes()
