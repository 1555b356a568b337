"""What a stream of a job wrote, in files, bounded.

The newest `cap` bytes are kept at least; what was before them is dropped whole segments at a time, and whoever reads
from an offset that is gone is told so by the offset that they get.
"""

# ruff: noqa: PTH108
# pathlib would double the start-up time.

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SEGMENTS = 8
_SMALLEST = 64 * 1024


class Kept:
    """One stream, from byte `head` to byte `end`."""

    def __init__(self, path: str, cap: int, make_room: Callable[[], bool]) -> None:
        """Of nothing yet; `make_room` drops something that matters less, and says whether there was any."""
        self._path = path
        self._make_room = make_room
        self._cap = cap
        self._size = max(_SMALLEST, cap // _SEGMENTS)
        self._segments: list[tuple[int, int]] = []  # (offset of its first byte, descriptor)
        self.head = 0
        self.end = 0

    def append(self, data: bytes) -> None:
        """Keep `data`; where there is no room for it, nothing that came before it and not all of it."""
        rest = memoryview(data)
        while rest:
            taken = self._write(rest)
            if taken == 0 and not self._make_room() and not self._shrink():
                self.end += len(rest)
                self.head = self.end
                return
            rest = rest[taken:]
            while len(self._segments) > 1 and self.end - self._segments[1][0] >= self._cap:
                self._drop_oldest()

    def read(self, offset: int, most: int) -> tuple[int, bytes]:
        """(offset of the piece, piece): what is kept from `offset` on; empty at the end."""
        offset = max(offset, self.head)
        for index, (first, fd) in enumerate(self._segments):
            end = self._segments[index + 1][0] if index + 1 < len(self._segments) else self.end
            if offset < end:
                return offset, os.pread(fd, min(most, end - offset), offset - first)
        return offset, b""

    def close(self) -> bool:
        """Keep nothing of it. Whether there was anything."""
        some = bool(self._segments)
        while self._drop_oldest():
            pass
        return some

    def _write(self, data: memoryview) -> int:
        try:
            if not self._segments or self.end - self._segments[-1][0] >= self._size:
                self._open_segment()
            first, fd = self._segments[-1]
            taken = os.pwrite(fd, data[: self._size - (self.end - first)], self.end - first)
        except OSError:
            return 0  # the place is full: room is made, or it is lost, and the offset says so
        self.end += taken
        return taken

    def _open_segment(self) -> None:
        # Without a name: nothing that runs beside us finds it, and it is gone when its descriptor is.
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(self._path)
        self._segments.append((self.end, fd))

    def _shrink(self) -> bool:
        """Make room by what is kept here. False: what is left is empty, and would be dropped and made for ever."""
        before = self.head
        return self._drop_oldest() and self.head > before

    def _drop_oldest(self) -> bool:
        if not self._segments:
            return False
        os.close(self._segments.pop(0)[1])
        self.head = self._segments[0][0] if self._segments else self.end
        return True
