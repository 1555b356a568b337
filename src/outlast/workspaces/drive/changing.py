"""A new tree from another and a list of changes, without a directory."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyio import to_thread

from outlast.drive import Entry
from outlast.errors import BadInput
from outlast.workspaces.drive.building import Builder, as_directory, cut, ends_run
from outlast.workspaces.drive.format import (
    DIR,
    DIR_MODES,
    FILE,
    FILE_MODES,
    LINK,
    NOWHERE,
    Item,
    Place,
    is_target,
    kept_time,
)
from outlast.workspaces.drive.paths import encode_path, encode_text, split_path
from outlast.workspaces.drive.reading import Reader

_DIR_MODE: Final = 0o755
_INLINE: Final = 128 * 1024
"""More bytes than this are hashed and compressed in a thread."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a tree."""

    path: str
    entry: Entry | None
    """What is there afterwards; its `path`, `size` and `digest` are not read. None: nothing, nor anything below it."""
    data: bytes | None = None
    """The content of a file. None: as it was, where only mode and time change."""


@dataclass(slots=True)
class Change:
    """What is to become of a name in a directory."""

    edit: Edit | None = None
    fresh: bool = False
    """What was there before is gone, with all below it."""
    below: dict[bytes, "Change"] = field(default_factory=dict[bytes, "Change"])


def gathered(edits: Sequence[Edit]) -> Change:
    """The edits as they come to stand: of those of one path the last.

    Raises:
        BadInput: a path is none that a tree can have, or leads through a file.
    """
    top = Change()
    for edit in edits:
        names = split_path(encode_path(edit.path))
        if not names:
            raise BadInput(
                detail="The directory of a workspace itself cannot be changed, only what is in it."
            )
        at = top
        for name in names[:-1]:
            at = at.below.setdefault(name, Change())
            if at.edit is not None and (at.edit.entry is None or at.edit.entry.kind != "dir"):
                if at.edit.entry is not None:
                    raise BadInput(detail=f"{edit.path} cannot be made: what is above it is no directory.")
                at.edit, at.fresh = None, True
        before = at.below.get(names[-1])
        keeps = edit.entry is not None and edit.entry.kind == "dir"
        if before is None:
            at.below[names[-1]] = Change(edit, fresh=not keeps)
        else:
            was = before.edit
            gone = was is not None and (was.entry is None or was.entry.kind != "dir")
            kept = edit if edit.data is not None or was is None or was.data is None else _with(edit, was.data)
            at.below[names[-1]] = Change(
                kept, before.fresh if keeps and not gone else True, before.below if keeps else {}
            )
    return top


def _with(edit: Edit, data: bytes) -> Edit:
    """An edit of mode and time alone, behind one that gave the content."""
    return Edit(edit.path, edit.entry, data if edit.entry is not None else None)


class Changer:
    """Applies changes to the directories of one tree."""

    def __init__(self, reader: Reader, builder: Builder, known: dict[bytes, Place]) -> None:
        self._reader = reader
        self._builder = builder
        self._known = known
        """The nodes of the tree before: filled as they are read, looked at by the builder."""

    async def directory(self, before: Item | None, changes: Mapping[bytes, Change]) -> Item | None:
        """The uppermost node of a directory after changes to what is in it; None: nothing is."""
        leaves: Sequence[Item] = () if before is None else await self._reader.leaves(before, self._known)
        ends = [leaf.name for leaf in leaves]
        parts: dict[int, dict[bytes, Change]] = {}
        for name in sorted(changes):
            number = min(bisect_left(ends, name), max(len(ends) - 1, 0))
            parts.setdefault(number, {})[name] = changes[name]
        runs: list[Item] = []
        held: list[Item] = []  # entries of a run whose end is gone: it goes on into the next
        for number in range(max(len(leaves), 1)):
            part = parts.get(number)
            if part is None and not held and leaves:
                runs.append(leaves[number])
                continue
            old = (await self._reader.below(leaves[number], 0)).items if leaves else ()
            held += await self._merged(old, part or {})
            if number < len(leaves) - 1 and held and not ends_run(held[-1].name, 0):
                continue
            runs += [self._builder.node(0, run) for run in cut(held, 0)]
            held = []
        if len(runs) < 2:
            return runs[0] if runs else None
        return self._builder.stacked(runs, 1)

    async def _merged(self, old: Sequence[Item], changes: Mapping[bytes, Change]) -> list[Item]:
        merged = {item.name: item for item in old}
        for name, change in changes.items():
            item = await self._changed(name, merged.get(name), change)
            if item is None:
                merged.pop(name, None)
            else:
                merged[name] = item
        return [merged[name] for name in sorted(merged)]

    async def _changed(self, name: bytes, was: Item | None, change: Change) -> Item | None:
        edit = change.edit
        if edit is not None and edit.entry is None:
            return None
        if edit is not None and edit.entry is not None and edit.entry.kind != "dir":
            return await self._leaf(name, was, edit, edit.entry)
        before = None if was is None or change.fresh or was.kind != DIR else was
        span = await self.directory(before, change.below)
        if edit is not None and edit.entry is not None:
            mode, mtime_ns = edit.entry.mode & DIR_MODES, kept_time(edit.entry.mtime_ns)
        elif before is not None:
            mode, mtime_ns = before.mode, before.mtime_ns
        elif not _makes(change):
            gone = change.fresh or was is None or was.kind == DIR
            return None if gone else was  # only removals, below what is not there
        else:
            mode, mtime_ns = _DIR_MODE, kept_time(_newest(change))
        return as_directory(name, mode, mtime_ns, span)

    async def _leaf(self, name: bytes, was: Item | None, edit: Edit, entry: Entry) -> Item:
        if entry.kind == "link":
            target = encode_text(entry.target)
            if not is_target(target):
                raise BadInput(detail=f"The link {edit.path} has no target that a link can have.")
            return Item(LINK, name, 0, kept_time(entry.mtime_ns), len(target), 1, target, NOWHERE)
        mode = entry.mode & FILE_MODES
        if edit.data is None:
            if was is None or was.kind != FILE:
                raise BadInput(detail=f"{edit.path} has no content: none was given, and no file was there.")
            return was._replace(mode=mode, mtime_ns=kept_time(entry.mtime_ns))
        known = {} if was is None or was.kind != FILE or was.size == 0 else {was.digest: was.place}
        if len(edit.data) > _INLINE:
            digest, place = await to_thread.run_sync(self._builder.whole, edit.data, known)
        else:
            digest, place = self._builder.whole(edit.data, known)
        return Item(FILE, name, mode, kept_time(entry.mtime_ns), len(edit.data), 1, digest, place)


def _makes(change: Change) -> bool:
    """Whether anything is put below."""
    return any(
        (below.edit is not None and below.edit.entry is not None) or _makes(below)
        for below in change.below.values()
    )


def _newest(change: Change) -> int:
    times = [
        below.edit.entry.mtime_ns
        if below.edit is not None and below.edit.entry is not None
        else _newest(below)
        for below in change.below.values()
    ]
    return max(times, default=0)
