"""Who is told beside a session: somebody how its turns stand, and a collector what each turn was made of."""

from collections.abc import Sequence
from typing import Final, Protocol

from outlast.fold import SessionState, TurnState
from outlast.notify import Notice, Notifier
from outlast.records import (
    AnyRecord,
    AttemptEnded,
    CallIntent,
    NoticeDue,
    TurnOpened,
    TurnParked,
    TurnSettled,
)
from outlast.records.agenda import NoticeTo
from outlast.tracing import Collector, Settled
from outlast.world import World

NOBODY: Final = "this worker was told to notify nobody"
NOWHERE: Final = "this worker sends traces nowhere"


class Ear(Protocol):
    """Somebody who is told."""

    @property
    def to(self) -> NoticeTo:
        """What stands in the notices for it."""
        ...

    @property
    def at_end(self) -> bool:
        """It is told of nothing but the ends of turns."""
        ...

    @property
    def there(self) -> bool:
        """This worker has somebody to tell."""
        ...

    def due(
        self, state: SessionState, records: Sequence[AnyRecord], number: int, now_s: float
    ) -> Sequence[NoticeDue]:
        """What is to be told of `records`, which `state` holds already; the first of it has this number."""
        ...

    async def hear(self, state: SessionState, due: NoticeDue) -> str:
        """Tell it. Returns why that failed, nothing when it was told."""
        ...


class NotifierEar:
    """Somebody is told how the turns stand."""

    to: NoticeTo = "notifier"
    at_end = False

    def __init__(self, notifier: Notifier | None, tenant: str) -> None:
        self._notifier = notifier
        self._tenant = tenant

    @property
    def there(self) -> bool:
        return self._notifier is not None

    def due(
        self, state: SessionState, records: Sequence[AnyRecord], number: int, now_s: float
    ) -> Sequence[NoticeDue]:
        return notices(state, records, number, now_s)

    async def hear(self, state: SessionState, due: NoticeDue) -> str:
        if self._notifier is None:
            return NOBODY
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
        return await self._notifier.tell(notice)


class CollectorEar:
    """The trace of each turn is sent when it is settled."""

    to: NoticeTo = "collector"
    at_end = True

    def __init__(self, collector: Collector | None, world: World, state: SessionState) -> None:
        self._collector = collector
        self._world = world
        self._after = 0 if state.turn is None else state.turn.after

    @property
    def there(self) -> bool:
        return self._collector is not None

    def due(
        self, state: SessionState, records: Sequence[AnyRecord], number: int, now_s: float
    ) -> Sequence[NoticeDue]:
        found: list[NoticeDue] = []
        for record in records:
            match record:
                case TurnOpened():
                    self._after = record.after
                case TurnSettled():
                    found.append(
                        NoticeDue(
                            number + len(found),
                            record.turn,
                            "settled",
                            record.status,
                            now_s,
                            to="collector",
                            since=self._after,
                        )
                    )
                case _:
                    pass
        return found

    async def hear(self, state: SessionState, due: NoticeDue) -> str:
        if self._collector is None:
            return NOWHERE
        assert state.opened is not None
        settled = Settled(self._world.tenant, state.session, state.opened, due)
        return await self._collector.collect(self._world, settled)


def notices(
    state: SessionState, records: Sequence[AnyRecord], first: int, now_s: float
) -> Sequence[NoticeDue]:
    """What somebody is to be told of `records`, which `state` holds already; the first of it has that number."""
    found: list[NoticeDue] = []
    for record in records:
        number = first + len(found)
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
