"""What a loop waits for, and what it asked of chance or the clock.

Invariants:

* A wait ends once, by an outcome in the log, whichever of its ends comes first: time, signal, a person's answer.
* A signal ends one wait: the outcome that takes it takes it out of the state. Of several waits for one name the one
  that began first gets it.
* When a wait ends by time is decided when it begins, and stands in its intent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from outlast.calls import ToolResult, WaitAsk
from outlast.engine.context import Context
from outlast.engine.effects import described, recordable
from outlast.engine.index import CallIndex
from outlast.engine.walk import Walk
from outlast.errors import ToolError, TurnStopped
from outlast.fold import CallState, SessionState, TurnState
from outlast.gate import Point
from outlast.offers import ASK
from outlast.records import CallIntent, CallOutcome, SignalKept
from outlast.records.kinds import CallKind, OutcomeStatus
from outlast.tool import result_text

LOOK_S: Final = 0.25
"""How often a wait that is held in the process looks at the clock, which a test may turn."""
BESIDE_S: Final = 2.0
"""How long a wait of a program stays for calls of the same answer to begin: a program that runs its calls one after the
other begins the next only when the wait has ended."""
BESIDE_LOOK_S: Final = 0.02
WAITING: Final = "waiting"
"""Why an attempt ends whose harness can do no more than wait."""
OVERDUE: Final = "The time was over before it came."


class Waits:
    """Waits and values of one attempt (`outlast.adapter.Calls` says what is promised)."""

    def __init__(self, context: Context, index: CallIndex, walk: Walk) -> None:
        self._context = context
        self._index = index
        self._walk = walk
        self._changed = asyncio.Event()
        self._begun: dict[int, CallState] = {}
        """Waits of which nobody has been told how they ended."""

    @property
    def overtaken(self) -> bool:
        """A wait has ended since the turn came to rest, so it can go on: a loop at once, a program with its last."""
        ended = [state for state in self._begun.values() if state.outcome is not None]
        left = any(call.intent.kind == "wait" for call in self._context.turn.open_calls())
        return any(not state.intent.harness_id for state in ended) or bool(ended and not left)

    def clear(self) -> None:
        """The loop begins again, and no wait of its is left."""
        self._begun.clear()

    def look(self) -> None:
        """A signal was kept, a person has answered, or a wait has ended."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, ask: WaitAsk, lane: str, pausing: Callable[[int], None]) -> ToolResult:
        state = await self._walk.step(lane, "wait", ask.name, _arguments(ask))
        if state is None:
            state = await self._open(ask, lane)
        return await self.until(state, pausing)

    async def until(self, state: CallState, pausing: Callable[[int], None]) -> ToolResult:
        """How a wait of a loop's ends, once it does."""
        self._begun[state.intent.call] = state
        while state.outcome is None:
            self._may_begin()
            self._context.check()
            changed = self._changed
            ending = await self._ending(state)
            if ending is not None:
                await self.settle(state, *ending)
            else:
                await self._pause(state, changed, pausing)
        return await self._told(state, state.outcome)

    async def hold(self, state: CallState) -> ToolResult:
        """How a wait of the harness's ends. Where it cannot now, the attempt does, once all else has come to rest.

        Raises:
            TurnStopped: the turn waits.
        """
        self._begun[state.intent.call] = state
        while state.outcome is None:
            self._may_begin()
            self._context.check()
            ending = await self._ending(state)
            if ending is not None:
                await self.settle(state, *ending)
                continue
            await self._rest_beside(state)
            if await self._ending(state) is None and state.outcome is None:
                self._context.stop(WAITING)
        return await self._told(state, state.outcome)

    async def _told(self, state: CallState, outcome: CallOutcome) -> ToolResult:
        """How a wait ended. Whoever wrote the outcome: it is durable before it is used."""
        await self._context.writer.flush()
        self._context.check()
        result = ToolResult(outcome.status, await self._context.value(outcome.result))
        self._begun.pop(state.intent.call, None)
        return result

    async def _rest_beside(self, waiting: CallState) -> None:
        """Return when all else that was asked for with this wait has ended, or does not begin."""
        now = asyncio.get_running_loop().time
        limit_s = now() + BESIDE_S
        while self._context.stopping is None:
            await self._context.rest()
            beside = self._index.asked_by(waiting.intent.asked_by)
            if not any(call.open and call.intent.kind == "tool" for call in beside) or now() >= limit_s:
                return
            await asyncio.sleep(BESIDE_LOOK_S)

    async def hold_on(self) -> bool:
        """Settle the harness's waits that can end now. True while one is left: the harness need not be started."""
        waits = [call for call in self._context.turn.open_calls() if call.intent.kind == "wait"]
        for state in waits:
            self._begun[state.intent.call] = state
            ending = await self._ending(state) if state.intent.harness_id else None
            if ending is not None:
                await self.settle(state, *ending)
        return any(state.open and state.intent.harness_id for state in waits)

    async def value(self, name: str, make: Callable[[], object], lane: str) -> Any:
        async def made() -> ToolResult:
            return _made(name, make)

        return await self.seen(name, made, lane)

    async def seen(self, name: str, make: Callable[[], Awaitable[ToolResult]], lane: str) -> Any:
        """As `value`, of what takes a moment and is made for the log."""
        state = await self._walk.step(lane, "value", name, {})
        if state is None:
            self._may_begin()
            state = self.intend("value", name, {}, lane, 0.0)
        if state.outcome is None:
            made = await make()
            packer, intent = self._context.writer.packer(), state.intent
            result = packer.payload(made.value, what=f"the value {name}")
            now = self._context.clock.now()
            outcome = CallOutcome(intent.call, intent.turn, made.status, result, intent.lane, at_s=now)
            self._context.append(outcome, packer=packer, lazy=True)
        else:
            made = ToolResult(state.outcome.status, await self._context.value(state.outcome.result))
        if made.status != "ok":
            raise ToolError(tool=name, status=made.status, said=result_text(made.value))
        return made.value

    def _may_begin(self) -> None:
        """Nothing begins in an attempt that is ending."""
        if self._context.stopping is not None:
            raise TurnStopped(self._context.stopping)

    async def _open(self, ask: WaitAsk, lane: str) -> CallState:
        await self._context.gate.cross(Point.BEFORE_INTENT, policy="wait")
        self._may_begin()
        until_s = 0.0 if ask.for_s is None else self._context.clock.now() + max(0.0, ask.for_s)
        state = self.intend("wait", ask.name, _arguments(ask), lane, until_s)
        await self._context.gate.cross(Point.AFTER_INTENT, call=state.intent.call, policy="wait")
        return state

    def intend(
        self, kind: CallKind, name: str, about: Mapping[str, Any], lane: str, until_s: float = 0.0
    ) -> CallState:
        """Write the intent of what has no effect outside."""
        context, turn = self._context, self._context.turn
        context.check()
        packer = context.writer.packer()
        intent = CallIntent(
            call=context.writer.state.next_call,
            turn=turn.turn,
            lane=lane,
            ordinal=turn.ordinals.get(f"{kind}/{lane}", 0),
            kind=kind,
            name=name,
            arguments=packer.payload(dict(about), what=f"what {name} is about"),
            policy="safe",
            until_s=until_s,
            at_s=context.clock.now(),
        )
        context.append(intent, packer=packer, lazy=True)
        state = turn.calls[intent.call]
        self._index.make(state)
        return state

    async def _ending(self, state: CallState) -> tuple[OutcomeStatus, object, str] | None:
        """How the wait ends, if it does now: status, result, the input of the signal that it takes."""
        signal = signal_for(self._context.writer.state, self._context.turn, state)
        if signal is not None:
            status = "error" if signal.failed else "ok"
            return status, await self._context.value(signal.value), signal.input
        until_s = state.intent.until_s
        if until_s and self._context.clock.now() >= until_s:
            return ("ok", None, "") if is_sleep(state.intent) else ("interrupted", OVERDUE, "")
        return None

    async def settle(self, state: CallState, status: OutcomeStatus, value: object, signal: str) -> None:
        """Write how a wait ended, unless it has ended already. Durable."""
        context, intent = self._context, state.intent
        if state.outcome is not None or (signal and signal not in _kept(context.writer.state)):
            return  # it ended while the signal's value was read, or another wait was faster
        packer = context.writer.packer()
        now = context.clock.now()
        outcome = CallOutcome(
            intent.call,
            intent.turn,
            status,
            packer.payload(value, what="what the wait ended with"),
            intent.lane,
            duration_s=round(max(0.0, now - intent.at_s), 4),
            at_s=now,
            signal=signal,
        )
        landed = context.append(outcome, packer=packer)
        self.look()  # it was in the way of others, perhaps
        await context.gate.cross(Point.OUTCOME_QUEUED, call=intent.call, policy="wait")
        await context.writer.durable(landed)
        await context.gate.cross(Point.AFTER_OUTCOME, call=intent.call, policy="wait")

    async def _pause(self, state: CallState, changed: asyncio.Event, pausing: Callable[[int], None]) -> None:
        pausing(1)
        try:
            async with asyncio.timeout(LOOK_S if state.intent.until_s else None):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            pausing(-1)


