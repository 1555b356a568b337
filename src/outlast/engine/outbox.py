"""Whatever a session is to tell: somebody outside, a collector of traces, its parent, its children."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from outlast.engine.errands import Errands
from outlast.engine.telling import Telling
from outlast.engine.writer import Writer
from outlast.records import AnyRecord


class Outbox:
    """The notices and the errands of one session: what is due lands in the commit that it is about.

    Each kind goes on beside the others, so that whoever is slow to hear delays his own alone.
    """

    def __init__(self, writer: Writer, tellings: Sequence[Telling], errands: Errands) -> None:
        self._writer = writer
        self._tellings = tellings
        self._errands = errands
        writer.adds = self._due

    def owes(self, *, settling: bool) -> bool:
        """There is something to tell, or may be when the turn comes to rest; or to its end, if it is `settling`."""
        told = any(telling.owes(settling=settling) for telling in self._tellings)
        return told or (self._errands.owes_at_end if settling else self._errands.owes)

    @property
    def busy(self) -> bool:
        """Something is to be told now."""
        return self._errands.busy or any(telling.busy for telling in self._tellings)

    async def quiet(self, limit_s: float) -> None:
        """Wait until nothing is to be told now, at most `limit_s` seconds for each kind."""
        for beside in (self._errands, *self._tellings):
            await beside.quiet(limit_s)

    @asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        """It is told meanwhile. What is being told when the context ends is left to whoever claims the session next."""
        async with AsyncExitStack() as besides:
            for beside in (*self._tellings, self._errands):
                await besides.enter_async_context(beside.going_on())
            yield

    def _due(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        due: list[AnyRecord] = [*self._errands.due(records)]
        number = self._writer.state.next_notice
        for telling in self._tellings:
            notices = telling.due(records, number)
            number += len(notices)
            due += notices
        return due
