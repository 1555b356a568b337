"""Group commit: one batcher per process above every World.

Commits of many sessions share a round trip, an fsync and a notification. Results are per commit: a refused one fails
only its own session.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from outlast.errors import WorldUnavailable
from outlast.logs import logger
from outlast.world import Commit, Lease, World

BATCH_LIMIT: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024
PATIENCE_S: Final = 30.0
"""How long a store that is gone is asked again with the identical commits before their attempts stop."""

LONG_S: Final = 1.0
"""The longest pause between two asks; who asks that seldom says why, once."""

log = logger("outlast.worker")

T = TypeVar("T")
Landed: TypeAlias = Callable[[Exception | None], None]
_Waiting: TypeAlias = tuple[Lease, Commit, Landed]


async def patiently(ask: Callable[[], Awaitable[T]], *, patience_s: float = PATIENCE_S) -> T:
    """What `ask` answers: anything that may be asked twice, asked again while the store is gone.

    Raises:
        WorldUnavailable: the store was gone for longer than that.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + patience_s
    pause, told = 0.01, False
    while True:
        try:
            return await ask()
        except WorldUnavailable as error:
            if loop.time() >= give_up:
                raise
            if pause == LONG_S and not told:
                told = True
                log.warning("asking again for up to %.0f s: %s", give_up - loop.time(), error)
        await asyncio.sleep(pause)
        pause = min(LONG_S, pause * 2)


class Batcher:
    """Collects what is ready while one round trip is under way, and sends it as the next."""

    def __init__(self, world: World, *, patience_s: float = PATIENCE_S) -> None:
        self._world = world
        self._patience_s = patience_s
        self._waiting: list[_Waiting] = []
        self._flight: asyncio.Task[None] | None = None

    def put(self, lease: Lease, commit: Commit, landed: Landed) -> None:
        """Send a commit. `landed` is called once: when it has landed, or with what the World said instead."""
        self._waiting.append((lease, commit, landed))
        if self._flight is None:
            self._flight = asyncio.get_running_loop().create_task(self._fly())

    async def _fly(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                batch = self._take()
                await self._send(batch)
        except BaseException as error:
            # The worker ends, or the World broke its contract: nobody may be left waiting for what is not sent.
            failure = WorldUnavailable(world=self._world.name, reason=f"{type(error).__name__}: {error}")
            batch, self._waiting = [*batch, *self._waiting], []
            _settle(batch, [failure] * len(batch))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._flight = None

    def _take(self) -> list[_Waiting]:
        """The next batch: at most one commit of each session, as a World wants it."""
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        size = 0
        sessions: set[str] = set()
        for one in self._waiting:
            lease, commit, _ = one
            more = len(commit.body) + sum(map(len, commit.blobs.values()))
            full = rest or len(batch) == BATCH_LIMIT or (batch and size + more > BATCH_BYTES)
            if full or lease.session in sessions:
                rest.append(one)
            else:
                batch.append(one)
                sessions.add(lease.session)
                size += more
        self._waiting = rest
        return batch

    async def _send(self, batch: list[_Waiting]) -> None:
        commits = [(lease, commit) for lease, commit, _ in batch]
        try:
            results = await patiently(lambda: self._world.commit_many(commits), patience_s=self._patience_s)
        except WorldUnavailable as error:
            results = [error] * len(batch)
        _settle(batch, results)

    async def drain(self) -> None:
        """Wait until everything that was put has landed or failed."""
        while self._flight is not None and not self._flight.done():
            await asyncio.wait([self._flight])


def _settle(batch: list[_Waiting], results: Sequence[Exception | None]) -> None:
    """Tell each of `batch` its result, and take it out of the batch: nobody is told twice."""
    for (_, _, landed), result in zip([*batch], results, strict=True):
        del batch[0]
        landed(result)
