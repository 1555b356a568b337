"""The calls of one attempt: `outlast.adapter.Calls` over the writer.

Model calls are in `models`, the running of functions in `effects`, what else a loop does in `loop_calls`; here is what
happens around a tool call.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from outlast.adapter import MAIN, Deny, Let, ModelAsk, Opening, ToolAsk, ToolResult
from outlast.engine.context import HANDED_OVER, Context
from outlast.engine.effects import as_unicode, run_function, said_by
from outlast.engine.hands import Hands
from outlast.engine.loop_calls import LoopCalls
from outlast.engine.models import ModelCalls
from outlast.engine.permits import Permits
from outlast.engine.results import outcome_of
from outlast.engine.runs import Runs
from outlast.engine.scene import noted
from outlast.engine.shells import Shells
from outlast.engine.waits import LOOK_S
from outlast.errors import TurnStopped
from outlast.fold import CallState
from outlast.gate import Point
from outlast.inquiry import Witness
from outlast.records import EMPTY, CallIntent, CallRetracted, CallStarted, Usage
from outlast.records.events import LiveDelta
from outlast.recovery import stricter
from outlast.tool import TryAgain, result_text

NOT_GRANTED = "This call was not granted: the log holds no answer that asks for it. It did not run."
RUNNING = "This call is already running; it is not begun a second time."
ENDING = "The turn is ending ({why}); this call did not run."
GONE = "There is no tool {name!r} in this worker."
RETRY_S: Final = 0.5
RETRY_MOST_S: Final = 60.0
"""The pause before a tool is tried once more, at first and at most."""


class AttemptCalls(LoopCalls):
    """See `outlast.adapter.Calls` for what each method promises."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._models = ModelCalls(context, self.index, self._walk)
        context.runs = self._runs
        self._permits = Permits(context)
        self._running = Runs(context.eased)
        self._offsets: dict[tuple[int, str], int] = {}
        self.shells = Shells(context)
        self._beginning = 0
        """Calls whose intent is being written."""
        self.may_run: set[int] = set()
        """Calls of earlier attempts that the recovery plan lets run."""

    # model calls

    async def open_model(self, ask: ModelAsk) -> Opening:
        self._context.asked = True
        return await self._models.open(ask)

    async def settle_model(
        self, call: int, answer: Mapping[str, Any], asks: Sequence[ToolAsk], usage: Usage | None
    ) -> None:
        await self._models.settle(call, answer, asks, usage)

    async def refuse_model(self, call: int, refusal: Mapping[str, Any], usage: Usage | None = None) -> None:
        await self._models.refuse(call, refusal, usage)

    async def void_model(
        self, call: int, reason: str, usage: Usage | None = None, *, retry_after_s: float = 0.0
    ) -> None:
        self._context.refused(call, retry_after_s)
        for kind in ("text", "thinking"):
            self._offsets.pop((call, kind), None)
        await self._models.void(call, reason, usage)

    def delivered(self, calls: Sequence[int]) -> None:
        self.index.reached(calls)

    # tools that the harness runs

    async def start_tool(
        self, harness_id: str, name: str, arguments: Mapping[str, Any], *, cwd: str = ""
    ) -> Let | Deny:
        context = self._context
        state = self.index.of_harness(harness_id)
        if state is None:
            return Deny(NOT_GRANTED)
        if context.stopping is not None:
            return Deny(ENDING.format(why=context.stopping))
        intent = state.intent
        means = context.resolve(name, arguments)
        if (means.name, means.runs_in) != (intent.name, intent.runs_in):
            return Deny(NOT_GRANTED)
        if intent.runs_in == "worker":  # the worker itself decides when it is called, and knows the outcome
            return Let(intent.call, arguments)
        denied = await self._denial(state)
        if denied is not None:
            return denied
        # Arguments may differ, since harnesses normalise them; but recovery must not be bolder than what begins allows.
        if stricter(intent.policy, means.policy) != intent.policy:
            return Deny(NOT_GRANTED)
        self.shells.note(intent.call, means.shell)
        return await self._let(state, arguments, cwd) or Let(intent.call, arguments)

    async def begin_unasked(self, call: int) -> None:
        context = self._context
        unasked = [state for state in self.index.asked_by(call) if context.means(state.intent).unasked]
        stands = True
        for state in unasked:
            denied = await self._permits.denial(state) if state.open else None
            if denied is not None:
                await self._deny(state, denied)
                stands = False
        for state in unasked:  # none begins beside one that must not
            stands = stands and await self._begins(state)
        if not stands:
            context.stop(HANDED_OVER)
            raise TurnStopped(context.stopping or HANDED_OVER)

    async def _begins(self, state: CallState) -> bool:
        arguments = await self._context.value(state.intent.arguments)
        return await self._denial(state) is None and await self._let(state, arguments) is None

    async def _let(self, state: CallState, arguments: Mapping[str, Any], cwd: str = "") -> Deny | None:
        """Write that the harness may run a call; or say why it must not."""
        context, intent = self._context, state.intent
        denied = await self._permits.refusal(state, arguments)
        if denied is not None:
            return Deny(result_text((await self._deny(state, denied)).value), settled=True)
        await context.afford(intent.call)
        await context.room(None)
        witness = None
        if intent.policy == "verify":  # a hook may tell less than the model said
            said = {**await context.value(intent.arguments), **arguments}
            witness = await noted(context.resolve(intent.name, said).inquiry, context.scene, cwd)
        await context.gate.cross(Point.BEFORE_START, call=intent.call, policy=intent.policy)
        # Last of all: it may have been let go meanwhile, or the attempt is ending.
        late = await self._denial(state)
        if late is not None:
            return late
        await self._start(state, witness)
        await context.gate.cross(Point.AFTER_START, call=intent.call, policy=intent.policy)
        return None

    async def _denial(self, state: CallState) -> Deny | None:
        """Why the harness must not run a call now. Of one that is not settled it is known at once."""
        if self._context.stopping is not None:
            return Deny(ENDING.format(why=self._context.stopping))
        if state.outcome is not None:
            return Deny(result_text((await self.told.of(state)).value), settled=True)
        if state.started == self._context.writer.lease.fence:
            return Deny(RUNNING)
        return Deny(NOT_GRANTED) if state.started and state.intent.call not in self.may_run else None

    async def _start(self, state: CallState, witness: Witness | None = None) -> None:
        """Write that the call may begin; wait for it unless the call is `safe`."""
        context, intent = self._context, state.intent
        lazy, packer = intent.policy == "safe", context.writer.packer()
        seen = EMPTY if witness is None else packer.payload(dict(witness), what="the witness of a call")
        record = CallStarted(intent.call, intent.turn, intent.lane, context.clock.now(), seen)
        landed = context.append(record, packer=packer, lazy=lazy)
        if not lazy:
            await context.writer.durable(landed)

    async def settle_tool(self, harness_id: str, result: ToolResult) -> None:
        state = self.index.of_harness(harness_id)
        if state is not None and state.intent.runs_in == "harness" and state.outcome is None:
            await self.settle(state, result)

    # tools that the worker runs

    async def run_tool(
        self, name: str, arguments: Mapping[str, Any], *, harness_id: str = "", lane: str = MAIN
    ) -> ToolResult:
        if harness_id:
            state = self.index.of_harness(harness_id)
            if state is not None and state.intent.kind == "wait":
                denied = await self._permits.refusal(state) if state.open else None
                return await (self.waits.hold(state) if denied is None else self._deny(state, denied))
            return ToolResult("error", NOT_GRANTED) if state is None else await self.finish(state)
        state = await self._walk.step(lane, "tool", name, dict(arguments))
        if state is not None:
            return await self.finish(state)
        await self._context.afford()
        if self._permits.wants(name, arguments):
            return await self.finish(await self._intend(name, arguments, lane, granted=True))
        # Before the intent: one that is written and held back could not be told from one that ran.
        await self._context.room_for(self._context.tools.get(name))
        return await self._begin(await self._intend(name, arguments, lane))

    async def hold_on(self) -> bool:
        """`Waits.hold_on`, once what a rule has against the harness's waits is settled."""
        for state in self._context.turn.open_calls():
            if state.intent.kind == "wait" and state.intent.harness_id:
                denied = await self._permits.refusal(state)
                if denied is not None:
                    await self._deny(state, denied)
        return await self.waits.hold_on()

    async def finish(self, state: CallState) -> ToolResult:
        """The result of a call of the worker's: from the log, of the run that is under way, or of one begun now.

        Whoever waits may be cancelled: the run goes on until it ends or `stop` ends it.
        """
        running = self._running.find(state.intent.call)  # first: its outcome may not be durable yet
        if running is not None:
            return await running.wait()
        if state.outcome is not None:
            return await self._settled(state)
        denied = await self._permits.refusal(state)
        if denied is not None:
            return await self._deny(state, denied)
        if not (state.begun or state.intent.compensates):
            await self._context.afford(state.intent.call)
        await self._context.room_for(self._context.tool_of(state.intent))
        return await self._begin(state)

    async def _settled(self, state: CallState) -> ToolResult:
        """How a call ended that does not run. Durable."""
        await self._context.writer.flush()
        self._context.check()
        return await self.told.of(state)

    async def _deny(self, state: CallState, denied: ToolResult) -> ToolResult:
        """End a call that may not begin, unless somebody did meanwhile."""
        return await (self._settled(state) if state.outcome is not None else self.settle(state, denied))

    async def _begin(self, state: CallState) -> ToolResult:
        """The result of a call that is begun now, or was meanwhile."""
        running = self._running.find(state.intent.call)
        if running is None:
            if state.outcome is not None:
                return await self._settled(state)
            self._may_begin()
            running = self._running.begin(state.intent.call, lambda: self.run(state))
        return await running.wait()

    def _runs(self) -> bool:
        """Whether any call of this attempt runs: a model's, the worker's, the harness's.

        One that began a sub-agent does not: what runs are the calls of that.
        """
        return self._models.running or self._acts()

    def _acts(self) -> bool:
        if self._running.busy or self._beginning:
            return True
        fence = self._context.writer.lease.fence
        started = (call.intent for call in self._context.turn.open_calls() if call.started == fence)
        return any(intent.runs_in == "harness" and not intent.spawns for intent in started)

    def is_waited_for(self) -> bool:
        """Whether a call runs, or is about to, that the harness waits for."""
        return self._models.answering or self._running.under_way or self._acts()

    async def stop(self, patience_s: float | None) -> bool:
        """Stop every tool that runs here (see `Runs.stop`)."""
        return await self._running.stop(patience_s)

    def _may_begin(self) -> None:
        """Nothing begins in an attempt that is ending."""
        if self._context.stopping is not None:
            raise TurnStopped(self._context.stopping)
        self._context.check()

    async def _intend(
        self, name: str, arguments: Mapping[str, Any], lane: str, *, granted: bool = False
    ) -> CallState:
        """Write the intent of a call that no answer of a model asked for; durable unless `safe`.

        One that is `granted` does not begin with it, but with a `call_started`.
        """
        context, writer, turn = self._context, self._context.writer, self._context.turn
        means = context.resolve(name, arguments)
        await context.gate.cross(Point.BEFORE_INTENT, policy=means.policy)
        self._may_begin()
        packer = writer.packer()
        number = writer.state.next_call
        intent = CallIntent(
            call=number,
            turn=turn.turn,
            lane=lane,
            ordinal=turn.ordinals.get(f"tool/{lane}", 0),
            kind="tool",
            name=means.name,
            arguments=packer.payload(dict(arguments), what=f"the arguments of {name}"),
            policy=means.policy,
            on_doubt=means.on_doubt,
            key="" if means.policy == "safe" else context.key_of(number),
            key_until_s=context.clock.now() + means.key_ttl_s if means.key_ttl_s else 0.0,
            granted=granted,
            at_s=context.clock.now(),
        )
        lazy = means.policy == "safe"
        landed = context.append(intent, packer=packer, lazy=lazy)
        state = turn.calls[number]
        self.index.make(state)
        self._beginning += 1  # from here on it may have begun, so nobody may take the attempt for one at rest
        try:
            if not lazy:
                await writer.durable(landed)
            await context.gate.cross(Point.AFTER_INTENT, call=number, policy=means.policy)
        finally:
            self._beginning -= 1
            asyncio.get_running_loop().call_soon(context.eased)
        return state

    async def run(self, state: CallState) -> ToolResult:
        """Run a call of the worker's, whose intent is written, to its outcome. Durable."""
        context, intent = self._context, state.intent
        tool = context.tool_of(intent)
        if tool is None:
            result = ToolResult("error", GONE.format(name=intent.name))
            return await self.settle(state, result)
        if intent.granted or state.opened != context.writer.lease.fence:
            if state.started and intent.call not in self.may_run:
                return ToolResult("error", NOT_GRANTED)
            await self._start(state)
        arguments = await context.value(intent.arguments)
        while True:
            await context.gate.cross(Point.IN_EFFECT, call=intent.call, policy=intent.policy)
            context.check()
            with self.hands(state) as hands:
                result = await run_function(tool, hands.io, arguments)
                await context.gate.cross(Point.AFTER_EFFECT, call=intent.call, policy=intent.policy)
                if isinstance(result, ToolResult):
                    return await self.settle(state, result, hands)
            if state.tries >= tool.retries:
                return await self.settle(state, ToolResult("error", as_unicode(said_by(result))))
            await self._try_again(state, result)

    async def _try_again(self, state: CallState, said: TryAgain) -> None:
        """Write down that this try had no effect, pause, and let the call go once more.

        Whoever dies in the pause leaves no doubt: the call has not begun.
        """
        context, intent = self._context, state.intent
        due_s = context.clock.elapsed() + min(
            RETRY_MOST_S, max(said.after_s, RETRY_S * 2 ** min(state.tries, 10))
        )
        reason = as_unicode(f"try {state.tries + 1} had no effect: {said_by(said)}")
        await context.write(CallRetracted(intent.call, intent.turn, intent.lane, reason, no_effect=True))
        self._offsets.pop((intent.call, "output"), None)
        while (left_s := due_s - context.clock.elapsed()) > 0:  # noqa: ASYNC110 - a clock that is turned tells nobody
            await asyncio.sleep(min(LOOK_S, left_s))
        with self._running.pausing(intent.call):
            await context.room_for(context.tool_of(intent))
        await context.gate.cross(Point.BEFORE_START, call=intent.call, policy=intent.policy)
        self._may_begin()
        await self._start(state)
        await context.gate.cross(Point.AFTER_START, call=intent.call, policy=intent.policy)

    def hands(self, state: CallState) -> Hands:
        """What a try of this call changes with."""
        return Hands(self._context, state, lambda text: self.show(state.intent.call, "output", text))

    # outcomes

    async def settle(self, state: CallState, result: ToolResult, hands: Hands | None = None) -> ToolResult:
        """Write the outcome of a call, and what it changed. Durable before it is used."""
        context, intent = self._context, state.intent
        packer, hands = context.writer.packer(), hands or self.hands(state)
        with hands:
            result, changes = await hands.with_outcome(result, packer)
            if state.outcome is not None:  # while its files were looked at somebody else has ended it
                return await self._settled(state)
            outcome = outcome_of(intent, result, packer, context.clock.now(), hands.touched)
            landed = context.append(*changes, outcome, packer=packer)
            self.told.note(intent, result)
            await context.gate.cross(Point.OUTCOME_QUEUED, call=intent.call, policy=intent.policy)
            await context.writer.durable(landed)
            hands.landed()
        await self.shells.ended(state, result)
        await context.gate.cross(Point.AFTER_OUTCOME, call=intent.call, policy=intent.policy)
        asyncio.get_running_loop().call_soon(context.eased)
        return result

    def result_of(self, harness_id: str) -> ToolResult | None:
        return self.told.find(harness_id)

    def correct(self, harness_id: str, result: ToolResult, *, told: bool = False) -> None:
        self.told.correct(harness_id, result, told=told)

    def intent_of(self, harness_id: str) -> CallIntent | None:
        state = self.index.of_harness(harness_id)
        return None if state is None else state.intent

    def show(self, call: int, kind: Literal["text", "thinking", "output"], text: str) -> None:
        state = self._context.turn.calls.get(call)
        if state is None or state.outcome is not None or not text:
            return
        offset = self._offsets.get((call, kind), 0)
        self._offsets[call, kind] = offset + len(text)
        fence = self._context.writer.lease.fence
        self._context.writer.show(
            LiveDelta(call, state.intent.turn, kind, text, offset, state.intent.lane, fence)
        )
