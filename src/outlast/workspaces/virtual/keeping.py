"""The files and the shell as the last call left them: what a new process of the shell is made of."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from outlast.drive import Capture, Entry
from outlast.errors import BadInput
from outlast.workspaces.drive.changing import Edit
from outlast.workspaces.drive.tree import Drive
from outlast.workspaces.virtual.wire import Piece, State


class Kept:
    """Invariants.

    1. What is here is what the shell's process showed after its last finished ask, and no half of one.
    2. It is `root`, and on top of that what has changed since: contents that are in packs are not held in memory.
    """

    def __init__(self, drive: Drive, root: str, aside: Mapping[str, Any]) -> None:
        self._drive = drive
        self._root = root
        self._changed: dict[str, Piece | None] = {}
        """By path; None: it is gone."""
        try:
            self.state: State = msgspec.convert(aside.get("shell", {}), State)
        except msgspec.ValidationError as error:
            raise BadInput(detail=f"The state of the shell cannot be read: {error}.") from None

    def took(self, pieces: Sequence[Piece], gone: Sequence[str], state: State | None) -> None:
        """An ask was done, and these are its changes."""
        for path in gone:
            self._changed[path] = None
        for piece in pieces:
            self._changed[piece.path] = piece
        if state is not None:
            self.state = state

    async def pieces(self) -> AsyncIterator[Piece]:
        """All that is in the tree, each directory before what is in it.

        Raises:
            PacksBroken, PacksGone
        """
        async for entry in self._drive.entries(self._root):
            if entry.kind != "file" and entry.path not in self._changed:
                yield _piece(entry, b"")
        async for entry, data in self._drive.contents(self._root):
            if entry.path not in self._changed:
                yield _piece(entry, data)
        for _, piece in sorted(self._changed.items()):
            if piece is not None:
                yield piece

    async def capture(self) -> Capture:
        """The tree as it is now, with the shell beside it."""
        gone = [Edit(path, None) for path, piece in self._changed.items() if piece is None]
        put = [_edit(piece) for _, piece in sorted(self._changed.items()) if piece is not None]
        capture = await self._drive.edit(self._root, [*reversed(gone), *put])
        self._root = capture.root
        self._changed = {}
        return replace(capture, aside={"shell": msgspec.json.decode(msgspec.json.encode(self.state))})

    def captured(self, root: str) -> None:
        """Everything of this root is durable."""
        self._drive.captured(root)


def _piece(entry: Entry, data: bytes) -> Piece:
    return Piece(entry.path, entry.kind, entry.mode, entry.mtime_ns, data, entry.target)


def _edit(piece: Piece) -> Edit:
    entry = Entry(piece.path, piece.kind, piece.mode, len(piece.data), piece.mtime_ns, target=piece.target)
    return Edit(piece.path, entry, piece.data if piece.kind == "file" else None)
