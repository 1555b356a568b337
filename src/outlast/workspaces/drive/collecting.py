"""What is no longer needed: packs that no tree leads to, and packs most of which no tree leads to.

**Safe beside checkpoints.** The packs that may go are listed first, and the roots are read after that. Whatever is
committed later leads to packs that a root of before led to, or to new ones; and new ones are younger than the grace
period. Only a commit that comes so long after its packs were put could lose them.
"""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Final

from outlast.drive import Capture, PackStore
from outlast.workspaces.drive.building import Builder, as_directory
from outlast.workspaces.drive.format import DIR, FILE, PIECE, SPAN, Item, Piece, Place, parse_root, root_text
from outlast.workspaces.drive.reading import Reader
from outlast.workspaces.drive.tree import Drive
from outlast.workspaces.drive.walking import check_depth

GRACE_S: Final = 86_400.0
SMALL: Final = 256 * 1024
"""Packs of fewer bytes are put together."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection found."""

    reached: int
    """Packs that the roots lead to."""
    removed: int


async def collect(
    store: PackStore, roots: AsyncIterable[str], tenant: str = "default", *, grace_s: float = GRACE_S
) -> Collected:
    """Remove the packs of a store that none of these roots leads to.

    Args:
        store: of one tenant.
        roots: **all** that anybody may want to go back to, of every session whose packs are in the store. Read after
            the store was listed.
        tenant: whose.
        grace_s: younger packs stay in any case. Longer than any time between a checkpoint and its commit.

    Raises:
        PacksBroken, PacksGone: a tree cannot be read; nothing was removed then.
        WorkspaceError: the store cannot be used.
    """
    old = await store.names(older_s=grace_s)
    reach = Reach(Drive(store, tenant).reader)
    async for root in roots:
        await reach.add(root)
    gone = [name for name in old if name not in reach.packs]
    await store.remove(gone)
    return Collected(len(reach.packs), len(gone))


class Reach:
    """The packs that some trees lead to, and how many bytes of each."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.packs: dict[str, int] = {}
        """Bytes that are needed of each, by name."""
        self._seen: set[tuple[str, int]] = set()

    async def add(self, root: str) -> None:
        """All that a root leads to.

        Raises:
            PacksBroken, PacksGone
        """
        top = parse_root(root)
        left = [] if top.entries == 1 or not self._is_new(top.place) else [top]
        while left:
            await self._reader.prefetch(left)
            below: list[Item] = []
            for above in left:
                below += [item for item in (await self._reader.node(above)).items if item.place.length]
            left = [item for item in below if item.kind in {DIR, SPAN} and self._is_new(item.place)]
            for file in below:
                if file.kind == FILE and self._is_new(file.place) and file.size > PIECE:
                    for piece in await self._reader.pieces(file):
                        self._is_new(piece.place)

    def _is_new(self, place: Place) -> bool:
        """Count it; whether it was not counted before."""
        key = (place.pack, place.offset)
        if key in self._seen:
            return False
        self._seen.add(key)
        self.packs[place.pack] = self.packs.get(place.pack, 0) + place.length
        return True


async def repacked(drive: Drive, root: str, *, dead_share: float = 0.5) -> Capture:
    """The same tree in fewer bytes: what it needs of packs that are small, or mostly needed by nobody, in new ones.

    The new root has the digest of the old, and other places; the packs that it no longer leads to go with the next
    collection, once no root leads to them.

    Args:
        drive: where the tree is.
        root: it.
        dead_share: a pack is left when more of it than this is not needed by the tree.

    Raises:
        PacksBroken, PacksGone
    """
    reach = Reach(drive.reader)
    await reach.add(root)
    left: set[str] = set()
    for name, needed in reach.packs.items():
        size = len((await drive.reader.fetch([name]))[name])
        if needed < size * (1 - dead_share) or size < SMALL:
            left.add(name)
    if len(left) < 2:
        return drive.capture(root, {}, ())
    packs: dict[str, bytes] = {}
    mover = _Mover(drive, left, packs)
    top = await mover.directory(parse_root(root), 0)
    mover.writer.close()
    await drive.put(packs)
    return drive.capture(root_text(top._replace(kind=SPAN, entries=top.entries - 1)), packs, ())


class _Mover:
    """Moves what lies in some packs into new ones."""

    def __init__(self, drive: Drive, left: set[str], packs: dict[str, bytes]) -> None:
        self._reader = drive.reader
        self._left = left
        self.writer = drive.writer(packs.__setitem__)
        self._builder = Builder(self.writer, {}, {})
        self._moved: dict[tuple[str, int], Place] = {}

    async def directory(self, item: Item, depth: int) -> Item:
        """The directory, with nothing in it that lies where nothing is to lie."""
        check_depth(depth, item.name)
        if item.entries == 1:
            return item
        index: dict[bytes, Place] = {}
        leaves = await self._reader.leaves(item, index)
        items = [one for leaf in leaves for one in (await self._reader.below(leaf, 0)).items]
        moved = [await self._item(one, depth) for one in items]
        places = [*index.values(), item.place, *(leaf.place for leaf in leaves)]
        same = all(one.place is other.place for one, other in zip(items, moved, strict=True))
        if same and not any(place.pack in self._left for place in places):
            return item
        return as_directory(item.name, item.mode, item.mtime_ns, self._builder.directory(moved))

    async def _item(self, item: Item, depth: int) -> Item:
        if item.kind == DIR:
            return await self.directory(item, depth + 1)
        if item.kind != FILE or item.size == 0:
            return item
        if item.size <= PIECE:
            return item._replace(place=await self._place(item.place))
        pieces = await self._reader.pieces(item)
        moved = [Piece(piece.digest, await self._place(piece.place)) for piece in pieces]
        if _same(pieces, moved) and item.place.pack not in self._left:
            return item
        return item._replace(place=self._builder.large(item.digest, moved))

    async def _place(self, place: Place) -> Place:
        if place.pack not in self._left:
            return place
        key = (place.pack, place.offset)
        found = self._moved.get(key)
        if found is None:
            pack = (await self._reader.fetch([place.pack]))[place.pack]
            frame = memoryview(pack)[place.offset : place.offset + place.length]
            found = self._moved[key] = self.writer.add_frame(frame)
        return found


def _same(pieces: Sequence[Piece], moved: Sequence[Piece]) -> bool:
    return all(one.place is other.place for one, other in zip(pieces, moved, strict=True))
