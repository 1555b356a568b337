"""The HOME of a box that shares no directory with the worker.

An adapter keeps its harness's files below HOME on the worker's machine: it writes them before the harness starts, and
reads what it made of them. So that part of HOME, and no other, is brought to the box and back: whatever stands under
the names that HOME has here. What else programs make there (caches) stays in the box.

What comes back is a box's: plain files and directories alone, at paths of single names, written here through no link.
"""

import os
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final

import anyio
from anyio import to_thread

from outlast.errors import WorkspaceError
from outlast.ids import new_id
from outlast.workspaces.distant import DistantTree
from outlast.workspaces.drive.format import PIECE, shown
from outlast.workspaces.drive.opening import MAKE_FILE, open_file, opened, read_up_to, write_all
from outlast.workspaces.drive.paths import joined, split_path
from outlast.workspaces.drive.remote import Seen, Step
from outlast.workspaces.drive.statcache import StatKey, stat_key

_BYTES: Final = 256 * 1024 * 1024
"""Of all that comes back at a time."""
_MODES: Final = 0o700
_DIRECTORY: Final[StatKey] = (0, 0, 0, 0)


class DistantHome:
    """One HOME, here and there.

    Args:
        tree: of the directory in the box.
        here: it on this machine.
    """

    def __init__(self, tree: DistantTree, here: Path) -> None:
        self._tree = tree
        self._here = os.fspath(here)
        self._using = anyio.Lock()
        self._given: dict[bytes, StatKey] = {}
        """What of it here the box has, as it was."""
        self._there: dict[bytes, StatKey] | None = None
        """What of it there we have, as it was; None: nothing was given yet."""

    async def give(self) -> None:
        """Bring to the box what is here and it has not.

        Raises:
            WorkspaceError
        """
        async with self._using:
            await self._give()

    async def _give(self) -> None:
        now = await to_thread.run_sync(lambda: dict(_walk(self._here)))
        first = self._there is None
        names = sorted(path for path in now if b"/" not in path)
        gone = names if first else sorted(self._given.keys() - now.keys(), key=len, reverse=True)
        new = [path for path in now if first or self._given.get(path) != now[path]]
        if gone or new or first:
            await self._tree.apply(self._steps(gone, new))
            self._given = now
            self._there = {seen.path: seen.key for seen in (await self._tree.scan()).entries}

    async def _steps(self, gone: Sequence[bytes], new: Sequence[bytes]) -> AsyncIterator[Step]:
        for path in gone:
            yield Step("remove", path)
        for path in sorted(new):
            steps = await to_thread.run_sync(lambda path=path: list(self._of(path)))
            for step in steps:
                yield step

    def _of(self, path: bytes) -> Iterator[Step]:
        """What makes one thing there; nothing where it has gone meanwhile."""
        known = path in self._given
        above, _, name = path.rpartition(b"/")
        with suppress(FileNotFoundError), opened(self._here, above) as fd:
            stat = os.stat(name, dir_fd=fd, follow_symlinks=False)
            mode, mtime_ns = stat.st_mode & 0o7777, stat.st_mtime_ns
            if S_ISDIR(stat.st_mode):
                if not known:
                    yield Step("dir", path)
                return
            yield Step("remove", path)
            if S_ISLNK(stat.st_mode):
                yield Step("link", path, os.readlink(name, dir_fd=fd), mtime_ns=mtime_ns)
                return
            inner = open_file(fd, name)
            try:
                data = read_up_to(inner, PIECE)
                yield Step("file", path, data)
                while len(data) == PIECE and (data := read_up_to(inner, PIECE)):
                    yield Step("more", path, data)
            finally:
                os.close(inner)
            yield Step("meta", path, mode=mode, mtime_ns=mtime_ns)

    async def fetch(self) -> None:
        """Bring here what programs in the box have made of what was given, since.

        Raises:
            WorkspaceError
        """
        async with self._using:
            if self._there is not None:
                await self._fetch(self._there)

    async def _fetch(self, known: Mapping[bytes, StatKey]) -> None:
        scan = await self._tree.scan()
        ours = {path.partition(b"/")[0] for path in self._given}
        there = {one.path: one for one in scan.entries if one.path.partition(b"/")[0] in ours}
        changed = [one for path, one in there.items() if known.get(path) != one.key]
        gone = [path for path in known if path.partition(b"/")[0] in ours and path not in there]
        if not (changed or gone):
            return
        if sum(one.size for one in changed) > _BYTES:
            raise WorkspaceError(
                detail=f"The home of the sandbox has more than {_BYTES >> 20} MB that is new."
            )
        files = [one for one in changed if one.kind == "file"]
        await to_thread.run_sync(self._shape, gone, [one for one in changed if one.kind == "dir"])
        await self._take(files)
        self._there = {seen.path: seen.key for seen in scan.entries}
        for path in gone:
            self._given.pop(path, None)
        self._given.update((one.path, _DIRECTORY) for one in changed if one.kind == "dir")

    def _shape(self, gone: Sequence[bytes], dirs: Sequence[Seen]) -> None:
        for path in sorted(gone, key=len, reverse=True):
            with suppress(OSError):
                above, name = _above(path)
                with opened(self._here, above) as fd:
                    if S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                        os.rmdir(name, dir_fd=fd)
                    else:
                        os.unlink(name, dir_fd=fd)
        for one in dirs:
            above, name = _above(one.path)
            with _said(one.path), opened(self._here, above) as fd, suppress(FileExistsError):
                os.mkdir(name, _MODES, dir_fd=fd)

    async def _take(self, files: Sequence[Seen]) -> None:
        """Each file whole or not at all, in the place of what has its name."""
        wanted, parts = {one.path for one in files}, list[bytes]()
        async with aclosing(self._tree.read([one.path for one in files])) as chunks:
            async for chunk in chunks:
                parts.append(chunk.data)
                if chunk.path not in wanted or sum(map(len, parts)) > _BYTES:
                    raise WorkspaceError(
                        detail=f"The sandbox gives {shown(chunk.path)}, which it was not asked for."
                    )
                if chunk.end is not None:
                    written = await to_thread.run_sync(self._write, chunk.path, b"".join(parts), chunk.end)
                    self._given[chunk.path] = written
                    parts.clear()

    def _write(self, path: bytes, data: bytes, seen: Seen) -> StatKey:
        above, name = _above(path)
        aside = f".{new_id('fetched')}".encode()
        with _said(path), opened(self._here, above) as fd:
            inner = os.open(aside, MAKE_FILE, 0o600, dir_fd=fd)
            try:
                write_all(inner, data)
                os.fchmod(inner, seen.mode & _MODES)
                os.utime(inner, ns=(seen.mtime_ns, seen.mtime_ns))
            finally:
                os.close(inner)
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
            return stat_key(os.stat(name, dir_fd=fd, follow_symlinks=False))


