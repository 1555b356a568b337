"""A directory of this machine that is written down as trees, and brought back to them."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from anyio import from_thread, to_thread

from outlast.clock import Clock, SystemClock
from outlast.drive import EMPTY_ROOT, Capture
from outlast.errors import WorkspaceError
from outlast.workspaces.drive.building import Builder
from outlast.workspaces.drive.format import PIECE, Item, parse_root, root_text, shown
from outlast.workspaces.drive.opening import opened, write_all
from outlast.workspaces.drive.packing import PackSink, unframe
from outlast.workspaces.drive.placing import Placer
from outlast.workspaces.drive.reading import check_content
from outlast.workspaces.drive.scanning import SAID_LIMIT, Scanner, build
from outlast.workspaces.drive.statcache import Known, from_items, load, save
from outlast.workspaces.drive.tree import Drive

_ROOT: Final = b""


@dataclass(frozen=True, slots=True)
class Restored:
    """What it took to make a directory equal to a tree."""

    written: int
    """Files whose content was written."""
    removed: int
    """Entries that are not in the tree, each with all below it counted once."""
    entries: int


class Folder:
    """One directory and what is known of it. One checkpoint or restore at a time.

    Nothing but the directory itself is its owner's: what is in it may be hostile, and may change meanwhile.
    """

    def __init__(
        self,
        drive: Drive,
        directory: str | Path,
        cache: Path | None = None,
        *,
        skips: Callable[[bytes], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Bind a directory.

        Args:
            drive: where its trees are read from.
            directory: it; made by `restore` where it is not there.
            cache: a file of ours, outside of it, for what is known of it; None: kept in memory alone.
            skips: of a path below it: is it neither written down nor touched.
            clock: of this machine; its files' times are compared with it.
        """
        self._drive = drive
        self._directory = os.fspath(directory)
        self._cache = cache
        self._skips = skips
        self._clock = clock or SystemClock()
        self._known: Known | None = None

    async def checkpoint(self, base_root: str) -> Capture:
        """The directory as a tree, of which only is new what `base_root` has not.

        Args:
            base_root: the newest tree that is durable, or that was captured by the same drive.

        Raises:
            WorkspaceError: it cannot be read.
            PacksBroken, PacksGone: the tree before cannot be.
        """
        known, surely = await self._knowledge(base_root)
        packs: dict[str, bytes] = {}
        writer = self._drive.writer(self._sink(packs))
        builder = Builder(writer, known.contents(), known.nodes)
        scanner = Scanner(known, builder, self._clock)
        scanner.skips = self._skips
        scanner.check = from_thread.check_cancelled
        scanner.old_pieces = partial(from_thread.run, self._drive.reader.pieces)
        with on_disk(f"The files in {self._directory} cannot be written down"):
            span = await to_thread.run_sync(self._scan, scanner, builder)
        digest = b"" if span is None else span.digest
        root = base_root if digest == parse_root(base_root).digest else root_text(span)
        if root != base_root:
            self._drive.learn(builder)
        await self._learn(root, base_root, scanner, builder)
        changed = scanner.changed if surely or root == base_root else await self._changed(base_root, root)
        capture = self._drive.capture(root, packs if root != base_root else {}, changed)
        return Capture(capture.root, capture.packs, capture.changed, left_out=scanner.left_out)

    def _sink(self, packs: dict[str, bytes]) -> PackSink:
        """Takes each pack while the next is being made, in the thread that makes it."""
        if not self._drive.puts:
            return packs.__setitem__

        def put(name: str, data: bytes) -> None:
            from_thread.run(self._drive.put, {name: data})

        return put

    def _scan(self, scanner: Scanner, builder: Builder) -> Item | None:
        with opened(self._directory) as fd:
            listing = scanner.scan(fd)
        span = build(listing, builder)
        builder.close()
        return span

    async def _knowledge(self, base_root: str) -> tuple[Known, bool]:
        """What is known, with places of `base_root` alone; whether it says what `base_root` holds."""
        known = self._known
        if known is None and self._cache is not None:
            known = await to_thread.run_sync(load, self._cache)
        if known is not None and known.root == base_root:
            return known, True
        fresh = from_items(base_root, *await self._drive.load(base_root))
        return (fresh, True) if known is None else (fresh.trusting(known), False)

    async def _learn(self, root: str, base_root: str, scanner: Scanner, builder: Builder) -> None:
        found = scanner.found
        unchanged = self._known is not None and root == base_root and self._known.dirs == found.dirs
        found.root, found.nodes = root, builder.used
        large = {
            item.digest for lines in found.dirs.values() for _, item in lines.values() if item.size > PIECE
        }
        found.large = {
            digest: pieces for digest, pieces in (scanner.pieces | found.large).items() if digest in large
        }
        self._known = found
        if self._cache is not None and not unchanged:
            await self._save(found)

    async def _save(self, known: Known) -> None:
        if self._cache is not None:
            await to_thread.run_sync(save, known, self._cache)

    async def _changed(self, before: str, after: str) -> Sequence[str]:
        changed: list[str] = []
        async for path, _, _ in self._drive.walker.diff(parse_root(before), parse_root(after)):
            changed.append(shown(path))
            if len(changed) == SAID_LIMIT:
                break
        return changed

    async def restore(self, root: str) -> Restored:
        """Make the directory equal to a tree. Cut off anywhere and called again, it ends right.

        Its own mode and time are not part of the tree, and stay.

        Raises:
            WorkspaceError: it cannot be written: the disk is full, or parts of it are another user's.
            PacksBroken, PacksGone: the tree cannot be read.
        """
        known = self._known
        if known is None and self._cache is not None:
            known = await to_thread.run_sync(load, self._cache)
        wanted, nodes = await self._drive.load(root)
        placer = Placer(self._directory, wanted, known or Known(EMPTY_ROOT), self._clock)
        placer.skips = self._skips
        with on_disk(f"The files in {self._directory} cannot be brought back"):
            await to_thread.run_sync(placer.prepare)
            await self._write(placer)
            await to_thread.run_sync(placer.finish)
        self._known = Known(root, placer.lines, nodes)
        await self._save(self._known)
        return Restored(len(placer.missing), placer.removed, parse_root(root).entries - 1)

    async def _write(self, placer: Placer) -> None:
        empty = [(path, item, b"") for path, item in placer.missing if item.size == 0]
        await to_thread.run_sync(placer.write, empty)
        small = [entry for entry in placer.missing if 0 < entry[1].size <= PIECE]
        small.sort(key=_pack_of)
        files = {name: list(them) for name, them in groupby(small, _pack_of)}
        async for packs in self._drive.reader.batches(list(files)):
            for name, pack in packs.items():
                await to_thread.run_sync(placer.write, _contents(pack, files[name]))
        for path, item in placer.missing:
            if item.size > PIECE:
                await self._write_large(placer, path, item)

    async def _write_large(self, placer: Placer, path: bytes, item: Item) -> None:
        fd = await to_thread.run_sync(placer.begin, path, item)
        try:
            async for data in self._drive.reader.content(item):
                await to_thread.run_sync(write_all, fd, data)
            placer.end(fd, path, item)
        finally:
            os.close(fd)


def _pack_of(entry: tuple[bytes, Item]) -> str:
    return entry[1].place.pack


def _contents(pack: bytes, files: Sequence[tuple[bytes, Item]]) -> Iterator[tuple[bytes, Item, bytes]]:
    for path, item in files:
        yield path, item, check_content(unframe(pack, item.place, item.size), item)


@contextmanager
def on_disk(what: str) -> Generator[None]:
    """What the system says of a disk becomes an error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise WorkspaceError(
            detail=f"{what}: {reason}. Nothing that was recorded is lost: give this user room and access there, and "
            "the session goes on by itself."
        ) from error
