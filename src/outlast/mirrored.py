"""A file of a harness as its session's log has it.

Snapshots hold this struct, so it is a storage format: fields are only ever added, with a default.
"""

import msgspec

from outlast.records.payload import Payload


class FileState(msgspec.Struct):
    """A mirrored file of the harness: its lines, in pieces."""

    pieces: list[Payload] = []
    counts: list[int] = []
    """Of each piece, how many of its lines stand, from its first; the others were cut off."""
    kept: int = 0
    """Pieces, from the first, that stand as they did in the newest snapshot's parts."""

    @property
    def lines(self) -> int:
        return sum(self.counts)

    def cut(self, position: int) -> None:
        """From this line on nothing stands any more."""
        while self.lines > position:
            before = self.lines - self.counts[-1]
            if position > before:
                self.counts[-1] = position - before
                self.kept = min(self.kept, len(self.pieces) - 1)
            else:
                self.pieces.pop()
                self.counts.pop()
                self.kept = min(self.kept, len(self.pieces))
