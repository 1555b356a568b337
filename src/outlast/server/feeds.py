"""Each session read once for all who watch it in this process."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from outlast.records.events import Event
from outlast.server.streams.frames import event_frame
from outlast.world import Cursor, SessionHead

BEAT_S: Final = 15.0
"""A connection on which nothing was sent for so long gets a sign of life."""


class Shown:
    """An event as everybody who watches its session is given it."""

    __slots__ = ("_frame", "event", "place", "size")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.place = Cursor.parse(event.cursor)
        self.size = 600 + 2 * (len(event.text) + len(event.payload.json))
        """Bytes that it takes up here, roughly."""
        self._frame = b""

    @property
    def frame(self) -> bytes:
        """As a plain stream sends it; made once for all, when the first asks."""
        if not self._frame:
            self._frame = event_frame(self.event)
        return self._frame


class Changes(Protocol):
    """What has changed in a tenant's list of sessions."""

    @property
    def heads(self) -> Sequence[SessionHead]:
        """Sessions as they stand now, the oldest change first."""
        ...

    @property
    def gone(self) -> Sequence[str]:
        """Sessions that were erased."""
        ...


class Hub(Protocol):
    """The feeds of every session that somebody watches here.

    * *Exact.* A watcher is given every event behind its cursor once, in order, hidden ones left out; then whatever
      comes.
    * *Read once.* One reader of the World per session of a tenant, however many watch it; it ends when the last has
      gone. It keeps a bounded window of what it read last, and each event is decoded, and made into the text of a plain
      stream, once for all.
    * *Behind the window* a watcher is read for alone, at the cost of what lies between, until it has caught up. A
      bounded number of these reads is under way at once, and what they found and nobody took yet is bounded for all
      together: what is too much is forgotten and read again.
    * *Nobody waits for another.* A watcher that takes nothing costs its place and no more, and catches up when it takes
      again.
    * *The World is away*: the readers try again, with a bounded pause, where they were. Watchers see a silence, and
      neither a gap nor a repeat.
    * *The end.* After `end` every stream ends in order behind what it has given, and new ones at once: whoever watches
      comes back with its cursor, to the next process.

    An iterator belongs to one task at a time. Whoever stops early closes it (`aclosing`).
    """

    def follow(self, tenant: str, session: str, after: Cursor) -> AsyncGenerator[Event]:
        """Every event behind `after`, then whatever comes, until `end`.

        Raises:
            SessionUnknown, SessionErased: at once, or when it happens.
            OutlastError: the log cannot be read by this version.
        """
        ...

    def batches(
        self, tenant: str, session: str, after: Cursor, beat_s: float = BEAT_S
    ) -> AsyncGenerator[Sequence[Shown]]:
        """The same, as many at a time as are there, within bounds; an empty one when nothing came for `beat_s`."""
        ...

    def changes(self, tenant: str, beat_s: float = BEAT_S) -> AsyncGenerator[Changes | None]:
        """The newest `LISTED` sessions of a tenant at once, then each that changes, several in one; until `end`.

        A change shows within about a second. None when nothing changed for `beat_s`. One reader of the World per
        tenant; while the World is away it tries again.
        """
        ...

    def end(self) -> None:
        """Let every stream end."""
        ...


LISTED: Final = 200
