"""LangGraph's checkpointer over a World."""

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Self

from anyio.from_thread import start_blocking_portal
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapters.langgraph.saver import Saver
from outlast.adapters.langgraph.threads import AGENT, WorldThreads
from outlast.clock import Clock, SystemClock
from outlast.world import World


class OutlastSaver(Saver):
    """A checkpointer over a World, for graphs that no worker advances: a thread is a session of its own.

    Made in the event loop of the World. Of two runs that go on from the same checkpoint the second is stopped by
    `CheckpointTaken`; while a worker advances the session of a thread, writing to it raises `NotIdle`.

    Args:
        agent: whose sessions new threads are.
        serde: see `langgraph.checkpoint.base`.
    """

    def __init__(
        self,
        world: World,
        *,
        agent: str = AGENT,
        serde: SerializerProtocol | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(WorldThreads(world, clock or SystemClock(), agent), serde=serde)

    @classmethod
    @contextmanager
    def blocking(cls, opening: AbstractAsyncContextManager[World], **more: Any) -> Generator[Self]:
        """For programs without an event loop: the World is opened in a thread of its own.

        ```python
        with OutlastSaver.blocking(open_world()) as saver:
            graph = builder.compile(checkpointer=saver)
        ```
        """

        async def make(world: World) -> Self:
            return cls(world, **more)

        with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as world:
            yield portal.call(make, world)
