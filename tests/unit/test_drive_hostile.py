"""Packs that are cut, flipped or forged are an error: never a crash, an endless loop or a path outside."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.drive import EMPTY_ROOT, Entry
from outlast.errors import BadInput, PacksBroken, PacksGone, PacksTooNew, WorkspaceError
from outlast.ids import blob_hash, content_hash
from outlast.workspaces.drive import Drive, Edit, Folder
from outlast.workspaces.drive.building import Builder, as_directory
from outlast.workspaces.drive.format import (
    DEPTH_LIMIT,
    DIR,
    FILE,
    LINK,
    NOWHERE,
    Item,
    Place,
    encode_node,
    node_digest,
    parse_root,
    root_text,
)
from outlast.workspaces.drive.packing import PackWriter, zstd
from tests.trees import MemoryPacks


class _Forge:
    """Makes packs that no outlast would."""

    def __init__(self) -> None:
        self.packs = MemoryPacks()
        self.writer = PackWriter(self._name, self.packs.held.__setitem__)
        self.builder = Builder(self.writer, {}, {})

    def _name(self, data: bytes) -> str:
        return blob_hash("default", data)

    def file(self, name: bytes, data: bytes = b"x") -> Item:
        return Item(
            FILE,
            name,
            0o644,
            0,
            len(data),
            1,
            content_hash(data),
            self.builder.content(content_hash(data), data),
        )

    def node(self, *items: Item, level: int = 0) -> Item:
        """As a builder does it, who looks at nothing."""
        size = sum(item.size for item in items if item.kind != LINK)
        place = self.writer.add(encode_node(level, items))
        count = sum(item.entries for item in items)
        return Item(3, items[-1].name, 0, 0, size, count, node_digest(level, items), place)

    def root(self, span: Item) -> str:
        self.writer.close()
        return root_text(span)


async def _read_all(packs: MemoryPacks, root: str, directory: Path) -> None:
    drive = Drive(packs, "default")
    async for entry in drive.entries(root):
        if entry.kind == "file":
            await drive.read(root, entry.path)
    await Folder(Drive(packs, "default"), directory).restore(root)


async def _refused(forge: _Forge, span: Item, directory: Path, match: str) -> None:
    with pytest.raises(PacksBroken, match=match):
        await _read_all(forge.packs, forge.root(span), directory)
    with pytest.raises(PacksBroken, match=match):
        await Folder(Drive(forge.packs, "default"), directory).restore(forge.root(span))
    assert not directory.exists() or not list(directory.iterdir())


@pytest.mark.parametrize("name", [b"..", b".", b"a/b", b"/etc/passwd", b"a\0b", b"../x"])
async def test_no_name_leads_out_of_the_directory(name: bytes, tmp_path: Path) -> None:
    forge = _Forge()
    await _refused(forge, forge.node(forge.file(name)), tmp_path / "in" / "it", "no name of a file")
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["in"])


async def test_names_stand_once_and_in_order(tmp_path: Path) -> None:
    forge = _Forge()
    await _refused(forge, forge.node(forge.file(b"b"), forge.file(b"a")), tmp_path / "a", "not in order")
    forge = _Forge()
    twice = forge.node(forge.file(b"a"), forge.file(b"a"))
    await _refused(forge, twice, tmp_path / "b", "not in order")
    forge = _Forge()
    runs = forge.node(forge.node(forge.file(b"b")), forge.node(forge.file(b"c")), level=1)
    other = forge.node(forge.node(forge.file(b"a"), forge.file(b"c"))._replace(name=b"d"), level=1)
    assert runs.digest != other.digest
    await _refused(forge, other, tmp_path / "c", "not where it belongs")


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 0o4755},
        {"digest": b"short"},
        {"entries": 2},
        {"place": NOWHERE},
        {"kind": 3},
        {"kind": 9},
        {"size": -1},
        {"mtime_ns": 1 << 70},
        {"name": b"n" * 256},
        {"kind": LINK},
        {"kind": LINK, "digest": b"x" * 5000},
        {"kind": DIR},
    ],
)
async def test_a_line_that_no_outlast_writes_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    forge = _Forge()
    try:
        span = forge.node(forge.file(b"a")._replace(**change))
    except OverflowError:  # what msgpack cannot even say
        return
    await _refused(forge, span, tmp_path / "d", "cannot be read back")


async def test_a_few_nodes_cannot_pretend_to_be_a_small_tree(tmp_path: Path) -> None:
    """Ten names for one directory, thirty times over one another: 10^30 entries in 31 nodes."""
    forge = _Forge()
    span = forge.node(forge.file(b"a"))
    for _ in range(30):
        below = [as_directory(b"%d" % number, 0o755, 0, span) for number in range(10)]
        span = Item(*forge.node(*[one._replace(entries=2, size=1) for one in below]))
    await _refused(forge, span._replace(entries=20, size=10), tmp_path / "d", "does not hold what is said")
    honest = _Forge()
    span = honest.node(honest.file(b"a"))
    for _ in range(9):
        span = honest.node(*[as_directory(b"%d" % number, 0o755, 0, span) for number in range(10)])
    with pytest.raises(PacksBroken, match="entries, more than"):
        await _read_all(honest.packs, honest.root(span), tmp_path / "e")


async def test_directories_do_not_nest_for_ever(tmp_path: Path) -> None:
    forge = _Forge()
    span = forge.node(forge.file(b"a"))
    for _ in range(DEPTH_LIMIT + 5):
        span = forge.node(as_directory(b"d", 0o755, 0, span))
    await _refused(forge, span, tmp_path / "d", "nested deeper")


async def test_a_node_that_names_itself_is_refused(tmp_path: Path) -> None:
    forge = _Forge()
    inner = Item(DIR, b"a", 0o755, 0, 0, 2, b"\1" * 32, Place("", 4, 10))
    data = encode_node(0, [inner])
    place = forge.writer.add(data)
    span = Item(3, b"a", 0, 0, 0, 2, node_digest(0, [inner]), place)
    await _refused(forge, span, tmp_path / "d", "cannot be read back")


async def test_a_frame_that_swells_is_cut_off_in_time(tmp_path: Path) -> None:
    swollen = zstd.compress(bytes(1 << 28), 19)
    packs = MemoryPacks()
    pack = b"OLP1\1" + swollen
    name = blob_hash("default", pack)
    packs.held[name] = pack
    root = root_text(Item(3, b"a", 0, 0, 0, 1, b"\2" * 32, Place(name, 4, len(swollen) + 1)))
    began = time.monotonic()
    with pytest.raises(PacksBroken, match="larger"):
        await _read_all(packs, root, tmp_path / "d")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "root",
    [
        "x",
        "1",
        "1.zz.p.4.5.1.1",
        "1." + "0" * 64 + ".p.4.5.1",
        "1." + "0" * 64 + ".p.-4.5.1.1",
        "0.a",
        ".",
        "².",
        "1." + "0" * 64 + "..4.5.1.1",
        "1." + "0" * 64 + ".p.4.5.99999999999.1",
        "1." + "0" * 64 + ".p.4.5.٣.1",
    ],
)
async def test_what_is_no_root_is_refused(root: str, tmp_path: Path) -> None:
    with pytest.raises(PacksBroken):
        await _read_all(MemoryPacks(), root, tmp_path / "d")


async def test_a_root_of_a_newer_outlast_says_so(tmp_path: Path) -> None:
    with pytest.raises(PacksTooNew, match="upgrade"):
        await _read_all(MemoryPacks(), "2.whatever", tmp_path / "d")


@given(at=st.floats(0, 1), bit=st.integers(0, 7), cut=st.booleans())
async def test_a_flipped_bit_is_noticed_or_matters_to_nothing(at: float, bit: int, *, cut: bool) -> None:
    packs = MemoryPacks()
    drive = Drive(packs, "default")
    files = {f"d{number % 3}/f{number}": b"content %d " % number * (number % 40) for number in range(60)}
    edits = [Edit(path, Entry("", "file"), data) for path, data in files.items()]
    root = packs.land(drive, await drive.edit(EMPTY_ROOT, edits))
    (name,) = packs.held
    pack = bytearray(packs.held[name])
    place = int(at * (len(pack) - 1))
    pack[place] ^= 1 << bit
    packs.held[name] = bytes(pack[:place] if cut else pack)
    fresh = Drive(packs, "default")
    try:
        found = {entry.path async for entry in fresh.entries(root) if entry.kind == "file"}
        read = {path: await fresh.read(root, path) for path in found}
    except PacksBroken:
        return
    assert read == files


async def test_packs_that_are_gone_are_named(tmp_path: Path) -> None:
    packs = MemoryPacks()
    drive = Drive(packs, "default")
    root = packs.land(drive, await drive.edit(EMPTY_ROOT, [Edit("a", Entry("", "file"), b"x")]))
    (name,) = packs.held
    packs.held.clear()
    with pytest.raises(PacksGone, match=name):
        await _read_all(packs, root, tmp_path / "d")


@pytest.mark.parametrize(
    "path", ["..", "a/../b", "/etc/passwd", "", "a\0b", "n" * 256, "/".join(["d"] * 300), "\ud800"]
)
async def test_an_edit_of_a_path_outside_is_refused(path: str) -> None:
    with pytest.raises(BadInput):
        await Drive(MemoryPacks(), "default").edit(EMPTY_ROOT, [Edit(path, Entry("", "file"), b"x")])


def test_a_root_says_what_it_is() -> None:
    span = Item(3, b"a", 0, 0, 7, 3, b"\2" * 32, Place("p-_A", 4, 9))
    top = parse_root(root_text(span))
    assert (top.digest, top.size, top.entries, str(top.place)) == (span.digest, 7, 4, "p-_A[4:+9]")
    assert root_text(None) == EMPTY_ROOT


async def test_names_that_never_end_a_run_are_refused_before_they_are_written(tmp_path: Path) -> None:
    """Whoever may choose names can make a node of any size: one that could not be read back must not be written."""
    forge = _Forge()
    long = [Item(LINK, b"n%07d" % number, 0, 0, 4000, 1, b"t" * 4000, NOWHERE) for number in range(17_000)]
    with pytest.raises(WorkspaceError, match="cannot be written down"):
        forge.builder.node(0, long)
    assert not forge.packs.held
