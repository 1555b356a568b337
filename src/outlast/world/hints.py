"""Who waits for what in this process: what Worlds whose processes tell one another of changes have in common."""

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import anyio

from outlast.ids import short_digest

ANYONE: Final = 0
"""Stands for every session of every tenant."""


@lru_cache(maxsize=1024)  # it is asked for with every commit, of the few sessions that are at work
def key(tenant: str, session: str | None) -> int:
    """64 bits that stand for a session in hints; two sessions that share them wake each other without cause."""
    return short_digest(tenant.encode(), (session or "").encode())


def inbox_key(tenant: str, session: str) -> int:
    """Stands for the inbox of a session."""
    return key(tenant, f"{session}\0inbox")


def ready_key(tenant: str) -> int:
    """Stands for any session of a tenant that may have become ready."""
    return key(tenant, None)


class Hints:
    """One subscription."""

    def __init__(self, keys: frozenset[int]) -> None:
        self.keys = keys
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Something changed."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """See `outlast.world.Subscription`."""
        if not self._changed.is_set():
            with anyio.move_on_after(timeout_s):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed


class Board:
    """All subscriptions of this process to one World. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[Hints]] = {}

    @property
    def keys(self) -> frozenset[int]:
        """What anybody of this process waits for."""
        return frozenset(self._waiting)

    def add(self, hints: Hints) -> None:
        """Begin to tell a subscription."""
        for wanted in hints.keys:
            self._waiting.setdefault(wanted, set()).add(hints)

    def remove(self, hints: Hints) -> None:
        """Stop telling a subscription."""
        for wanted in hints.keys:
            there = self._waiting[wanted]
            there.discard(hints)
            if not there:
                del self._waiting[wanted]

    def tell(self, keys: Iterable[int]) -> None:
        """Tell whoever waits for one of `keys`."""
        for changed in keys:
            for hints in self._waiting.get(changed, ()):
                hints.tell()
