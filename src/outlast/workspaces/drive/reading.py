"""Nodes and contents out of packs, each held to the digest that led to it."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from anyio import lowlevel

from outlast.drive import Packs
from outlast.errors import PacksGone
from outlast.ids import ContentHash, content_hash
from outlast.workspaces.drive.format import (
    DIR,
    NODE_LIMIT,
    PIECE,
    SPAN,
    Item,
    Node,
    Piece,
    Place,
    broken,
    decode_node,
    decode_pieces,
    node_digest,
    piece_sizes,
    shown,
)
from outlast.workspaces.drive.packing import unframe

_PACKS_KEPT: Final = 32 << 20
"""Bytes of packs that are kept for the next to read."""
_ITEMS_KEPT: Final = 50_000
"""Lines of nodes that are kept: some 20 MB."""
_ITEMS_AT_ONCE: Final = 5_000
"""Lines that are decoded before others have their turn: some 20 ms."""
NodeKey: TypeAlias = tuple[bytes, str, int]
"""Equal nodes of two trees may name their parts in different packs: digest, pack, offset."""
BATCH: Final = 6
"""Packs that are asked for at once: some 24 MB at most."""
_SMALL: Final = 2 << 20
_BATCH_LIMIT: Final = 24


class Reader:
    """Reads trees. Keeps what it has read, and the packs that are not durable yet."""

    def __init__(self, packs: Packs) -> None:
        self._packs = packs
        self.pending: dict[str, bytes] = {}
        """Packs of trees that no durable commit names yet."""
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._nodes: OrderedDict[NodeKey, Node] = OrderedDict()
        self._items_kept = 0
        self._decoded = 0

    async def fetch(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """These packs, in as few requests as may be. For a few: all are in memory then.

        Raises:
            PacksGone
        """
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            data = self.pending.get(name) or self._kept.get(name)
            if data is None:
                missing.append(name)
            else:
                found[name] = data
        if missing:
            came = await self._packs.get_many(missing)
            if gone := [name for name in missing if name not in came]:
                raise PacksGone(count=len(gone), where="their store", names=", ".join(gone[:5]))
            for name in missing:
                found[name] = came[name]
                self.keep(name, came[name])
        return found

    async def batches(self, names: Sequence[str]) -> AsyncIterator[Mapping[str, bytes]]:
        """These packs, some at a time: few where they are large, more where those before were small.

        A session of many calls has as many small packs, and each request of a World costs what a small pack does.
        """
        start, count = 0, BATCH
        while start < len(names):
            found = await self.fetch(names[start : start + count])
            yield found
            start += count
            count = BATCH if sum(map(len, found.values())) > _SMALL else min(2 * count, _BATCH_LIMIT)

    def keep(self, name: str, data: bytes) -> None:
        """Have this pack at hand for a while."""
        if name in self._kept:
            self._kept.move_to_end(name)
            return
        self._kept[name] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > _PACKS_KEPT and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])

    async def frame(self, place: Place, most: int) -> bytes:
        """What lies there. Raises `PacksBroken`, `PacksGone`."""
        return unframe((await self.fetch([place.pack]))[place.pack], place, most)

    async def node(self, above: Item) -> Node:
        """The node that a directory or a run has, held to what is said of it.

        Raises:
            PacksBroken, PacksGone
        """
        key = _key(above)
        found = self._nodes.get(key)
        if found is None:
            data = await self.frame(above.place, NODE_LIMIT)
            found = decode_node(data, above.place.pack)
            if node_digest(found.level, found.items) != above.digest:
                raise broken(f"{shown(above.name)}: a node is not what its digest says")
            self.keep_node(key, found)
            self._decoded += len(found.items)
            if self._decoded > _ITEMS_AT_ONCE:
                self._decoded = 0
                await (
                    lowlevel.checkpoint()
                )  # what is at hand is read without waiting, a million lines of it too
        if found.size != above.size or found.entries + (above.kind == DIR) != above.entries:
            raise broken(f"{shown(above.name)}: a node does not hold what is said of it")
        return found

    async def items(self, directory: Item) -> Sequence[Item]:
        """The entries of a directory, in order of their names."""
        if directory.entries == 1:
            return ()
        node = await self.node(directory)
        if node.level == 0:
            return node.items
        leaves = await self.leaves(directory)
        await self.prefetch(leaves)
        return [item for leaf in leaves for item in (await self.below(leaf, 0)).items]

    async def leaves(self, directory: Item, index: dict[bytes, Place] | None = None) -> Sequence[Item]:
        """The lowest runs of a directory, in order: one at least, if there is anything in it.

        Args:
            directory: whose.
            index: the runs above them are put here, by digest.
        """
        if directory.entries == 1:
            return ()
        node = await self.node(directory)
        known = {} if index is None else index
        known[directory.digest] = directory.place
        if node.level == 0:
            return [directory._replace(kind=SPAN, name=node.items[-1].name, entries=directory.entries - 1)]
        level, spans = node.level, node.items
        known.update([(span.digest, span.place) for span in spans])
        while level > 1:
            await self.prefetch(spans)
            level -= 1
            spans = [item for span in spans for item in (await self.below(span, level)).items]
            known.update([(span.digest, span.place) for span in spans])
        return spans

    async def below(self, span: Item, level: int) -> Node:
        """The node of a run, which must be of this level: no chain of nodes goes on for ever."""
        node = await self.node(span)
        if node.level != level or node.items[-1].name != span.name:
            raise broken(f"{shown(span.name)}: a run of entries is not where it belongs")
        return node

    async def prefetch(self, above: Sequence[Item]) -> None:
        """Read these nodes, if they are not at hand, with their packs some at a time instead of one by one."""
        wanted: dict[str, list[Item]] = {}
        for item in above:
            if item.entries > (item.kind == DIR) and _key(item) not in self._nodes:
                wanted.setdefault(item.place.pack, []).append(item)
        async for packs in self.batches(list(wanted)):
            for name in packs:
                for item in wanted[name]:
                    await self.node(item)

    async def pieces(self, file: Item) -> Sequence[Piece]:
        """The pieces of a large file."""
        return decode_pieces(await self.frame(file.place, NODE_LIMIT), file.place.pack, file.size)

    async def content(self, file: Item) -> AsyncIterator[bytes]:
        """The content of a file, in pieces of at most `PIECE` bytes.

        Raises:
            PacksBroken: it is not what its digest says; known no later than when the last piece was given.
            PacksGone
        """
        if file.size == 0:
            return
        if file.size <= PIECE:
            yield check_content(await self.frame(file.place, file.size), file)
            return
        whole = ContentHash()
        for piece, size in zip(await self.pieces(file), piece_sizes(file.size), strict=True):
            data = await self.frame(piece.place, size)
            if len(data) != size:
                raise broken(f"{shown(file.name)}: a piece of it has another length")
            whole.update(data)
            yield data
        if whole.digest() != file.digest:
            raise broken(f"{shown(file.name)}: its content is not what its digest says")

    def keep_node(self, key: NodeKey, node: Node) -> None:
        """Have this node at hand for a while."""
        if key in self._nodes:
            return
        self._nodes[key] = node
        self._items_kept += len(node.items)
        while self._items_kept > _ITEMS_KEPT and len(self._nodes) > 1:
            self._items_kept -= len(self._nodes.popitem(last=False)[1].items)


def _key(above: Item) -> NodeKey:
    return above.digest, above.place.pack, above.place.offset


def check_content(data: bytes, file: Item) -> bytes:
    """The content of a file of one piece, if it is its own.

    Raises:
        PacksBroken
    """
    if len(data) != file.size or content_hash(data) != file.digest:
        raise broken(f"{shown(file.name)}: its content is not what its digest says")
    return data
