"""Group commit: one batcher per process above every World.

Commits of many sessions share a round trip, an fsync and a notification. Results are per commit: a refused one fails
only its own session.
"""

import asyncio
from typing import Final

from outlast.errors import WorldUnavailable
from outlast.world import Commit, Lease, World

BATCH_LIMIT: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024
PATIENCE_S: Final = 30.0
"""How long a store that is gone is asked again with the identical commits before their attempts stop."""


class Batcher:
    """Collects what is ready while one round trip is under way, and sends it as the next."""

    def __init__(self, world: World, *, patience_s: float = PATIENCE_S) -> None:
        self._world = world
        self._patience_s = patience_s
        self._waiting: list[tuple[Lease, Commit, asyncio.Future[None]]] = []
        self._flight: asyncio.Task[None] | None = None

    def put(self, lease: Lease, commit: Commit) -> asyncio.Future[None]:
        """Send a commit. The future ends when it has landed, or raises what the World said."""
        loop = asyncio.get_running_loop()
        landed: asyncio.Future[None] = loop.create_future()
        self._waiting.append((lease, commit, landed))
        if self._flight is None:
            self._flight = loop.create_task(self._fly())
        return landed

    async def _fly(self) -> None:
        try:
            while self._waiting:
                batch = self._take()
                await self._send(batch)
        finally:
            self._flight = None

    def _take(self) -> list[tuple[Lease, Commit, asyncio.Future[None]]]:
        size = count = 0
        for _, commit, _ in self._waiting:
            size += len(commit.body) + sum(map(len, commit.blobs.values()))
            if count and (size > BATCH_BYTES or count == BATCH_LIMIT):
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _send(self, batch: list[tuple[Lease, Commit, asyncio.Future[None]]]) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._patience_s
        pause = 0.01
        while True:
            try:
                results = await self._world.commit_many([(lease, commit) for lease, commit, _ in batch])
            except WorldUnavailable as error:
                if loop.time() >= give_up:
                    results = [error] * len(batch)
                else:
                    await asyncio.sleep(pause)
                    pause = min(1.0, pause * 2)
                    continue
            except BaseException as error:
                _fail(batch, error)
                raise
            break
        for (_, _, landed), result in zip(batch, results, strict=True):
            if landed.cancelled():
                continue
            if result is None:
                landed.set_result(None)
            else:
                landed.set_exception(result)

    async def drain(self) -> None:
        """Wait until everything that was put has landed or failed."""
        while self._flight is not None:
            await asyncio.wait([self._flight])


def _fail(batch: list[tuple[Lease, Commit, asyncio.Future[None]]], error: BaseException) -> None:
    failure = WorldUnavailable(world="the World", reason=f"{type(error).__name__}: {error}")
    for _, _, landed in batch:
        if not landed.done():
            landed.set_exception(failure)
