"""Hints between the processes on one database: NOTIFY after the commits, one for many of them.

`NOTIFY` takes a lock of the whole database from its commit's start to its end. Within a transaction that waits for
the disk that would put all writers of all processes in one line. So it is sent after the commit, in a transaction
that waits for nothing, by one task of each process: what changes while one is under way goes with the next. A process
that dies before it has sent one, a listener that was away: whoever waits looks again by the slow poll (`poll.py`).
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import anyio

from outlast.errors import OutlastError
from outlast.ids import new_id
from outlast.world.hints import ANYONE, Board
from outlast.worlds.postgres.pool import Pool

NOTIFY: Final = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
KEYS: Final = 450
"""Of 17 bytes each; a payload holds less than 8,000 bytes."""
MANY: Final = "many"
GATHER_S: Final = 0.005
"""Between two notifications of a process."""
CLOSE_LIMIT_S: Final = 2.0


def write_hint(sender: str, keys: Iterable[int]) -> str:
    """The payload of a notification."""
    every = [f"{key:x}" for key in keys]
    return " ".join([sender, *(every if len(every) <= KEYS else [MANY])])


def read_hint(payload: str, ours: str, board: Board) -> frozenset[int]:
    """Which keys a notification tells of; none if this process sent it, or if it is none of outlast's."""
    sender, *words = payload.split(" ")
    if sender == ours:
        return frozenset()
    if words == [MANY]:
        return board.keys | {ANYONE}
    try:
        return frozenset(int(word, 16) for word in words)
    except ValueError:
        return frozenset()


class Postman:
    """Tells this process at once, and the others by notifications. Belongs to one event loop."""

    def __init__(self, pool: Pool, channel: str, tell: Callable[[Iterable[int]], None]) -> None:
        self.name = new_id("p")
        self._pool = pool
        self._channel = channel
        self._tell = tell
        self._pending: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tell(self, keys: Iterable[int]) -> None:
        """Something has changed and is durable."""
        self._tell(keys)
        self._pending.update(keys)
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._pending:
            keys, self._pending = self._pending, set()
            # One that cannot be sent is lost: the poll of whoever waits makes up for it.
            with suppress(OutlastError):
                await self._pool.rows(NOTIFY, self._channel, write_hint(self.name, keys))
            if not self._closed:
                await asyncio.sleep(GATHER_S)
        self._task = None

    async def close(self) -> None:
        """Send what waits. Bounded."""
        self._closed = True
        task = self._task
        if task is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task], timeout=CLOSE_LIMIT_S)
            task.cancel()
