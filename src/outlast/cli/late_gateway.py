"""A gateway that is loaded while the worker claims already: what it needs takes a second to import."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread

from outlast.adapter import Attempt, Dialogue, Door, Gateway
from outlast.cli.lazy import loaded
from outlast.clock import Clock
from outlast.errors import HarnessError
from outlast.prices import prices_of
from outlast.settings import Settings

_OPEN: Final = "outlast.gateway:open_gateway"
_DIALECTS: Final = "outlast.gateway:every_dialect"
_UPSTREAM: Final = "outlast.cli.providers:upstream_of"


class LateGateway:
    """See `outlast.adapter.Gateway`: `admit` waits until the gateway is there."""

    def __init__(self) -> None:
        self._ready = anyio.Event()
        self._gateway: Gateway | None = None

    def hand_in(self, gateway: Gateway) -> None:
        """It is there."""
        self._gateway = gateway
        self._ready.set()

    async def address(self) -> str:
        await self._ready.wait()
        assert self._gateway is not None
        return await self._gateway.address()

    @asynccontextmanager
    async def admit(self, attempt: Attempt, dialogue: Dialogue, token: str = "") -> AsyncGenerator[Door]:
        await self._ready.wait()
        assert self._gateway is not None
        async with self._gateway.admit(attempt, dialogue, token) as door:
            yield door


@asynccontextmanager
async def open_late_gateway(settings: Settings, clock: Clock) -> AsyncGenerator[LateGateway]:
    """Serve a gateway while the context lasts; it may be used at once.

    Raises:
        HarnessError: (as a group) it cannot listen.
    """
    late = LateGateway()
    over = anyio.Event()

    async def serve() -> None:
        open_gateway = await anyio.to_thread.run_sync(loaded, _OPEN)
        upstream = loaded(_UPSTREAM)(settings, os.environ)
        dialects = loaded(_DIALECTS)(prices_of(settings))
        try:
            async with open_gateway(upstream=upstream, clock=clock, dialects=dialects) as gateway:
                late.hand_in(gateway)
                await over.wait()
        except OSError as error:
            raise HarnessError(harness="The gateway", reason=f"it cannot listen: {error}") from error

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield late
        finally:
            over.set()
