"""Tells somebody outside how the session stands, beside whatever else it does.

Invariants:

* What is to be told lands in the commit that it is about; it is told only after that.
* That it was told, or could not be, lands after the call: a worker that dies in between leaves it to the next one,
  which tells it again.
* Nothing of a turn waits for it, and none of its failures is the turn's.
* Whoever is slow to hear holds back nobody but himself (`outlast.engine.ears`).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from outlast.clock import Clock
from outlast.engine.beside import Beside
from outlast.engine.ears import Ear
from outlast.engine.effects import as_unicode, described
from outlast.engine.writer import Writer
from outlast.gate import Gate, Point
from outlast.records import AnyRecord, NoticeDue, NoticeTried
from outlast.state import NoticeState

AGAIN_S: Final = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0)
"""Pause after each try that failed. After the last of them one more, and it is given up."""
PATIENCE_S: Final = 30.0
"""How long anybody may take to hear; ours take less."""


class Telling(Beside[NoticeState]):
    """What one session is to tell to one ear, and the telling of it."""

    def __init__(self, writer: Writer, ear: Ear, *, gate: Gate, clock: Clock) -> None:
        super().__init__()
        self._writer = writer
        self._ear = ear
        self._gate = gate
        self._clock = clock

    def owes(self, *, settling: bool) -> bool:
        """There is something to tell, or may be when the turn comes to rest; or to its end, if it is `settling`."""
        due = self._ear.there and (settling or not self._ear.at_end)
        return due or any(self._for_it(one) for one in self._writer.state.untold)

    def due(self, records: Sequence[AnyRecord], number: int) -> Sequence[NoticeDue]:
        """What is to be told of `records`, which the state holds already; the first of it has this number."""
        if not self._ear.there:
            return ()
        found = self._ear.due(self._writer.state, records, number, self._clock.now())
        if found:
            self._changed.set()
        return found

    def _for_it(self, one: NoticeState) -> bool:
        return one.due.to == self._ear.to

    def _next(self) -> NoticeState | None:
        now_s = self._clock.now()
        untold = self._writer.state.untold
        return next((one for one in untold if self._for_it(one) and one.at_s <= now_s), None)

    async def _do(self, found: NoticeState) -> None:
        await self._writer.flush()
        self._writer.check()
        await self._gate.cross(Point.BEFORE_TELLING)
        error = await self._ask(found.due)
        await self._gate.cross(Point.AFTER_TELLING)
        now_s, pauses = self._clock.now(), AGAIN_S[found.tries :]
        again_s = now_s + pauses[0] if error and pauses else 0.0
        self._writer.append(
            NoticeTried(found.due.number, ok=not error, error=error, again_at_s=again_s, at_s=now_s)
        )

    async def _ask(self, due: NoticeDue) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return as_unicode(await self._ear.hear(self._writer.state, due))
        except Exception as error:  # noqa: BLE001 - handled: an ear is anybody's, and its failure goes into the log
            return described(error)
