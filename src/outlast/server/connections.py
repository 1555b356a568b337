"""Connections that hold nothing for long that asks for nothing, and never more than there is room for."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import RequestResponseCycle

from outlast.clock import boottime
from outlast.serving import Connection

HEAD_S: Final = 15.0
"""How long the head of a request may take."""
HEAD_BYTES: Final = 64 * 1024
_LOOKED_AT: Final = 256


class Bounded(Connection):
    """A connection of a server that takes in no more than `most`.

    One that comes beyond takes the place of the oldest that asks for nothing at the moment, so that who only holds
    connections keeps nobody out; where all are at work it is turned away.
    """

    most = 1_000

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._head: asyncio.TimerHandle | None = None
        self.since_s = boottime()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Make room, and begin to wait for the head of a request."""
        super().connection_made(transport)
        if len(self.connections) > self.most and not self._displaced():
            transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.idle:
            self._arrived()
        elif self._head is None:
            self._wait()

    @property
    def idle(self) -> bool:
        """Nothing is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first request
        return cycle is None or cycle.response_complete

    def _wait(self) -> None:
        self._head = self.loop.call_later(HEAD_S, self._late)

    def _arrived(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _late(self) -> None:
        self._head = None
        if self.idle and not self.transport.is_closing():
            self.transport.abort()

    def _displaced(self) -> bool:
        others: Iterator[Any] = (one for one in self.connections if one is not self)
        idle = [cast("Bounded", one) for one in islice(others, _LOOKED_AT) if cast("Bounded", one).idle]
        if not idle:
            return False
        min(idle, key=lambda one: one.since_s).transport.abort()
        return True


def bounded(most: int) -> type[Bounded]:
    """Connections of a server that takes in `most`."""
    return type("Connections", (Bounded,), {"most": most})
