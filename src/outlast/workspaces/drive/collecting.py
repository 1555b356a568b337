"""What is no longer needed: packs that no tree leads to.

**Safe beside checkpoints.** The packs that may go are listed first, and the roots are read after that. Whatever is
committed later leads to packs that a root of before led to, or to new ones; and new ones are younger than the grace
period. Only a commit that comes so long after its packs were put could lose them.
"""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Final

from outlast.drive import PackStore
from outlast.workspaces.drive.format import DIR, FILE, PIECE, SPAN, Item, Place, parse_root
from outlast.workspaces.drive.reading import Reader
from outlast.workspaces.drive.tree import Drive

GRACE_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection found."""

    reached: int
    """Packs that the roots lead to."""
    removed: int
    """Others; in a dry run those that would have gone."""


async def collect(
    store: PackStore,
    roots: AsyncIterable[str],
    tenant: str = "default",
    *,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
) -> Collected:
    """Remove the packs of a store that none of these roots leads to.

    Args:
        store: of one tenant.
        roots: **all** that anybody may want to go back to, of every session whose packs are in the store. Read after
            the store was listed.
        tenant: whose.
        grace_s: younger packs stay in any case. Longer than any time between a checkpoint and its commit.
        dry_run: only count.

    Raises:
        PacksBroken, PacksGone: a tree cannot be read; nothing was removed then.
        WorkspaceError: the store cannot be used.
    """
    old = await store.names(older_s=grace_s)
    reach = Reach(Drive(store, tenant).reader)
    async for root in roots:
        await reach.add(root)
    gone = [name for name in old if name not in reach.packs]
    if not dry_run:
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
