"""Directories for tests of drives: made from a description, and read back without any code of ours."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from outlast.drive import Capture, Entry
from outlast.errors import PacksGone
from outlast.workspaces.drive import Drive, Edit


@dataclass(frozen=True)
class Thing:
    """What stands at a path."""

    kind: Literal["file", "link", "dir"]
    mode: int = 0o644
    mtime_ns: int = 1_700_000_000_123_456_789
    data: bytes = b""
    """The content of a file, the target of a link."""


Tree: TypeAlias = Mapping[bytes, Thing]


class MemoryPacks:
    """Packs as a World would hold them."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.asked: list[str] = []

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self.asked += names
        if gone := [name for name in names if name not in self.held]:
            raise PacksGone(count=len(gone), where="memory", names=", ".join(gone))
        return {name: self.held[name] for name in names}

    def land(self, drive: Drive, capture: Capture) -> str:
        """The commit that holds this capture is durable."""
        self.held.update(capture.packs)
        drive.captured(capture.root)
        return capture.root


def make(directory: Path, tree: Tree) -> None:
    """Put a tree into an empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in sorted(tree):
        at, thing = directory / os.fsdecode(path), tree[path]
        if thing.kind == "dir":
            at.mkdir()
        elif thing.kind == "link":
            at.symlink_to(os.fsdecode(thing.data))
        else:
            at.write_bytes(thing.data)
            at.chmod(thing.mode)
    for path in sorted(tree, reverse=True):
        at, thing = directory / os.fsdecode(path), tree[path]
        if thing.kind == "dir":
            at.chmod(thing.mode)
        os.utime(at, ns=(thing.mtime_ns, thing.mtime_ns), follow_symlinks=False)


def look(directory: Path) -> Tree:
    """What is in a directory."""
    found: dict[bytes, Thing] = {}
    for where, dirs, files in os.walk(directory):
        for name in (*dirs, *files):
            at = Path(where) / name
            stat, path = at.lstat(), os.fsencode(at.relative_to(directory))
            if at.is_symlink():
                found[path] = Thing("link", 0o777, stat.st_mtime_ns, os.fsencode(at.readlink()))
            elif at.is_dir():
                found[path] = Thing("dir", stat.st_mode & 0o7777, stat.st_mtime_ns)
            else:
                found[path] = Thing("file", stat.st_mode & 0o7777, stat.st_mtime_ns, at.read_bytes())
    return found


def clear(directory: Path) -> None:
    """Leave nothing of it."""
    shutil.rmtree(directory, ignore_errors=True)


def edits(before: Tree, after: Tree) -> list[Edit]:
    """The changes that make one tree the other, as somebody would give them who knows both."""
    gone = [Edit(os.fsdecode(path), None) for path in before if path not in after]
    come = [
        Edit(
            os.fsdecode(path),
            Entry("", thing.kind, thing.mode, mtime_ns=thing.mtime_ns, target=_target(thing)),
            thing.data if thing.kind == "file" else None,
        )
        for path, thing in after.items()
        if before.get(path) != thing
    ]
    return [*gone, *come]


def _target(thing: Thing) -> str:
    return os.fsdecode(thing.data) if thing.kind == "link" else ""


_NAMES = st.sampled_from([b"a", b"b", b"c.txt", "ü".encode(), b"\xff\xfe", b"new\nline", b" ", b"A" * 255])
_TIMES = st.integers(min_value=0, max_value=4_000_000_000_000_000_000)
_FILES = st.builds(
    Thing,
    st.just("file"),
    st.sampled_from([0o644, 0o755, 0o600, 0o444]),
    _TIMES,
    st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=8).map(lambda part: part * 300)),
)
_LINKS = st.builds(
    Thing, st.just("link"), st.just(0o777), _TIMES, st.sampled_from([b"a", b"../..", b"/etc/passwd", b"\xff"])
)
_DIRS = st.builds(Thing, st.just("dir"), st.sampled_from([0o755, 0o700, 0o2775, 0o1777]), _TIMES)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Tree:
    """Small trees with everything in them that a tree may have."""
    found: dict[bytes, Thing] = {}
    for name in draw(st.lists(_NAMES, unique=True, max_size=5)):
        thing = draw(st.one_of(_FILES, _LINKS, _DIRS))
        found[name] = thing
        if thing.kind == "dir" and depth > 1:
            inner = draw(trees(depth - 1))
            found.update({name + b"/" + path: below for path, below in inner.items()})
    return found


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Two trees, the second of which is often the first with a few changes."""
    one, other = draw(trees()), draw(trees())
    if draw(st.booleans()):
        return one, other
    kept = {path for path in one if draw(st.integers(0, 4))}
    mixed = {path: thing for path, thing in one.items() if _has_parents(path, one, kept)}
    for path, thing in mixed.items():
        if thing.kind == "file" and not draw(st.integers(0, 3)):
            mixed[path] = replace(thing, data=thing.data + b"!")
    return one, mixed


def _has_parents(path: bytes, tree: Tree, kept: set[bytes]) -> bool:
    while path:
        if path not in kept:
            return False
        path = path.rpartition(b"/")[0]
    return True
