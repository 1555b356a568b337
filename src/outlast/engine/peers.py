"""The other workers of this host: a death among them is known at once, and proved."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from outlast.engine.proof import Holder, prove_dead, watch_death
from outlast.errors import WorldUnavailable
from outlast.logs import logger
from outlast.world import WorkerRow, World

log = logger("outlast.worker")


class Peers:
    """Watches every other worker of this host. Whoever has one cancels and awaits `watching` at the end.

    `news` is called when one is proved dead.
    """

    def __init__(self, world: World, locks: Path, host: str, news: Callable[[], None]) -> None:
        self._world = world
        self._locks = locks
        self._host = host
        self._news = news
        self._watched: dict[str, asyncio.Task[None]] = {}
        self.dead: set[str] = set()
        """Ids of those that are proved dead and have a row yet."""

    @property
    def watching(self) -> Sequence["asyncio.Task[None]"]:
        """The tasks that watch."""
        return list(self._watched.values())

    async def look(self, ours: str) -> None:
        """Begin to watch whoever is new; `ours` is the id of the worker that looks."""
        try:
            rows = await self._world.workers()
        except WorldUnavailable:
            return
        self.dead &= {row.worker for row in rows}
        for row in rows:
            if row.worker != ours and row.worker not in self._watched and row.worker not in self.dead:
                self._watch(row)

    def _watch(self, row: WorkerRow) -> None:
        try:
            holder = Holder.parse(row.holder)
        except ValueError:
            return
        if holder.host != self._host:
            return
        if prove_dead(self._locks, holder, here=self._host):
            self.dead.add(row.worker)
            return
        task = asyncio.get_running_loop().create_task(self._await_death(row.worker, holder))
        self._watched[row.worker] = task
        task.add_done_callback(lambda _: self._watched.pop(row.worker, None))

    async def _await_death(self, worker: str, holder: Holder) -> None:
        await watch_death(self._locks, holder, here=self._host)
        log.info("worker %s is proved dead", worker)
        self.dead.add(worker)
        self._news()
