"""What goes to the harness, between the task that hears the provider and the one that tells the harness.

The two are apart so that the call goes on when the harness is gone, and so that a harness which takes nothing holds up
nobody. Bounded by the size of one answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import anyio

from outlast.gateway.wire import Header


@dataclass(frozen=True, slots=True)
class Whole:
    """A response that is there at once."""

    status: int
    body: bytes
    headers: tuple[Header, ...]


class Feed:
    """The answer to one model request, as it comes. One reader."""

    def __init__(self) -> None:
        self.status = 0
        """0 as long as nothing has come."""
        self.headers: tuple[Header, ...] = ()
        self.holding = False
        """The rest waits for the log."""
        self.instead: Whole | None = None
        """What to answer when the call came to nothing and the harness has been told nothing."""
        self.ended: Literal["", "whole", "cut", "again"] = ""
        self.again_s = 0.0
        """Of one that has ended so that the provider is to be asked again: after so many seconds."""
        self._pieces: list[bytes] = []
        self._changed = anyio.Event()

    def open(self, status: int, headers: Iterable[Header]) -> None:
        self.status, self.headers = status, tuple(headers)

    def put(self, *pieces: bytes) -> None:
        self._pieces.extend(pieces)
        self._changed.set()

    def hold(self) -> None:
        """What comes from here on waits for the log."""
        if not self.holding:
            self.holding = True
            self._changed.set()

    def end(self) -> None:
        self.ended = "whole"
        self._changed.set()

    def fail(self, instead: Whole) -> None:
        """The call came to nothing: answer `instead`, or if something was told already, cut the connection."""
        if not self.status:
            self.instead = instead
        self.cut()

    def put_off(self, again_s: float) -> None:
        """The call came to nothing, of which the harness has been told nothing: it is to be made again."""
        self.again_s, self.ended = again_s, "again"
        self._changed.set()

    def cut(self) -> None:
        """End in the middle, without a word."""
        self.ended = self.ended or "cut"
        self._changed.set()

    def take(self) -> bytes:
        """All that has come since; empty if nothing."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._changed = anyio.Event()
        return data

    async def wait(self) -> None:
        """Until something has come, is held from here on, or it has ended."""
        if not self._pieces and not self.ended:
            await self._changed.wait()