def _made(name: str, make: Callable[[], object]) -> ToolResult:
    """What `make` returns, as the log will give it back, or how it failed: the same the first time and ever after."""
    try:
        return recordable(name, make())
    except Exception as error:  # noqa: BLE001 - a loop's own function may raise anything; the loop is told
        return ToolResult("error", described(error))


def signal_for(state: SessionState, turn: TurnState, waiting: CallState) -> SignalKept | None:
    """The kept signal that ends this wait: none while one that began earlier waits for the same."""
    name = _awaited(waiting)
    signal = next((signal for signal in state.signals if name and signal.name == name), None)
    if signal is None:  # first, since there may be many calls to look through
        return None
    first = next((call for call in turn.open_calls() if _awaited(call) == name), None)
    return signal if first is waiting else None


def has_room(state: SessionState, name: str, most: int) -> bool:
    """Whether another signal of this name is to be kept: where `most` are, only the one that a wait needs to end."""
    if len(state.signals) < most:
        return True
    waits = [] if state.turn is None else state.turn.open_calls()
    there = any(signal.name == name for signal in state.signals)
    return not there and any(_awaited(call) == name for call in waits)


def next_end(state: SessionState, turn: TurnState, now_s: float) -> float | None:
    """When a wait of the turn can end, as Unix time; None if only an input can end any."""
    waits = turn.open_calls()
    if any(signal_for(state, turn, call) is not None for call in waits):
        return now_s
    return min((call.intent.until_s for call in waits if call.intent.until_s), default=None)


