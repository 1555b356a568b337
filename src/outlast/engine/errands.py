"""Tells a parent how its child's turn ended, and a child that its parent does not wait for it any more.

Invariants:

* What is to be told lands in the commit that it is about; the other session is told only after that.
* Told is what stands in the other's inbox. That it does lands after it: a worker that dies in between leaves it to the
  next one, which puts the same input again, and that changes nothing.
* It is tried until it is there. It is given up only where it can never be: the other session is erased, or is not the
  one that was meant.
* A result that is too much for a report is told as a failure that says so: a parent does not wait for ever.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from outlast.clock import Clock
from outlast.codec import encode_input
from outlast.engine.batch import patiently
from outlast.engine.beside import Beside
from outlast.engine.children import Opening, input_of, recall_of, report_of, send_out
from outlast.engine.writer import Writer
from outlast.errors import BadPayload, OutlastError, WorldUnavailable
from outlast.gate import Gate, Point
from outlast.records import (
    AnyRecord,
    CallIntent,
    CallOutcome,
    ErrandDone,
    ErrandDue,
    Payload,
    TurnOpened,
    TurnSettled,
)
from outlast.records.payload import EMPTY
from outlast.squeezing import unsqueeze
from outlast.world import World

AGAIN_S: Final = 1.0
"""Pause where the World cannot be reached. One that is gone for good takes the lease along."""
NOT_AWAITED: Final = frozenset({"interrupted", "cancelled"})
"""How a spawn ends that its child did not end."""


class Errands(Beside[ErrandDue]):
    """What one session owes to its parent and to its children."""

    def __init__(self, world: World, writer: Writer, *, gate: Gate, clock: Clock) -> None:
        super().__init__()
        self._world = world
        self._writer = writer
        self._gate = gate
        self._clock = clock
        self._spawned: dict[int, CallIntent] = {}
        """Open spawns."""
        self._asked = 0
        """The turn that the parent asked for, while it is open."""
        turn = writer.state.turn
        if turn is not None:
            self._note_turn(turn.turn, turn.input)
            self._spawned = {call.intent.call: call.intent for call in turn.open_calls() if call.intent.child}

    @property
    def owes(self) -> bool:
        """There is something to tell."""
        return bool(self._writer.state.errands)

    @property
    def owes_at_end(self) -> bool:
        """There is, or will be when the open turn is settled."""
        return self.owes or bool(self._asked or self._spawned)

    def due(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """What is to be told of `records`, which the state holds already."""
        found: list[ErrandDue] = []
        for record in records:
            number = self._writer.state.next_errand + len(found)
            errand = self._of(record, number)
            if errand is not None:
                found.append(errand)
        if found:
            self._changed.set()
        return found

    def _of(self, record: AnyRecord, number: int) -> ErrandDue | None:
        match record:
            case TurnOpened():
                self._note_turn(record.turn, record.input)
            case CallIntent() if record.child:
                self._spawned[record.call] = record
            case CallOutcome():
                intent = self._spawned.pop(record.call, None)
                if intent is not None and record.status in NOT_AWAITED:
                    return self._recall(intent, number)
            case TurnSettled() if record.turn == self._asked:
                self._asked = 0
                return self._report(record, number)
            case _:
                pass
        return None

    def _note_turn(self, turn: int, input_id: str) -> None:
        opened = self._writer.state.opened
        parent = None if opened is None else opened.parent
        if parent is not None and parent.prompt == input_id:
            self._asked = turn

    def _recall(self, intent: CallIntent, number: int) -> ErrandDue:
        return ErrandDue(
            number=number,
            errand="recall",
            to=intent.child,
            turn=intent.turn,
            call=intent.call,
            content=intent.opens,
            prompt=intent.arguments,
            at_s=self._clock.now(),
        )

    def _report(self, settled: TurnSettled, number: int) -> ErrandDue | None:
        opened = self._writer.state.opened
        if opened is None or opened.parent is None:
            return None
        return ErrandDue(
            number=number,
            errand="report",
            to=opened.parent.session,
            turn=settled.turn,
            call=opened.parent.call,
            status=settled.status,
            content=settled.result,
            error=settled.error,
            usage=settled.usage,
            at_s=self._clock.now(),
        )

    def _next(self) -> ErrandDue | None:
        return next(iter(self._writer.state.errands), None)

    async def _do(self, found: ErrandDue) -> None:
        await self._writer.flush()
        self._writer.check()
        await self._gate.cross(Point.BEFORE_ERRAND)
        error = await self._tell(found)
        await self._gate.cross(Point.AFTER_ERRAND)
        self._writer.append(ErrandDone(found.number, error, self._clock.now()))

    async def _tell(self, found: ErrandDue) -> str:
        """Tell it. Returns why that can never be."""
        while True:
            try:
                put = self._put_report if found.errand == "report" else self._put_recall
                await patiently(lambda: put(found))  # noqa: B023 - awaited before it is another
            except WorldUnavailable:
                await asyncio.sleep(AGAIN_S)
                self._writer.check()
            except OutlastError as error:
                return str(error)
            else:
                return ""

    async def _put_report(self, found: ErrandDue) -> None:
        session = self._writer.state.session
        report = report_of(found, session, await self._value(found.content))
        try:
            body = encode_input(report)
        except BadPayload as error:
            report = msgspec.structs.replace(report, status="failed", value=None, error=str(error))
            body = encode_input(report)
        await self._world.put_input(found.to, input_of(report, body))

    async def _put_recall(self, found: ErrandDue) -> None:
        opening = Opening.read(await self._text(found.content))
        asked: dict[str, Any] = await self._value(found.prompt)
        # A suspended worker may be about to open it still. It must find it there, and ended.
        await send_out(self._world, opening, str(asked["prompt"]))
        recall = recall_of(opening, found.at_s)
        await self._world.put_input(found.to, input_of(recall, encode_input(recall)))

    async def _value(self, payload: Payload) -> Any:
        return None if payload == EMPTY else msgspec.json.decode(await self._text(payload))

    async def _text(self, payload: Payload) -> bytes:
        if not payload.ref:
            return bytes(payload.json)
        return unsqueeze((await self._writer.blobs([payload.ref]))[payload.ref])
