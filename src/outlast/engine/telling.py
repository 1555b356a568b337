"""Tells somebody outside how the session stands, beside whatever else it does.

Invariants:

* What is to be told lands in the commit that it is about; it is told only after that.
* That it was told, or could not be, lands after the call: a worker that dies in between leaves it to the next one,
  which tells it again.
* Nothing of a turn waits for it, and none of its failures is the turn's.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from outlast.clock import Clock
from outlast.engine.beside import Beside
from outlast.engine.effects import as_unicode, described
from outlast.engine.writer import Writer
from outlast.fold import SessionState, TurnState
from outlast.gate import Gate, Point
from outlast.notify import Notice, Notifier
from outlast.records import (
    AnyRecord,
    AttemptEnded,
    CallIntent,
    NoticeDue,
    NoticeTried,
    TurnParked,
    TurnSettled,
)
from outlast.state import NoticeState

AGAIN_S: Final = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0)
"""Pause after each try that failed. After the last of them one more, and it is given up."""
PATIENCE_S: Final = 30.0
"""How long any notifier may take; ours take less."""
NOBODY: Final = "this worker was told to notify nobody"


class Telling(Beside[NoticeState]):
    """What one session is to tell, and the telling of it."""

    def __init__(
        self, writer: Writer, notifier: Notifier | None, *, gate: Gate, clock: Clock, tenant: str
    ) -> None:
        super().__init__()
        self._writer = writer
        self._notifier = notifier
        self._gate = gate
        self._clock = clock
        self._tenant = tenant

    @property
    def active(self) -> bool:
        """There is something to tell, or may be as soon as the turn comes to rest."""
        return self._notifier is not None or bool(self._writer.state.untold)

    def due(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """What is to be told of `records`, which the state holds already."""
        if self._notifier is None:
            return ()
        found = notices(self._writer.state, records, self._clock.now())
        if found:
            self._changed.set()
        return found

    def _next(self) -> NoticeState | None:
        now_s = self._clock.now()
        return next((one for one in self._writer.state.untold if one.at_s <= now_s), None)

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
        if self._notifier is None:
            return NOBODY
        state = self._writer.state
        notice = Notice(
            id=f"{self._tenant}/{state.session}/{due.number}",
            tenant=self._tenant,
            session=state.session,
            agent="" if state.opened is None else state.opened.agent,
            turn=due.turn,
            event=due.event,
            status=due.status,
            at_s=due.at_s,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                return as_unicode(await self._notifier.tell(notice))
        except Exception as error:  # noqa: BLE001 - handled: a notifier is anybody's, and its failure goes into the log
            return described(error)


def notices(state: SessionState, records: Sequence[AnyRecord], now_s: float) -> Sequence[NoticeDue]:
    """What is to be told of `records`, which `state` holds already."""
    found: list[NoticeDue] = []
    for record in records:
        number = state.next_notice + len(found)
        match record:
            case TurnSettled():
                found.append(NoticeDue(number, record.turn, "settled", record.status, now_s))
            case TurnParked():
                found.append(NoticeDue(number, record.turn, "parked", record.why, now_s))
            case AttemptEnded(why="waiting") if state.turn is not None and (calls := _new_waits(state.turn)):
                status = "person" if any(map(_asks, calls)) else "signal"
                named = tuple(call.call for call in calls)
                found.append(NoticeDue(number, record.turn, "waiting", status, now_s, named))
            case _:
                pass
    return found


def _new_waits(turn: TurnState) -> list[CallIntent]:
    """Waits for somebody outside, of which nobody was told."""
    open_calls = [call.intent for call in turn.open_calls() if call.intent.call not in turn.noticed]
    waits = [intent for intent in open_calls if intent.kind == "wait" and not intent.child]
    return [intent for intent in waits if _asks(intent) or _signal(intent)]


def _asks(intent: CallIntent) -> bool:
    # What is too long to stand in its intent is a question's text.
    return bool(intent.arguments.ref) or "question" in intent.arguments.value()


def _signal(intent: CallIntent) -> bool:
    return bool(intent.arguments.value().get("signal"))
