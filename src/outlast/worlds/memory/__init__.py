"""The reference World: everything in one process, nothing outlives it.

It says what the port means, in the plainest way; property tests hold every other World to it. Each method
runs without awaiting, so on its one event loop each is atomic; only the worker rows are touched by other
threads, one assignment at a time.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from outlast.clock import Clock
from outlast.worlds.memory.store import MemoryStore
from outlast.worlds.memory.world import MemoryWorld

__all__ = ["MemoryStore", "MemoryWorld", "open_memory"]


@asynccontextmanager
async def open_memory(
    store: MemoryStore | str | None = None, *, clock: Clock | None = None
) -> AsyncGenerator[MemoryWorld]:
    """A World in this process's memory; with `store`, the one that its other holders see.

    A URL (`memory:`), as `open_world` gives it, names none that another could hold.
    """
    yield MemoryWorld(store if isinstance(store, MemoryStore) else MemoryStore(clock))
