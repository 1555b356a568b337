"""What a directory may hold that no tree was made for: far times, forged names, files that are cut as they are read."""

import os
from pathlib import Path
from zlib import crc32

import anyio
import pytest

from outlast.clock import ManualClock
from outlast.drive import EMPTY_ROOT, Entry
from outlast.errors import WorkspaceError
from outlast.ids import blob_hash
from outlast.workspaces.drive import Drive, Edit, Folder
from outlast.workspaces.drive.building import Builder, as_directory, ends_run
from outlast.workspaces.drive.format import FILE, NOWHERE, PIECE, TIME_LIMIT, Item, parse_root, root_text
from outlast.workspaces.drive.packing import PackWriter
from outlast.workspaces.drive.scanning import Scanner, build
from outlast.workspaces.drive.statcache import Known
from tests.trees import MemoryPacks, look
from tests.unit.drive_desk import LATER, Desk

YEAR_2400_S = 13_569_465_600


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("second", [YEAR_2400_S, -YEAR_2400_S], ids=["far ahead", "long ago"])
async def test_times_beyond_what_is_kept_stand_at_the_last_that_is(desk: Desk, second: int) -> None:
    desk.write("d/file")
    (desk.at / "link").symlink_to("d")
    for path in ("d/file", "d", "link"):
        os.utime(desk.at / path, (second, second), follow_symlinks=False)
    far = (desk.at / "d" / "file").stat().st_mtime_ns
    await desk.keep()
    entries = [entry async for entry in Drive(desk.packs, "default").entries(desk.root)]
    assert {entry.mtime_ns for entry in entries} == {max(-TIME_LIMIT, min(far, TIME_LIMIT))}
    desk.renew()
    await Folder(desk.drive, desk.top / "other").restore(desk.root)
    assert (await Folder(desk.drive, desk.top / "other").checkpoint(desk.root)).root == desk.root
    assert (await desk.keep()).changed == []


def _names_of_hash_0(count: int) -> list[str]:
    """Names that differ in their beginnings, and whose crc32 is 0: it is linear, so the rest follows by elimination."""
    return [_rest(b"%d-" % number).decode() for number in range(count)]


def _rest(begins: bytes, letters: int = 40) -> bytes:
    plain = begins + b"a" * letters
    basis: dict[int, tuple[int, int]] = {}
    for place in range(letters):
        at = len(begins) + place
        value, which = crc32(plain[:at] + b"c" + plain[at + 1 :]) ^ crc32(plain), 1 << place
        while value and value.bit_length() in basis:
            known = basis[value.bit_length()]
            value, which = value ^ known[0], which ^ known[1]
        if value:
            basis[value.bit_length()] = (value, which)
    value, flips = crc32(plain), 0
    while value:
        known = basis[value.bit_length()]
        value, flips = value ^ known[0], flips ^ known[1]
    found = begins + bytes(b"c"[0] if flips >> place & 1 else b"a"[0] for place in range(letters))
    assert crc32(found) == 0
    return found


@pytest.mark.timeout(60)
async def test_names_that_end_a_run_on_every_level_make_a_tree_all_the_same(desk: Desk) -> None:
    names = _names_of_hash_0(50)
    assert all(ends_run(os.fsencode(name), level) for name in names for level in range(6))
    for name in names[1:]:
        desk.write(name, name.encode())
    await desk.keep()
    await Folder(desk.drive, desk.top / "other").restore(desk.root)
    assert look(desk.top / "other") == look(desk.at)
    changes = [Edit(names[0], Entry("", "file"), b"new"), Edit(names[1], None)]
    edited = desk.packs.land(desk.drive, await desk.drive.edit(desk.root, changes))
    found = [entry.path for entry in await Drive(desk.packs, "default").list(edited)]
    assert found == sorted([names[0], *names[2:]])


