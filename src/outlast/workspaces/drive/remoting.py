"""A directory that is not on this machine, written down as trees and brought back to them over `RemoteTree`.

For boxes without mounts. What is known of it is kept here, by the stats that its machine gives; so a checkpoint asks
for the contents of those files only that have changed. What comes from there is believed to be what is there, and no
more: a path that leads out of a tree, or through what is no directory, is an error.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anyio import to_thread

from outlast.drive import EMPTY_ROOT, Capture
from outlast.errors import WorkspaceError
from outlast.ids import ContentHash
from outlast.workspaces.drive.building import Builder
from outlast.workspaces.drive.format import (
    DIR,
    DIR_MODES,
    ENTRIES_LIMIT,
    FILE,
    FILE_MODES,
    LINK,
    NOWHERE,
    PIECE,
    Item,
    Piece,
    Place,
    is_target,
    kept_time,
    parse_root,
    root_text,
    shown,
)
from outlast.workspaces.drive.paths import joined, split_path
from outlast.workspaces.drive.remote import KINDS, Chunk, RemoteTree, Scan, Seen, Step
from outlast.workspaces.drive.scanning import BYTES_LIMIT, SAID_LIMIT, Listing, build
from outlast.workspaces.drive.statcache import Known, Line, StatKey, from_items, is_racy, load, save
from outlast.workspaces.drive.tree import Drive

GROWTH: Final = 64 * 1024 * 1024
"""Bytes by which a file may be larger than it was a moment before: the machine could go on for ever."""


@dataclass(slots=True)
class _Found:
    dirs: dict[bytes, dict[bytes, Line]] = field(default_factory=dict[bytes, dict[bytes, Line]])
    wanted: dict[bytes, Seen] = field(default_factory=dict[bytes, Seen])
    """Files whose content is not known."""
    left_out: list[str] = field(default_factory=list[str])

    def wanted_size(self, path: bytes) -> int:
        """Of a file that was asked for, as it was scanned."""
        return self.wanted[path].size if path in self.wanted else 0


class RemoteFolder:
    """One remote directory and what is known of it. One checkpoint or restore at a time."""

    def __init__(self, drive: Drive, tree: RemoteTree, cache: Path | None = None) -> None:
        self._drive = drive
        self._tree = tree
        self._cache = cache
        self._known: Known | None = None
        self.asked = 0
        """Files whose contents were asked for so far."""

    async def checkpoint(self, base_root: str) -> Capture:
        """As `Folder.checkpoint`."""
        known = await self._knowledge(base_root)
        packs: dict[str, bytes] = {}
        builder = Builder(self._drive.writer(packs.__setitem__), known.contents(), known.nodes)
        scan = await self._tree.scan()
        found = _sorted_in(scan, known)
        await self._recall(found, known, builder)
        async with aclosing(self._contents(found, builder)) as contents:
            async for path, item, key in contents:
                directory, _, name = path.rpartition(b"/")
                racy = key is None or is_racy(key[2], scan.looked_ns)
                found.dirs[directory][name] = (None if racy else key, item._replace(name=name))
                if len(packs) > 1:
                    await self._drive.put(packs)
        span = build(_listed(found.dirs, b""), builder)
        builder.close()
        root = root_text(span)
        if parse_root(root).digest == parse_root(base_root).digest:
            root, packs = base_root, {}
        await self._drive.put(packs)
        self._drive.learn(builder)
        await self._learn(Known(root, found.dirs, builder.used))
        changed = [shown(path) async for path in self._changed(base_root, root)]
        capture = self._drive.capture(root, packs, changed)
        return Capture(capture.root, capture.packs, capture.changed, left_out=found.left_out[:SAID_LIMIT])

    async def _recall(self, found: _Found, known: Known, builder: Builder) -> None:
        """Know the pieces of large files that may have changed in one of them."""
        for path in found.wanted:
            directory, _, name = path.rpartition(b"/")
            line = known.dirs.get(directory, {}).get(name)
            if line is not None and line[1].kind == FILE and line[1].size > PIECE:
                builder.know((one.digest, one.place) for one in await self._drive.reader.pieces(line[1]))

    async def _contents(
        self, found: _Found, builder: Builder
    ) -> AsyncGenerator[tuple[bytes, Item, StatKey | None]]:
        """The files whose contents were not known, each when it is stored; with the stat it had, if it stood still."""
        self.asked += len(found.wanted)
        parts, pieces, whole, size = list[bytes](), list[Piece](), ContentHash(), 0
        left, at = dict(found.wanted), b""
        async with aclosing(self._tree.read(list(found.wanted))) as chunks:
            async for chunk in chunks:
                _check_chunk(chunk, left, at if parts else chunk.path)
                at = chunk.path
                whole.update(chunk.data)
                size += len(chunk.data)
                if size > found.wanted_size(chunk.path) + GROWTH:
                    raise WorkspaceError(detail=f"{shown(chunk.path)} grows faster than it can be read.")
                parts.append(chunk.data)
                if sum(map(len, parts)) >= PIECE:
                    data = b"".join(parts)
                    pieces.append(await to_thread.run_sync(builder.piece, data[:PIECE]))
                    parts = [data[PIECE:]]
                if chunk.end is None:
                    continue
                seen, digest, rest = left.pop(chunk.path), whole.digest(), b"".join(parts)
                place = await to_thread.run_sync(_stored, builder, digest, pieces, rest)
                steady = seen.key == chunk.end.key and size == seen.size
                yield (
                    chunk.path,
                    _file(chunk.path, chunk.end, size, digest, place),
                    seen.key if steady else None,
                )
                parts, pieces, whole, size = [], [], ContentHash(), 0
        found.left_out += [f"{shown(path)}: gone meanwhile, or may not be read" for path in left]

    async def restore(self, root: str) -> None:
        """As `Folder.restore`; a file that is not known is written anew, since looking at it costs as much."""
        known = self._known or (None if self._cache is None else await to_thread.run_sync(load, self._cache))
        wanted, nodes = await self._drive.load(root)
        scan = await self._tree.scan()
        plan = _Plan(self._drive, wanted, scan, known or Known(EMPTY_ROOT))
        await self._tree.apply(plan.steps())
        after = await self._tree.scan()
        plan.check(after)
        dirs: dict[bytes, dict[bytes, Line]] = {
            path: {item.name: (None, item) for item in items} for path, items in wanted.items()
        }
        for seen in after.entries:
            directory, _, name = seen.path.rpartition(b"/")
            line = dirs.get(directory, {}).get(name)
            if line is not None and seen.kind == "file" and not is_racy(seen.ctime_ns, after.looked_ns):
                dirs[directory][name] = (seen.key, line[1])
        await self._learn(Known(root, dirs, nodes))

    async def _knowledge(self, base_root: str) -> Known:
        known = self._known or (None if self._cache is None else await to_thread.run_sync(load, self._cache))
        if known is not None and known.root == base_root:
            return known
        fresh = from_items(base_root, *await self._drive.load(base_root))
        return fresh if known is None else fresh.trusting(known)

    async def _learn(self, known: Known) -> None:
        self._known = known
        if self._cache is not None:
            await to_thread.run_sync(save, known, self._cache)

    async def _changed(self, before: str, after: str) -> AsyncIterator[bytes]:
        count = 0
        async for path, one, other in self._drive.walker.diff(parse_root(before), parse_root(after)):
            if (
                one is not None
                and other is not None
                and one.kind == other.kind == DIR
                and one.mode == other.mode
            ):
                continue  # another time, because of what is in it
            yield path
            count += 1
            if count == SAID_LIMIT:
                return


def _file(path: bytes, end: Seen, size: int, digest: bytes, place: Place) -> Item:
    return Item(FILE, path, end.mode & FILE_MODES, kept_time(end.mtime_ns), size, 1, digest, place)


def _stored(builder: Builder, digest: bytes, pieces: list[Piece], rest: bytes) -> Place:
    if not pieces:
        return builder.content(digest, rest)
    if not rest and len(pieces) == 1:
        return pieces[0].place
    return builder.large(digest, [*pieces, *([builder.piece(rest)] if rest else [])])


def _check_chunk(chunk: Chunk, wanted: Mapping[bytes, Seen], at: bytes) -> None:
    """Return if it is a part of a file that was asked for, and goes on with the one that was begun.

    Raises:
        WorkspaceError
    """
    if chunk.path not in wanted:
        raise WorkspaceError(detail=f"The machine gives {shown(chunk.path)}, which it was not asked for.")
    if chunk.path != at or len(chunk.data) > PIECE:
        raise WorkspaceError(detail=f"The machine gives parts of {shown(chunk.path)} that make no file.")


def _check_size(scan: Scan) -> None:
    # One file with a hole in it may say that it has a million times as many bytes as there are.
    if len(scan.entries) > ENTRIES_LIMIT or sum(seen.size for seen in scan.entries) > BYTES_LIMIT:
        raise WorkspaceError(
            detail=f"The workspace holds more than {BYTES_LIMIT >> 30} GB, or more than {ENTRIES_LIMIT:,} entries, "
            "and so cannot be written down. Remove what need not be kept."
        )


def _sorted_in(scan: Scan, known: Known) -> _Found:
    """What was scanned, by directory; what is known stands there as it is known."""
    found = _Found({b"": {}})
    _check_size(scan)
    for seen in scan.entries:
        directory, _, name = seen.path.rpartition(b"/")
        lines = found.dirs.get(directory)
        known_path = bool(name) and b"/".join(split_path(seen.path)) == seen.path
        if (
            lines is None
            or not known_path
            or name in lines
            or (seen.kind == "link") != is_target(seen.target)
        ):
            raise WorkspaceError(
                detail=f"The machine says that it has {shown(seen.path)}, which it cannot have."
            )
        old = known.dirs.get(directory, {}).get(name)
        if seen.kind == "other":
            found.left_out.append(f"{shown(seen.path)}: no file")
        elif seen.kind == "dir":
            lines[name] = (
                None,
                Item(DIR, name, seen.mode & DIR_MODES, kept_time(seen.mtime_ns), 0, 1, b"", NOWHERE),
            )
            found.dirs[seen.path] = {}
        elif seen.kind == "link":
            target = seen.target
            lines[name] = (
                None,
                Item(LINK, name, 0, kept_time(seen.mtime_ns), len(target), 1, target, NOWHERE),
            )
        elif old is not None and old[0] == seen.key:
            lines[name] = old
        else:
            found.wanted[seen.path] = seen
    return found


def _listed(dirs: dict[bytes, dict[bytes, Line]], path: bytes) -> Listing:
    listing = Listing()
    for name, (_, item) in dirs[path].items():
        if item.kind == DIR:
            listing.below.append((item, _listed(dirs, joined(path, name))))
        else:
            listing.items.append(item)
    return listing


class _Plan:
    """What makes a remote directory equal to a tree."""

    def __init__(
        self, drive: Drive, wanted: Mapping[bytes, Sequence[Item]], scan: Scan, known: Known
    ) -> None:
        self._reader = drive.reader
        self._wanted = {joined(path, item.name): item for path, items in wanted.items() for item in items}
        self._known = known
        self._there = {seen.path: seen for seen in scan.entries}

    async def steps(self) -> AsyncIterator[Step]:
        """In the order in which they are to be taken."""
        for step in self._shape():
            yield step
        files = [(path, item) for path, item in self._wanted.items() if item.kind == FILE]
        for path, item in sorted(files, key=lambda entry: (entry[1].place.pack, entry[1].place.offset)):
            known = self._stands(path, item) and self._is_known(path, item)
            if not known:
                async for step in self._content(path, item):
                    yield step
            if not known or self._differs(path, item):
                yield Step("meta", path, mode=item.mode, mtime_ns=item.mtime_ns)
        for path, item in reversed(self._wanted.items()):
            if item.kind == DIR:
                yield Step("meta", path, mode=item.mode, mtime_ns=item.mtime_ns)

    def check(self, after: Scan) -> None:
        """Hold what is there now to what is to be there.

        Raises:
            WorkspaceError: it is something else: the machine has lost it, or something there changes it.
        """
        there = {seen.path: (KINDS.get(seen.kind), seen.size, seen.target) for seen in after.entries}
        for path, item in self._wanted.items():
            size, target = item.size if item.kind == FILE else 0, item.digest if item.kind == LINK else b""
            if there.pop(path, None) != (item.kind, size, target):
                raise WorkspaceError(detail=f"The machine does not have {shown(path)} as it was put there.")
        if there:
            raise WorkspaceError(detail=f"The machine has {shown(min(there))}, which nobody put there.")

    def _shape(self) -> Iterator[Step]:
        """What needs no content, but for times."""
        for path in self._gone():
            yield Step("remove", path)
        for path, item in self._wanted.items():
            if item.kind == DIR and not self._stands(path, item):
                yield Step("dir", path)
            elif item.kind == LINK:
                yield from self._link(path, item)

    def _gone(self) -> Iterator[bytes]:
        gone: set[bytes] = set()
        for path in self._there:
            item = self._wanted.get(path)
            if path.rpartition(b"/")[0] in gone:
                gone.add(path)
            elif item is None or not self._stands(path, item):
                gone.add(path)
                yield path

    def _stands(self, path: bytes, item: Item) -> bool:
        """Whether something of its kind is there."""
        seen = self._there.get(path)
        return seen is not None and KINDS.get(seen.kind) == item.kind

    def _link(self, path: bytes, item: Item) -> Iterator[Step]:
        if self._stands(path, item):
            seen = self._there[path]
            if (seen.target, seen.mtime_ns) == (item.digest, item.mtime_ns):
                return
            yield Step("remove", path)
        yield Step("link", path, item.digest, mtime_ns=item.mtime_ns)

    def _is_known(self, path: bytes, item: Item) -> bool:
        directory, _, name = path.rpartition(b"/")
        line = self._known.dirs.get(directory, {}).get(name)
        return line is not None and line[0] == self._there[path].key and line[1].digest == item.digest

    def _differs(self, path: bytes, item: Item) -> bool:
        seen = self._there[path]
        return (seen.mode, seen.mtime_ns) != (item.mode, item.mtime_ns)

    async def _content(self, path: bytes, item: Item) -> AsyncIterator[Step]:
        first = True
        async for data in self._reader.content(item):
            yield Step("file" if first else "more", path, data)
            first = False
        if first:
            yield Step("file", path)