def only_waits(state: SessionState, turn: TurnState, now_s: float) -> bool:
    """Whether something is open, and all that is waits for what is not there."""
    kinds = {call.intent.kind for call in turn.open_calls()}
    due_s = next_end(state, turn, now_s)
    return kinds == {"wait"} and (due_s is None or due_s > now_s)


def _awaited(call: CallState) -> str:
    """The name of the signal that an open call waits for."""
    return str(_about(call.intent).get("signal", ""))


def is_sleep(intent: CallIntent) -> bool:
    """Whether a wait is for time alone."""
    about = _about(intent)
    return intent.kind == "wait" and not (about.get("signal") or intent.child or asks_person(intent))


def asks_person(intent: CallIntent) -> bool:
    """Whether a wait is for a person's answer."""
    return intent.kind == "wait" and intent.name in {
        "person",
        ASK,
    }  # the question may be long, and stand in a blob


def _about(intent: CallIntent) -> Mapping[str, Any]:
    if intent.kind != "wait" or intent.arguments.ref:
        return {}
    return intent.arguments.value()


def _kept(state: SessionState) -> set[str]:
    return {signal.input for signal in state.signals}


def _arguments(ask: WaitAsk) -> Mapping[str, Any]:
    return dict(ask.about) if ask.for_s is None else {**ask.about, "for_s": ask.for_s}
