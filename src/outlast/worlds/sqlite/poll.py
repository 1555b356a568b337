"""The slow poll behind the hints: what a lost datagram would have told is noticed within a second or two."""

import asyncio
import threading

from outlast.errors import WorldUnavailable
from outlast.world.hints import ANYONE, inbox_key, key, ready_key
from outlast.worlds.sqlite.hints import Switchboard
from outlast.worlds.sqlite.reader import Reader
from outlast.worlds.sqlite.reads import SQL
from outlast.worlds.sqlite.transaction import NEWEST_CHANGE, Query


class Poll:
    """Looks every `poll_s` seconds, while anybody waits, whether something changed that nobody told of.

    An idle file costs one `pragma data_version`; a busy one two index lookups per tenant.
    """

    def __init__(self, reader: Reader, board: Switchboard, poll_s: float) -> None:
        self._reader = reader
        self._board = board
        self._poll_s = poll_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._tenants: dict[str, int | None] = {}
        """The newest change of each that was seen; None before the first look."""
        self._versions: dict[int, int] = {}
        """Of the file, as each reading thread saw it: numbers of two connections do not compare."""

    def watch(self, tenant: str) -> None:
        """Look for changes of `tenant` from now on."""
        self._tenants.setdefault(tenant, None)
        if self._timer is None and not self._busy:
            self._timer = self._loop.call_later(self._poll_s, self._ask)

    def close(self) -> None:
        """Look no more."""
        self._busy = True
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self) -> None:
        self._timer = None
        if not self._board.keys:
            return  # the next `watch` begins anew
        self._busy = True
        try:
            self._reader.read(self._look).add_done_callback(self._seen)
        except WorldUnavailable:
            return  # it was closed

    def _seen(self, looked: asyncio.Future[set[int] | None]) -> None:
        self._busy = False
        if looked.cancelled() or looked.exception() is not None:
            # The World cannot be read: whoever waits finds out, and says so, when it reads.
            self._board.tell(self._board.keys)
        else:
            found = looked.result()
            self._board.tell(self._board.keys if found is None else found)
        if not self._reader.closed:
            self._timer = self._loop.call_later(self._poll_s, self._ask)

    def _look(self, query: Query) -> set[int] | None:
        """On a reading thread: the keys of what may have changed since the last look, or None for everything."""
        [[version]] = query.rows("pragma data_version")
        me = threading.get_ident()
        tenants = dict(self._tenants)
        if self._versions.get(me) == version and None not in tenants.values():
            return set()
        self._versions[me] = version
        told = {ANYONE}
        for tenant, seen in tenants.items():
            told |= self._look_at(query, tenant, seen or 0)
        return None if None in tenants.values() else told

    def _look_at(self, query: Query, tenant: str, seen: int) -> set[int]:
        found = query.one(NEWEST_CHANGE, (tenant,))
        self._tenants[tenant] = found[0] if found else 0
        # Deltas move no change number; but only sessions that somebody holds have any.
        names = query.rows(SQL["changed_since"], (tenant, seen)) + query.rows(SQL["held"], (tenant,))
        keys = (key, inbox_key)
        return {ready_key(tenant)} | {of(tenant, session) for (session,) in names for of in keys}