async def test_what_nobody_could_read_is_not_written() -> None:
    packs = MemoryPacks()
    builder = Builder(PackWriter(lambda data: blob_hash("default", data), packs.held.__setitem__), {}, {})
    digest = bytes(32)
    for wrong in (
        Item(FILE, b"n" * 256, 0o644, 0, 0, 1, digest, NOWHERE),
        Item(FILE, b"n", 0o644, TIME_LIMIT + 1, 0, 1, digest, NOWHERE),
        Item(FILE, b"n", 0o4755, 0, 0, 1, digest, NOWHERE),
        Item(FILE, b"a/b", 0o644, 0, 0, 1, digest, NOWHERE),
        as_directory(b"..", 0o755, 0, None),
    ):
        with pytest.raises(WorkspaceError, match="cannot be written down"):
            builder.directory([wrong])


async def test_a_large_file_that_is_cut_and_grows_while_it_is_read_can_be_read_back(tmp_path: Path) -> None:
    """On each look, the last one too: it is shorter when its second piece is read, and longer after that."""
    file = tmp_path / "work" / "file"
    file.parent.mkdir()
    packs = MemoryPacks()
    builder = Builder(PackWriter(lambda data: blob_hash("default", data), packs.held.__setitem__), {}, {})
    scanner = Scanner(Known(EMPTY_ROOT), builder, ManualClock(LATER))
    file.write_bytes(bytes(3 * PIECE))
    calls = 0

    def disturb() -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:  # before the second piece: one is left, and a bit
            os.truncate(file, PIECE + 7)
        else:
            os.truncate(file, 3 * PIECE)

    scanner.check = disturb
    fd = os.open(file.parent, os.O_RDONLY)
    try:
        span = await anyio.to_thread.run_sync(lambda: build(scanner.scan(fd), builder))
    finally:
        os.close(fd)
    builder.close()
    root = root_text(span)
    data = await Drive(packs, "default").read(root, "file")
    assert data == bytes(parse_root(root).size)
    assert scanner.found.dirs[b""][b"file"][0] is None


@pytest.mark.parametrize("why", ["no directory", "no room"])
async def test_a_cache_that_cannot_be_written_costs_nobody_a_checkpoint(
    desk: Desk, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, data: bytes) -> int:
        os.close(os.open(path, os.O_CREAT))
        raise OSError(28, "No space left on device")

    if why == "no directory":
        desk.cache.parent.write_bytes(b"a file is in the way")
    else:
        monkeypatch.setattr(Path, "write_bytes", no_room)
    (desk.at / "a").touch()
    for text in ("one", "two"):
        (desk.at / "a").write_text(text)
        assert (await desk.keep()).changed == ["a"]
        assert await desk.read("a") == text.encode()
    await desk.folder.restore(desk.root)
    desk.renew()
    assert (await desk.keep()).changed == []
    assert why != "no room" or list(desk.cache.parent.iterdir()) == []


async def test_a_large_tree_is_read_while_others_have_their_turns(desk: Desk) -> None:
    changes = [Edit(f"d/{number}", Entry("", "file"), b"") for number in range(20_000)]
    root = desk.packs.land(desk.drive, await desk.drive.edit(EMPTY_ROOT, changes))
    turns, drive = 0, Drive(desk.packs, "default")

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await drive.load(root)
        tasks.cancel_scope.cancel()
    assert turns > 2


@pytest.mark.parametrize("below", ["gone/x", "gone/x/y"])
async def test_what_is_removed_stays_so_though_what_was_never_below_it_is_removed_as_well(
    desk: Desk, below: str
) -> None:
    before = [Edit(path, Entry("", "file"), b"x") for path in ("gone", "stays")]
    root = desk.packs.land(desk.drive, await desk.drive.edit(EMPTY_ROOT, before))
    both = [Edit("gone", None), Edit(below, None), Edit("stays/x", None)]
    root = desk.packs.land(desk.drive, await desk.drive.edit(root, both))
    assert [entry.path async for entry in desk.drive.entries(root)] == ["stays"]