def _above(path: bytes) -> tuple[bytes, bytes]:
    """The directory of a path and its name. Raises `WorkspaceError`: it is none of single names."""
    if b"/".join(split_path(path)) != path:
        raise WorkspaceError(detail=f"The sandbox says that it has {shown(path)}, which it cannot have.")
    above, _, name = path.rpartition(b"/")
    return above, name


@contextmanager
def _said(path: bytes) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceError(
            detail=f"The home of the sandbox cannot be brought here: {shown(path)}: {error.strerror}."
        ) from error


def _walk(top: str) -> Iterator[tuple[bytes, StatKey]]:
    """What is below HOME here, each directory before what is in it. Directories are themselves whatever is in them."""
    ahead = [b""]
    while ahead:
        path = ahead.pop()
        try:
            with opened(top, path) as fd:
                names = [
                    (os.fsencode(name), os.stat(name, dir_fd=fd, follow_symlinks=False))
                    for name in os.listdir(fd)  # noqa: PTH208 - of an open directory
                ]
        except OSError:
            continue  # it went meanwhile
        for name, stat in sorted(names):
            at = joined(path, name)
            if S_ISDIR(stat.st_mode):
                ahead.append(at)
                yield at, _DIRECTORY
            elif S_ISREG(stat.st_mode) or S_ISLNK(stat.st_mode):
                yield at, stat_key(stat)
