"""A drive: reads trees, and makes new ones from others."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from outlast.drive import Capture, Entry, Packs
from outlast.errors import BadInput
from outlast.ids import blob_hash, new_token
from outlast.workspaces.drive.building import Builder
from outlast.workspaces.drive.changing import Changer, Edit, gathered
from outlast.workspaces.drive.format import DIR, FILE, Item, Place, parse_root, root_text, shown
from outlast.workspaces.drive.packing import PackSink, PackWriter
from outlast.workspaces.drive.paths import encode_path, joined
from outlast.workspaces.drive.reading import Reader
from outlast.workspaces.drive.walking import Change, Walker, as_entry, check_depth

CHANGED_LIMIT: Final = 100
"""Paths that a capture names."""


class Drive:
    """The trees of one tenant in one place of packs. For one event loop.

    What it gives in a `Capture` it keeps until `captured` is told that the root is durable, and gives again with each
    capture until then: a root never leads to packs that were given to nobody.
    """

    def __init__(
        self,
        packs: Packs,
        tenant: str,
        *,
        put: Callable[[Mapping[str, bytes]], Awaitable[None]] | None = None,
    ) -> None:
        """Read trees from packs.

        Args:
            packs: where they are.
            tenant: whose; in the name of each pack.
            put: makes packs durable at once, in a store of their own; no capture gives them then.
        """
        self._put = put
        self._name = partial(blob_hash, tenant)
        # In a store of their own no two packs are alike: see `outlast.workspaces.drive.stores.packs`.
        self._salt: Callable[[], bytes] = bytes if put is None else _random
        self.reader = Reader(packs)
        self._walker = Walker(self.reader)
        self._given: dict[str, Sequence[str]] = {}

    async def entries(self, root: str, under: str = "") -> AsyncIterator[Entry]:
        """All that is in a tree, or below a directory of it; each directory before what is in it, by name.

        Raises:
            FileMissing: nothing is at `under`.
            PacksBroken, PacksGone
        """
        item, path = await self._walker.get(root, under)
        if item.kind != DIR:
            yield as_entry(item, path)
            return
        async for at, below in self._walker.below(item, path):
            yield as_entry(below, at)

    async def list(self, root: str, path: str = "") -> Sequence[Entry]:
        """What is directly in a directory. Raises as `entries` does."""
        item, at = await self._walker.get(root, path)
        items = await self.reader.items(item) if item.kind == DIR else ()
        return [as_entry(below, at + b"/" + below.name if at else below.name) for below in items]

    async def find(self, root: str, path: str) -> Entry | None:
        """What is at `path`; None: nothing."""
        found = await self._walker.find(root, path)
        return None if found is None else as_entry(*found)

    async def read(self, root: str, path: str, *, most_bytes: int = 1 << 30) -> bytes:
        """The content of a file.

        Raises:
            FileMissing: there is none.
            BadInput: it is no file, or has more than `most_bytes`.
            PacksBroken, PacksGone
        """
        item, at = await self._walker.get(root, path)
        if item.kind != FILE:
            raise BadInput(detail=f"{shown(at) or '.'} is no file.")
        if item.size > most_bytes:
            raise BadInput(
                detail=f"{shown(at)} has {item.size:,} bytes, more than the {most_bytes:,} asked for."
            )
        return b"".join([piece async for piece in self.reader.content(item)])

    async def read_pieces(self, root: str, path: str) -> AsyncIterator[bytes]:
        """The content of a file of any size, in pieces of at most 1 MiB. Raises as `read` does."""
        item, at = await self._walker.get(root, path)
        if item.kind != FILE:
            raise BadInput(detail=f"{shown(at) or '.'} is no file.")
        async for piece in self.reader.content(item):
            yield piece

    async def contents(self, root: str, *, most_bytes: int = 1 << 30) -> AsyncIterator[tuple[Entry, bytes]]:
        """All files of a tree with their contents, in the order in which that is cheapest.

        Raises:
            BadInput: they have more than `most_bytes` together.
            PacksBroken, PacksGone
        """
        top = parse_root(root)
        if top.size > most_bytes:
            raise BadInput(
                detail=f"The files have {top.size:,} bytes, more than the {most_bytes:,} asked for."
            )
        found = [(path, item) async for path, item in self._walker.below(top, b"") if item.kind == FILE]
        found.sort(key=lambda entry: (entry[1].place.pack, entry[1].place.offset))
        files = {pack: list(them) for pack, them in groupby(found, lambda entry: entry[1].place.pack)}
        for path, item in files.pop("", ()):
            yield as_entry(item, path), b""
        async for packs in self.reader.batches(list(files)):
            for path, item in (entry for pack in packs for entry in files[pack]):
                yield as_entry(item, path), b"".join([piece async for piece in self.reader.content(item)])

    async def diff(self, before: str, after: str) -> AsyncIterator[Change]:
        """What is not the same in two trees, in order of the paths. Reads only nodes that are not equal.

        Raises:
            PacksBroken, PacksGone
        """
        async for path, one, other in self._walker.diff(parse_root(before), parse_root(after)):
            yield Change(
                shown_path(path),
                None if one is None else as_entry(one, path),
                None if other is None else as_entry(other, path),
            )

    async def load(self, root: str) -> tuple[dict[bytes, Sequence[Item]], dict[bytes, Place]]:
        """All entries of a tree by the path of their directory, each after the one above it; and its nodes.

        Raises:
            PacksBroken, PacksGone
        """
        nodes: dict[bytes, Place] = {}
        dirs: dict[bytes, Sequence[Item]] = {}
        level, depth = [(b"", parse_root(root))], 0
        while level:
            check_depth(depth, level[0][0])
            await self.reader.prefetch([item for _, item in level])
            below: list[tuple[bytes, Item]] = []
            for path, directory in level:
                await self.reader.leaves(directory, nodes)
                items = dirs[path] = await self.reader.items(directory)
                below += [(joined(path, item.name), item) for item in items if item.kind == DIR]
            level, depth = below, depth + 1
        return dirs, nodes

    async def edit(self, root: str, edits: Sequence[Edit]) -> Capture:
        """The tree that is `root` with these changes. Directories above what is put are made where they are not.

        Raises:
            BadInput: a path or a link is none that a tree can have.
            PacksBroken, PacksGone
        """
        base = parse_root(root)
        known: dict[bytes, Place] = {}
        packs: dict[str, bytes] = {}
        writer = self.writer(packs.__setitem__)
        builder = Builder(writer, {}, known)
        changer = Changer(self.reader, builder, known)
        span = await changer.directory(base if base.entries > 1 else None, gathered(edits).below)
        if (b"" if span is None else span.digest) == base.digest:
            return self.capture(root, {}, ())
        writer.close()
        await self.put(packs)
        self.learn(builder)
        changed = dict.fromkeys(shown(encode_path(edit.path)) for edit in edits[: 2 * CHANGED_LIMIT])
        return self.capture(root_text(span), packs, list(changed)[:CHANGED_LIMIT])

    def capture(self, root: str, packs: Mapping[str, bytes], changed: Sequence[str]) -> Capture:
        """A capture that gives these packs, and those that were given before and may not be durable."""
        self.reader.pending.update(packs)
        pending = dict(self.reader.pending)
        if pending:
            self._given[root] = list(pending)
        return Capture(root, pending, changed)

    async def put(self, packs: dict[str, bytes]) -> None:
        """Make these durable in the store, if there is one of their own; none of them is left then to be given."""
        if self._put is None or not packs:
            return
        await self._put(packs)
        for name, data in packs.items():
            self.reader.keep(name, data)
        packs.clear()

    def writer(self, sink: PackSink) -> PackWriter:
        """Makes packs for this drive."""
        return PackWriter(self._name, sink, self._salt)

    @property
    def puts(self) -> bool:
        """Whether packs are durable in a store of their own before a capture names them."""
        return self._put is not None

    def captured(self, root: str) -> None:
        """What was given with this root is durable."""
        names = self._given.pop(root, ())
        for name in names:
            data = self.reader.pending.pop(name, None)
            if data is not None:
                self.reader.keep(name, data)

    def learn(self, builder: Builder) -> None:
        """Have at hand what a builder has made, whose packs are closed."""
        for place, digest, node in builder.made:
            self.reader.keep_node((digest, place.pack, place.offset), node)

    @property
    def walker(self) -> Walker:
        """Walks its trees, item by item."""
        return self._walker


def _random() -> bytes:
    return new_token().encode()


def shown_path(path: bytes) -> str:
    """A path as a text from which the same bytes can be made."""
    return path.decode("utf-8", "surrogateescape")
