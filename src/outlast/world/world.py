"""One store, whole."""

from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol

from outlast.world.blobs import Blobs
from outlast.world.inbox import Inbox
from outlast.world.log import Log
from outlast.world.queue import Queue


class Capability(StrEnum):
    """What not every World can do. The contract skips by capability, visibly."""

    DURABLE = "durable"
    """Survives the death of every process that uses it."""
    MULTI_PROCESS = "multi-process"
    """Several processes may open it at once."""
    CROSS_HOST = "cross-host"
    """Several machines may open it at once."""
    POWER_LOSS_SAFE = "power-loss safe"
    """What is acknowledged survives the loss of power."""
    PUSH = "push notifications"
    """Hints reach other processes without polling."""
    EXACT_LIMITS = "exact limits"
    """No race of claims passes a limit that all of them state."""


class Subscription(Protocol):
    """Hints that something changed."""

    async def wait(self, timeout_s: float) -> bool:
        """Return True soon after something changed since the last call, False after `timeout_s` seconds.

        A hint may come without cause and may be lost: whoever waits reads again in both cases.
        """
        ...


class World(Log, Inbox, Queue, Blobs, Protocol):
    """Everything durable, of one tenant.

    Opened by an asynchronous context manager of its implementation; closing is bounded and loses nothing
    acknowledged.
    """

    @property
    def name(self) -> str:
        """What a person calls it, without secrets: `sqlite:/home/a/.local/share/outlast/world.db`."""
        ...

    @property
    def tenant(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    def for_tenant(self, tenant: str = "default") -> "World":
        """The same store as `tenant` sees it; ids and blobs of two tenants never meet."""
        ...

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        """Hints about one session, or (None) about any that may have become ready.

        With `inbox` only about what comes into the inbox of the session: its owner makes the commits itself.
        """
        ...
