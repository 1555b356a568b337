"""The other workers of this host: a death among them is known at once, and proved."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from outlast.clock import SystemClock
from outlast.engine.proof import Holder, prove_dead, sweep_locks, watch_death
from outlast.errors import WorldUnavailable
from outlast.logs import logger
from outlast.world import WorkerRow, World

LOCKS_KEPT_S: Final = 24 * 3600.0
"""How long a lock proves a death: by then every lease of the dead has long run out."""

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

    async def look(self, ours: str) -> bool:
        """Begin to watch whoever is new; `ours` is the id of the worker that looks. True if one is dead already."""
        try:
            rows = await self._world.workers()
        except WorldUnavailable:
            return False
        self.dead &= {row.worker for row in rows}
        known = len(self.dead)
        for row in rows:
            if row.worker != ours and row.worker not in self._watched and row.worker not in self.dead:
                self._watch(row)
        return len(self.dead) > known

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


async def forget_locks(world: World, locks: Path) -> None:
    """Remove the locks of those who died here long ago; each worker and each attempt leaves one."""

    async def named() -> list[str]:
        return [row.holder.rpartition("/")[2] for row in await world.workers()]

    try:
        # The machine's own clock dates files, whatever clock the worker is given.
        await sweep_locks(locks, older_than_s=LOCKS_KEPT_S, keep=named, clock=SystemClock())
    except WorldUnavailable:
        return  # the next worker does it


def retire(world: World, name: str) -> None:
    """Give up the row of a worker, and its leases with it."""
    handle = world.open_liveness()  # the other one is the keeper's, whose thread may still wait for an answer
    try:
        handle.retire(name)
    except WorldUnavailable:
        pass  # the row runs out by itself
    finally:
        handle.close()
