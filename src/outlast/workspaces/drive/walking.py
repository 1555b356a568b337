"""What is in a tree, and what is different between two: no node is read that need not be."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from outlast.drive import Entry
from outlast.errors import FileMissing
from outlast.workspaces.drive.format import DEPTH_LIMIT, DIR, FILE, LINK, Item, broken, parse_root, shown
from outlast.workspaces.drive.paths import decode_text, encode_path, split_path
from outlast.workspaces.drive.reading import Reader

_KINDS: Final[dict[int, Literal["file", "link", "dir"]]] = {FILE: "file", LINK: "link", DIR: "dir"}


@dataclass(frozen=True, slots=True)
class Change:
    """What is not the same in two trees at one path."""

    path: str
    before: Entry | None
    after: Entry | None

    @property
    def what(self) -> Literal["added", "removed", "changed", "touched"]:
        """In a word; `touched`: nothing but the time of its last change is different."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        one, other = self.before, self.after
        same = (one.kind, one.mode, one.digest, one.target) == (
            other.kind,
            other.mode,
            other.digest,
            other.target,
        )
        return "touched" if same else "changed"


def as_entry(item: Item, path: bytes) -> Entry:
    """An item as the port shows it."""
    kind = _KINDS[item.kind]
    return Entry(
        decode_text(path),
        kind,
        0o777 if kind == "link" else item.mode,
        item.size if kind == "file" else 0,
        item.mtime_ns,
        item.digest.hex() if kind == "file" else "",
        decode_text(item.digest) if kind == "link" else "",
    )


class Walker:
    """Walks trees."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def find(self, root: str, path: str) -> tuple[Item, bytes] | None:
        """What is at `path`, and the path as the tree has it."""
        item = parse_root(root)
        names = split_path(encode_path(path))
        for name in names:
            found = await self._child(item, name)
            if found is None:
                return None
            item = found
        return item, b"/".join(names)

    async def get(self, root: str, path: str) -> tuple[Item, bytes]:
        """What is at `path`.

        Raises:
            FileMissing
        """
        found = await self.find(root, path)
        if found is None:
            raise FileMissing(path=path)
        return found

    async def _child(self, directory: Item, name: bytes) -> Item | None:
        if directory.kind != DIR or directory.entries == 1:
            return None
        node = await self._reader.node(directory)
        while node.level > 0:
            span = next((span for span in node.items if span.name >= name), None)
            if span is None:
                return None
            node = await self._reader.below(span, node.level - 1)
        return next((item for item in node.items if item.name == name), None)

    async def below(self, directory: Item, path: bytes, depth: int = 0) -> AsyncIterator[tuple[bytes, Item]]:
        """All that is in a directory, in order, each directory before what is in it."""
        check_depth(depth, path)
        items = await self._reader.items(directory)
        await self._reader.prefetch([item for item in items if item.kind == DIR])
        for item in items:
            at = path + b"/" + item.name if path else item.name
            yield at, item
            if item.kind == DIR:
                async for inner in self.below(item, at, depth + 1):
                    yield inner

    async def diff(
        self, before: Item, after: Item, path: bytes = b"", depth: int = 0
    ) -> AsyncIterator[tuple[bytes, Item | None, Item | None]]:
        """What is in one directory and not the same in another, in order of the names."""
        check_depth(depth, path)
        if before.digest == after.digest:
            return
        old, new = await self._differing(before, after)
        for name in sorted(old.keys() | new.keys()):
            one, other = old.get(name), new.get(name)
            if one is not None and other is not None and one[:7] == other[:7]:
                continue
            at = path + b"/" + name if path else name
            if one is not None and other is not None and one.kind == other.kind:
                found = self._both(one, other, at, depth)
            else:
                found = self._whole(one, other, at, depth)
            async for inner in found:
                yield inner

    async def _both(
        self, one: Item, other: Item, at: bytes, depth: int
    ) -> AsyncIterator[tuple[bytes, Item | None, Item | None]]:
        """What is different of two entries of one kind."""
        if one.kind != DIR or (one.mode, one.mtime_ns) != (other.mode, other.mtime_ns):
            yield at, one, other
        if one.kind == DIR:
            async for inner in self.diff(one, other, at, depth + 1):
                yield inner

    async def _whole(
        self, one: Item | None, other: Item | None, at: bytes, depth: int
    ) -> AsyncIterator[tuple[bytes, Item | None, Item | None]]:
        """All that is gone with one entry, and all that has come with another."""
        if one is not None and other is not None:
            yield at, one, other
        elif one is not None:
            yield at, one, None
        else:
            yield at, None, other
        if one is not None and one.kind == DIR:
            async for path, item in self.below(one, at, depth + 1):
                yield path, item, None
        if other is not None and other.kind == DIR:
            async for path, item in self.below(other, at, depth + 1):
                yield path, None, item

    async def _differing(self, before: Item, after: Item) -> tuple[dict[bytes, Item], dict[bytes, Item]]:
        """The entries of those runs of two directories that are not the same."""
        old_level, old = await self._top(before)
        new_level, new = await self._top(after)
        while True:
            while old_level > new_level:
                old_level, old = await self._down(old, old_level)
            while new_level > old_level:
                new_level, new = await self._down(new, new_level)
            if old_level == 0:
                return {item.name: item for item in old}, {item.name: item for item in new}
            shared = {(span.name, span.digest) for span in old} & {(span.name, span.digest) for span in new}
            old_level, old = await self._down(
                [span for span in old if (span.name, span.digest) not in shared], old_level
            )
            new_level, new = await self._down(
                [span for span in new if (span.name, span.digest) not in shared], new_level
            )

    async def _top(self, directory: Item) -> tuple[int, Sequence[Item]]:
        if directory.entries == 1:
            return 0, ()
        node = await self._reader.node(directory)
        return node.level, node.items

    async def _down(self, spans: Sequence[Item], level: int) -> tuple[int, Sequence[Item]]:
        await self._reader.prefetch(spans)
        nodes = [await self._reader.below(span, level - 1) for span in spans]
        return level - 1, [item for node in nodes for item in node.items]


def check_depth(depth: int, path: bytes) -> None:
    """Raises `PacksBroken` where directories are within one another deeper than any tree has them."""
    if depth > DEPTH_LIMIT:
        raise broken(f"{shown(path)[:200]}…: directories are nested deeper than {DEPTH_LIMIT}")
