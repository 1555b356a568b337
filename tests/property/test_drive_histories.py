"""Whatever is done to a directory between checkpoints, lost commits, restarts, undos, forks and collections: what a log
names can be brought back, exactly, for as long as it names it."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import ManualClock, SystemClock
from outlast.drive import EMPTY_ROOT
from outlast.workspaces.drive import Drive, Folder, StoredPacks, collect
from outlast.workspaces.drive.stores import DirectoryObjects
from tests.trees import MemoryPacks, Tree, look

pytestmark = pytest.mark.timeout(600)
DAY_S = 86_400.0
Act: TypeAlias = tuple[str, int, int]

_NAMES = ("a", "b", "d/a", "d/b", "d/e/a", "e", "ü", "d/\udcff", "x\ny")


def _write(path: Path, number: int, _: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"%04d" % number)  # always as many bytes


def _append(path: Path, number: int, _: Path) -> None:
    with path.open("ab") as file:
        file.write(b"+" * (number % 50))


def _poke(path: Path, number: int, _: Path) -> None:
    """As a program may that hides its change."""
    with path.open("r+b") as file:
        file.write(b"%04d" % number)
    os.utime(path, ns=(1, 1))


def _remove(path: Path, number: int, _: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


_EDITS: Mapping[str, Callable[[Path, int, Path], object]] = {
    "write": _write,
    "append": _append,
    "poke": _poke,
    "large": lambda path, number, _: path.write_bytes(bytes([number % 251]) * ((1 << 20) + number)),
    "remove": _remove,
    "mkdir": lambda path, _, __: path.mkdir(parents=True),
    "link": lambda path, _, other: path.symlink_to(other.name),
    "chmod": lambda path, number, _: path.chmod((0o644, 0o600, 0o755, 0o700)[number % 4]),
    "touch": lambda path, number, _: os.utime(path, ns=(1, number * 1_000_000_007), follow_symlinks=False),
    "move": lambda path, _, other: path.rename(other),
    "hard": lambda path, _, other: os.link(path, other, follow_symlinks=False),
}
_OFTEN = ("write", "write", "write", "keep", "keep", "lose", "lose", "restart", "collect")
_SELDOM = ("forget", "restore", "undo", "cut", "fork", "erase")
acts = st.lists(
    st.tuples(
        st.sampled_from((*_OFTEN, *_OFTEN, *_SELDOM, *_EDITS)), st.integers(0, 8), st.integers(0, 1000)
    ),
    min_size=12,
    max_size=40,
)


@dataclass
class _Log:
    """What is durable of one session: its roots with the trees that they are of."""

    kept: list[tuple[str, Tree]] = field(default_factory=lambda: [(EMPTY_ROOT, {})])


class _CutOffError(Exception):
    """The process died here."""


class _Machine:
    """A directory, its drive, and what must hold of both."""

    def __init__(self, top: Path, *, stored: bool) -> None:
        self.top, self.work = top, top / "work"
        self.work.mkdir()
        self.clock = ManualClock(SystemClock().now())
        self.store = StoredPacks(DirectoryObjects(top / "store", self.clock), "default") if stored else None
        self.packs = MemoryPacks()
        self.logs = [_Log()]
        self.restart()

    @property
    def log(self) -> _Log:
        return self.logs[0]

    def drive(self) -> Drive:
        if self.store is None:
            return Drive(self.packs, "default")
        return Drive(self.store, "default", put=self._put)

    async def _put(self, packs: Mapping[str, bytes]) -> None:
        assert self.store is not None
        await self.store.put_many(packs, session="s", fence=1)

    def restart(self) -> None:
        self.here = self.drive()
        self.folder = Folder(self.here, self.work, self.top / "cache")
        self.root = self.log.kept[-1][0]

    async def keep(self) -> None:
        seen = look(self.work)
        capture = await self.folder.checkpoint(self.root)
        assert self.store is None or not capture.packs
        self.root = self.packs.land(self.here, capture)
        self.log.kept.append((self.root, seen))

    async def lose(self, number: int) -> None:
        """A checkpoint whose commit does not land; the attempt goes on with the next, or ends."""
        capture = await self.folder.checkpoint(self.root)
        if number % 2:
            self.root = capture.root
        else:
            self.restart()

    async def check(self, root: str, tree: Tree) -> None:
        there = self.top / "there"
        with suppress(FileNotFoundError):
            shutil.rmtree(there)
        await Folder(self.drive(), there).restore(root)
        assert look(there) == tree

    async def undo(self, number: int) -> None:
        await self.keep()
        root, tree = self.log.kept[number % len(self.log.kept)]
        await self.folder.restore(root)
        assert look(self.work) == tree
        self.log.kept.append((root, tree))
        self.root = root

    async def cut(self, number: int) -> None:
        """A restore that dies in the middle, and is done again by another process."""
        await self.keep()
        root, tree = self.log.kept[number % len(self.log.kept)]
        with pytest.MonkeyPatch.context() as patch:
            left = [number % 7]

            def die() -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise _CutOffError

            for name in ("fchmod", "mkdir", "symlink", "unlink"):
                patch.setattr(os, name, _before(die, getattr(os, name)))
            with suppress(_CutOffError):
                await self.folder.restore(root)
        self.restart()
        await self.folder.restore(root)
        assert look(self.work) == tree
        self.log.kept.append((root, tree))
        self.root = root

    def fork(self, number: int) -> None:
        self.logs.append(_Log(self.log.kept[: 1 + number % len(self.log.kept)]))

    def erase(self) -> None:
        """A fork goes on alone in the directory; its source is no more."""
        if len(self.logs) > 1:
            del self.logs[0]
            self.restart()

    async def collect(self) -> None:
        if self.store is None:
            return
        if self.root != self.log.kept[-1][0]:
            self.restart()  # no attempt lives as long as packs stay that no commit names
        self.clock.turn(2 * DAY_S)

        async def roots() -> AsyncIterator[str]:
            for log in self.logs:
                for root, _ in log.kept:
                    yield root

        await collect(self.store, roots())

    def forget(self) -> None:
        (self.top / "cache").unlink(missing_ok=True)
        self.restart()

    async def act(self, act: Act) -> None:
        what, which, number = act
        if what in _EDITS:
            with suppress(OSError):
                _EDITS[what](self.work / _NAMES[which], number, self.work / _NAMES[number % len(_NAMES)])
            return
        done = {
            "keep": self.keep,
            "lose": lambda: self.lose(number),
            "restart": self.restart,
            "forget": self.forget,
            "restore": lambda: self.check(*self.log.kept[number % len(self.log.kept)]),
            "undo": lambda: self.undo(number),
            "cut": lambda: self.cut(number),
            "fork": lambda: self.fork(number),
            "erase": self.erase,
            "collect": self.collect,
        }[what]()
        if done is not None:
            await done


def _before(first: Callable[[], None], then: Callable[..., object]) -> Callable[..., object]:
    def both(*words: object, **more: object) -> object:
        first()
        return then(*words, **more)

    return both


@given(acts=acts, stored=st.booleans())
async def test_what_a_log_names_can_be_brought_back_whatever_happened(
    acts: list[Act], *, stored: bool
) -> None:
    with tempfile.TemporaryDirectory() as top:
        machine = _Machine(Path(top), stored=stored)
        for act in acts:
            await machine.act(act)
        await machine.keep()
        await machine.collect()
        for log in machine.logs:
            for root, tree in log.kept:
                await machine.check(root, tree)
        assert (await machine.folder.checkpoint(machine.root)).changed == []
