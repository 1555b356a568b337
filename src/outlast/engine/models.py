"""Model calls of one attempt: served from the log, joined, asked again, or refused because the log says otherwise."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outlast.adapter import MAIN, Joined, ModelAsk, Opening, Parked, Resolved, Send, Served, ToolAsk
from outlast.behind import is_note
from outlast.engine.context import Context
from outlast.engine.index import CallIndex
from outlast.engine.walk import Walk
from outlast.errors import TurnStopped
from outlast.fold import CallState
from outlast.gate import Point
from outlast.offers import read_offer
from outlast.records import CallIntent, CallOutcome, CallRetracted, Payload, SteerTaken, Usage
from outlast.records.kinds import CallKind


class ModelCalls:
    """Opens and settles the model calls of an attempt (`outlast.adapter.Calls` says what is promised)."""

    def __init__(self, context: Context, index: CallIndex, walk: Walk) -> None:
        self._context = context
        self._index = index
        self._walk = walk
        self._running: dict[int, asyncio.Future[Mapping[str, Any] | None]] = {}
        self._began: dict[int, float] = {}
        self._unseen: set[int] = set()

    @property
    def running(self) -> bool:
        """A provider is being asked."""
        return bool(self._running)

    @property
    def answering(self) -> bool:
        """A provider is being asked, and who asks it would tell if it fell silent."""
        return any(call not in self._unseen for call in self._running)

    async def open(self, ask: ModelAsk) -> Opening:
        try:
            opening = await self._open(ask)
        except TurnStopped as stopped:
            return Parked(stopped.why)
        if ask.unseen and isinstance(opening, Send):
            self._unseen.add(opening.call)
        return opening

    async def _open(self, ask: ModelAsk) -> Opening:
        context = self._context
        if context.stopping is not None:
            return Parked(context.stopping)
        if ask.placed:
            state = await self._walk.step(ask.lane, "model", ask.model, ask.match)
            return await self._new(ask, ask.lane) if state is None else await self._known(state)
        unbound = self._index.unbound() if ask.lane != MAIN else []
        lane = self._index.lane(ask.lane, ask.match)
        found = self._index.matching(lane, ask.match)
        if found is not None:
            return await self._known(found)
        beyond = self._in_the_way(lane, unbound)
        if beyond:
            return await self._diverge(ask, lane, beyond)
        return await self._new(ask, lane)

    async def _known(self, found: CallState) -> Opening:
        call = found.intent.call
        running = self._running.get(call)  # first: an answer that is not durable yet must not be used
        if running is not None:
            return Joined(call, lambda: _wait(running))
        if found.outcome is not None:
            answer = await self._context.value(found.outcome.result)
            return Served(call, answer, refused=found.outcome.status != "ok")
        await self._context.afford()
        await self._context.room(None)
        return self._send(call)

    def _send(self, call: int) -> Send:
        self._context.check()
        self._running[call] = asyncio.get_running_loop().create_future()
        self._began[call] = self._context.clock.elapsed()
        return Send(call)

    def _in_the_way(self, lane: str, unbound: Sequence[str]) -> list[CallState]:
        """Calls beyond what the harness has seen on which something hangs that must not happen twice."""
        lanes = [lane, *(other for other in unbound if lane.startswith("sub") and other != lane)]
        beyond = [state for name in lanes for state in self._index.beyond(name)]
        return [state for state in beyond if self._binds(state)]

    def _binds(self, state: CallState) -> bool:
        asked = self._index.asked_by(state.intent.call)
        return any(
            call.intent.policy != "safe" and (call.started or call.outcome is not None) for call in asked
        )

    async def _diverge(self, ask: ModelAsk, lane: str, beyond: Sequence[CallState]) -> Parked:
        context = self._context
        evidence = {
            "lane": lane,
            "request": ask.match,
            "expected": [state.intent.match for state in beyond][:8],
            "calls_beyond": [state.intent.call for state in beyond][:8],
            "differs": await self._difference(ask, beyond[0]),
        }
        context.park("diverged", evidence)

    async def _difference(self, ask: ModelAsk, expected: CallState) -> str:
        request = msgspec.json.decode(expected.intent.arguments.json, type=dict[str, Any])
        packer = self._context.writer.packer()
        now = packer.request(ask.frame, ask.messages)
        if request.get("frame") != now.frame:
            return "the frame of the request (system prompt, tools or model) is another than in the log"
        return "the messages of the request are others than in the log"

    async def _new(self, ask: ModelAsk, lane: str) -> Opening:
        context = self._context
        writer, turn = context.writer, context.turn
        await context.afford()
        await context.room(None)
        asked_by = ask.asked_by or (0 if ask.placed else await self._spawner(lane, ask))
        await context.gate.cross(Point.BEFORE_INTENT, policy="model")
        if context.stopping is not None:
            return Parked(context.stopping)
        twin = None if ask.placed else self._index.matching(lane, ask.match)
        if twin is not None:  # the same request came again meanwhile, and was faster
            return await self._known(twin)
        packer = writer.packer()
        request = packer.request(ask.frame, ask.messages)
        intent = CallIntent(
            call=writer.state.next_call,
            turn=turn.turn,
            lane=lane,
            ordinal=turn.ordinals.get(f"model/{lane}", 0),
            kind="model",
            name=ask.model,
            arguments=packer.payload(request, what="the model request"),
            policy="safe",
            match=ask.match,
            asked_by=asked_by,
            runs_in="worker" if ask.placed else "provider",
            at_s=context.clock.now(),
        )
        steers = context.take_steers(lane)
        taken = [SteerTaken(turn.turn, steer.input, intent.call, steer.text) for steer in steers]
        inputs = [steer.input for steer in steers if not is_note(steer.input)]
        context.append(intent, *taken, packer=packer, consumes=inputs, lazy=not steers)
        (self._index.make if ask.placed else self._index.add)(turn.calls[intent.call])
        opening = self._send(intent.call)
        if steers:
            await context.gate.cross(Point.STEER_TAKEN, call=intent.call, policy="model")
        await context.gate.cross(Point.AFTER_INTENT, call=intent.call, policy="model")
        context.check()  # last of all: whoever was suspended here must not ask a provider
        return opening

    async def _spawner(self, lane: str, ask: ModelAsk) -> int:
        """The open tool call that began the sub-agent of `lane`: the one whose prompt its first request holds."""
        first = self._index.first_of(lane)
        if not lane.startswith("sub") or first is not None:
            return 0 if first is None else first.intent.asked_by
        calls = self._context.turn.calls.values()
        taken = {state.intent.asked_by for state in calls if state.intent.kind == "model"}
        free = [
            state for state in calls if state.intent.spawns and state.open and state.intent.call not in taken
        ]
        text = msgspec.json.encode([ask.messages[:1]]).decode()
        found = {state.intent.call: await self._prompt_of(state) for state in free}
        # The longest that fits: the prompt of one may stand within that of another.
        for call in sorted(found, key=lambda call: -len(found[call])):
            if found[call] and found[call] in text:
                return call
        return free[0].intent.call if free else 0

    async def _prompt_of(self, state: CallState) -> str:
        """What a call tells the sub-agent that it begins, as it stands in JSON."""
        arguments = await self._context.value(state.intent.arguments)
        prompt = self._context.resolve(state.intent.name, arguments).spawns
        return msgspec.json.encode(prompt).decode()[1:-1]

    async def settle(
        self, call: int, answer: Mapping[str, Any], asks: Sequence[ToolAsk], usage: Usage | None
    ) -> None:
        context, writer, turn = self._context, self._context.writer, self._context.turn
        state = turn.calls[call]
        lane = state.intent.lane
        packer = writer.packer()
        outcome = CallOutcome(
            call=call,
            turn=turn.turn,
            status="ok",
            result=packer.payload(dict(answer), what="the model's answer"),
            lane=lane,
            usage=usage,
            duration_s=round(context.clock.elapsed() - self._began.get(call, context.clock.elapsed()), 4),
            at_s=context.clock.now(),
        )
        intents: list[CallIntent] = []
        named: set[str] = set()
        for ask in asks:
            # An id that comes twice is granted once: what is asked for under it may begin once.
            if self._index.of_harness(ask.harness_id) is None and ask.harness_id not in named:
                named.add(ask.harness_id)
                intents.append(
                    self._granted(ask, state, intents, packer.payload(dict(ask.arguments), what=ask.name))
                )
        landed = context.append(outcome, *intents, packer=packer)
        for intent in intents:
            self._index.add(turn.calls[intent.call])
        await context.gate.cross(Point.OUTCOME_QUEUED, call=call, policy="model")
        await writer.durable(landed)
        await context.gate.cross(Point.AFTER_OUTCOME, call=call, policy="model")
        self._end(call, answer)

    async def refuse(self, call: int, refusal: Mapping[str, Any], usage: Usage | None) -> None:
        context, turn = self._context, self._context.turn
        packer = context.writer.packer()
        outcome = CallOutcome(
            call=call,
            turn=turn.turn,
            status="error",
            result=packer.payload(dict(refusal), what="the provider's refusal"),
            lane=turn.calls[call].intent.lane,
            usage=usage,
            duration_s=round(context.clock.elapsed() - self._began.get(call, context.clock.elapsed()), 4),
            at_s=context.clock.now(),
        )
        landed = context.append(outcome, packer=packer)
        await context.gate.cross(Point.OUTCOME_QUEUED, call=call, policy="model")
        await context.writer.durable(landed)
        await context.gate.cross(Point.AFTER_OUTCOME, call=call, policy="model")
        self._end(call, None)

    def _granted(
        self, ask: ToolAsk, asker: CallState, before: Sequence[CallIntent], arguments: Payload
    ) -> CallIntent:
        """The intent of a call that an answer asks for; `before` are those of the same answer that stand before it."""
        context, lane = self._context, asker.intent.lane
        means: Resolved = context.resolve(ask.name, ask.arguments)
        now_s = context.clock.now()
        offer = read_offer(means.name, ask.arguments, now_s) if means.runs_in == "worker" else None
        kind: CallKind = "tool" if offer is None else "wait"
        earlier = context.turn.ordinals.get(f"{kind}/{lane}", 0)
        number = context.writer.state.next_call + len(before)
        return CallIntent(
            call=number,
            turn=context.turn.turn,
            lane=lane,
            ordinal=earlier + sum(intent.kind == kind for intent in before),
            kind=kind,
            name=means.name,
            arguments=arguments,
            policy=means.policy,
            on_doubt=means.on_doubt,
            key="" if means.policy == "safe" else context.key_of(number),
            key_until_s=now_s + means.key_ttl_s if means.key_ttl_s else 0.0,
            until_s=0.0 if offer is None else offer.until_s,
            harness_id=ask.harness_id,
            runs_in=means.runs_in,
            granted=True,
            spawns=bool(means.spawns),
            asked_by=asker.intent.call,
            at_s=now_s,
        )

    async def void(self, call: int, reason: str, usage: Usage | None) -> None:
        context = self._context
        state = context.turn.calls.get(call)
        if state is not None and state.open:
            record = CallRetracted(call, context.turn.turn, state.intent.lane, reason, usage)
            landed = context.append(record)
            self._end(call, None)
            await context.writer.durable(landed)

    def _end(self, call: int, answer: Mapping[str, Any] | None) -> None:
        running = self._running.pop(call, None)
        if running is not None and not running.done():
            running.set_result(answer)
        asyncio.get_running_loop().call_soon(self._context.eased)


async def _wait(running: "asyncio.Future[Mapping[str, Any] | None]") -> Mapping[str, Any] | None:
    return await asyncio.shield(running)
