"""Each session read once for all who watch it in this process."""

from collections.abc import AsyncGenerator
from typing import Protocol

from outlast.records.events import Event
from outlast.world import Cursor


class Hub(Protocol):
    """The feeds of every session that somebody watches here.

    * One reader of the World per session, however many watch it; it ends when the last has gone.
    * A watcher gets every event behind its cursor once, in order, hidden ones left out; what is behind the newest that
      the hub still holds is read from the World for it alone, at the cost of the tail only.
    * A watcher that takes nothing holds back nobody: it costs no more than the hub's window, and catches up from the
      World when it takes again.
    """

    def follow(self, tenant: str, session: str, after: Cursor) -> AsyncGenerator[Event]:
        """Every event behind `after`, then whatever comes, without end. Whoever stops early closes it (`aclosing`).

        Raises:
            SessionUnknown, SessionErased: at once, or when it happens.
            WorldUnavailable
        """
        ...
