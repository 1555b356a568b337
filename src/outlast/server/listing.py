"""A tenant's list of sessions, read once for all who follow it. Belongs to one event loop."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio

from outlast.errors import WorldUnavailable
from outlast.server.feeds import LISTED
from outlast.world import SessionHead, World

GATHER_S: Final = 0.25
"""Between two looks at most so often, however much is going on."""
LOOK_S: Final = 1.0
"""Commits of a session that somebody holds are told to those who follow it, and found by looking here."""


@dataclass(slots=True)
class _Changed:
    """See `outlast.server.feeds.Changes`; kept for somebody until it takes it."""

    by_name: dict[str, SessionHead] = field(default_factory=dict[str, SessionHead])
    erased: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def heads(self) -> Sequence[SessionHead]:
        return list(self.by_name.values())

    @property
    def gone(self) -> Sequence[str]:
        return list(self.erased)

    def add(self, heads: Sequence[SessionHead], gone: Sequence[str]) -> None:
        for head in heads:
            self.by_name.pop(head.session, None)
            self.by_name[head.session] = head
        for name in gone:
            self.by_name.pop(name, None)
            self.erased[name] = None

    def __bool__(self) -> bool:
        return bool(self.by_name or self.erased)


@dataclass(slots=True, eq=False)
class _Seat:
    """Somebody who follows the list, and what it has not taken yet: at most each session once."""

    changed: _Changed
    told: anyio.Event = field(default_factory=anyio.Event)


class Listing:
    """The newest sessions of a tenant, as they were at the last look."""

    def __init__(self, world: World) -> None:
        self.scope = anyio.CancelScope()
        self._world = world
        self._known: dict[str, SessionHead] | None = None
        """In the order of the list, the newest change first; None before the first look."""
        self._seats: set[_Seat] = set()
        self._ended = False

    async def read(self) -> None:
        """Look again and again until the scope is cancelled."""
        with self.scope:
            async with self._world.subscribe() as hints:
                while True:
                    with suppress(WorldUnavailable):  # it is asked again; who follows sees a silence
                        await self._look()
                    await anyio.sleep(GATHER_S)
                    await hints.wait(LOOK_S - GATHER_S)

    async def _look(self) -> None:
        known = self._known or {}
        newest = await self._newest(known)
        changed = [head for head in newest.values() if known.get(head.session) != head]
        gone = await self._gone(known, newest)
        older = {name: head for name, head in known.items() if name not in newest and name not in gone}
        kept = {**newest, **older}
        self._known = dict(list(kept.items())[: 2 * LISTED])
        for seat in self._seats:
            self._tell(seat, changed[::-1], gone)

    async def _newest(self, known: Mapping[str, SessionHead]) -> dict[str, SessionHead]:
        """The newest page, and more of them while nothing of a page is as it was."""
        found: dict[str, SessionHead] = {}
        after: str | None = None
        while True:
            page = await self._world.list(after=after, limit=LISTED)
            for head in page.sessions:
                found.setdefault(head.session, head)
            after = page.next
            as_it_was = any(known.get(head.session) == head for head in page.sessions)
            if after is None or as_it_was or not known:
                return found

    async def _gone(self, known: Mapping[str, SessionHead], newest: Mapping[str, SessionHead]) -> list[str]:
        """Sessions that should stand among the newest, and do not."""
        if not known:
            return []
        full = len(newest) >= LISTED
        oldest_s = min((head.updated_at_s for head in newest.values()), default=0.0)
        return [
            name
            for name, head in known.items()
            if name not in newest and (not full or head.updated_at_s > oldest_s)
        ]

    def _tell(self, seat: _Seat, heads: Sequence[SessionHead], gone: Sequence[str]) -> None:
        seat.changed.add(heads, gone)
        if seat.changed:
            seat.told.set()

    def end(self) -> None:
        """Let those who follow end."""
        self._ended = True
        for seat in self._seats:
            seat.told.set()

    async def changes(self, beat_s: float) -> AsyncGenerator[_Changed | None]:
        """See `outlast.server.feeds.Hub.changes`."""
        seat = _Seat(_Changed())
        self._seats.add(seat)
        try:
            if self._known is not None:
                self._tell(seat, list(self._known.values())[:LISTED][::-1], [])
            while not self._ended:
                with anyio.move_on_after(beat_s):
                    await seat.told.wait()
                seat.told = anyio.Event()
                changed, seat.changed = seat.changed, _Changed()
                if not self._ended:
                    yield changed or None
        finally:
            self._seats.discard(seat)
