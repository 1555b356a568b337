"""Whatever a session is to tell: somebody outside, its parent, its children."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from outlast.engine.errands import Errands
from outlast.engine.telling import Telling
from outlast.engine.writer import Writer
from outlast.records import AnyRecord


class Outbox:
    """The notices and the errands of one session: what is due lands in the commit that it is about."""

    def __init__(self, writer: Writer, telling: Telling, errands: Errands) -> None:
        self._telling = telling
        self._errands = errands
        writer.adds = self._due

    def owes(self, *, settling: bool) -> bool:
        """There is something to tell, or may be when the turn comes to rest; or to its end, if it is `settling`."""
        return self._telling.active or (self._errands.owes_at_end if settling else self._errands.owes)

    @property
    def busy(self) -> bool:
        """Something is to be told now."""
        return self._telling.busy or self._errands.busy

    async def quiet(self, limit_s: float) -> None:
        """Wait until nothing is to be told now, at most `limit_s` seconds for each kind."""
        await self._errands.quiet(limit_s)
        await self._telling.quiet(limit_s)

    @asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        """It is told meanwhile. What is being told when the context ends is left to whoever claims the session next."""
        async with self._telling.going_on(), self._errands.going_on():
            yield

    def _due(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        return [*self._errands.due(records), *self._telling.due(records)]
