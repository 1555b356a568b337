"""Advances a claimed session: turn after turn, each from where the log stops, until nothing is left to do.

The order of an attempt, each arrow a place where a crash is survived:
claim → fold → (open the next turn | plan recovery → retract, verify, run again, doubt) → adapter → settle → release.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import Final

from outlast.adapter import Agent, Waiting
from outlast.attaching import check_taken
from outlast.clock import Clock
from outlast.documents import Shapes
from outlast.engine.attempt import EngineAttempt, Surroundings
from outlast.engine.batch import Batcher, patiently
from outlast.engine.budget import used_up
from outlast.engine.context import Context
from outlast.engine.control import Control
from outlast.engine.course import HANDED_OVER
from outlast.engine.documents import Documents
from outlast.engine.ears import CollectorEar, Ear, NotifierEar
from outlast.engine.effects import described
from outlast.engine.errands import Errands
from outlast.engine.inbox import InboxReader
from outlast.engine.leaving import Leaving
from outlast.engine.load import load
from outlast.engine.outbox import Outbox
from outlast.engine.recover import recover
from outlast.engine.skew import not_behind
from outlast.engine.spacing import Spacing
from outlast.engine.stopping import STUBBORN, stop
from outlast.engine.telling import Telling
from outlast.engine.term import Term
from outlast.engine.upshot import End, upshot
from outlast.engine.writer import Writer
from outlast.errors import (
    AttemptLost,
    HarnessError,
    NotFound,
    OutlastError,
    Refused,
)
from outlast.fold import SessionState
from outlast.gate import Gate, Point
from outlast.notify import Notifier
from outlast.offers import OFFERED
from outlast.records import TurnOpened
from outlast.tracing import Collector
from outlast.workspace import Note
from outlast.world import Claim, Lease, World

KILL_GRACE_S: Final = 2.0
"""How long the processes of a holder whose lease merely ran out may still be dying."""
STUBBORN_S: Final = 5.0
"""How long an ending attempt waits for tools that do not let themselves be cancelled."""
HOLD_S: Final = 0.25
"""How often a session that is held through a pause is looked at: a cancel ends the pause, a hand-over too."""

OpenSurroundings = Callable[[SessionState, Agent, Note], AbstractAsyncContextManager[Surroundings]]


@dataclass(frozen=True, slots=True)
class Advancer:
    """Carries sessions forward for one worker."""

    world: World
    batcher: Batcher
    agents: Mapping[str, Agent]
    surroundings: OpenSurroundings
    gate: Gate
    clock: Clock
    kill_grace_s: float = KILL_GRACE_S
    term: Term | None = None
    """When the worker must have ended; None: whenever it is told."""
    notifier: Notifier | None = None
    collector: Collector | None = None
    stands: Callable[[], bool] = lambda: True
    """Whether this worker's leases are sure to stand now."""
    spacing: Callable[[], Spacing] = Spacing
    """When each session's snapshots are due."""

    async def advance(self, claim: Claim, control: Control) -> None:
        """Advance one claimed session until it has nothing to do, is parked, or is lost.

        Returns normally in all these cases; what happened stands in the log.

        Raises:
            LogBroken, FormatTooNew: the log cannot be acted on. The lease is kept, so that nobody tries that again and
                again; it ends with the worker.
            WorldUnavailable: the World was gone for longer than it is waited for. The lease may stand.
        """
        await self.gate.cross(Point.CLAIMED)
        state = await load(self.world, claim)
        writer = Writer(self.world, self.batcher, claim, state, stands=self.stands, spacing=self.spacing())
        control.writer = writer
        if control.lost is not None:
            writer.lose(control.lost)
        clock = await not_behind(self.world, self.clock, state)
        try:
            await _Session(replace(self, clock=clock), claim, writer, control).run()
        except AttemptLost:
            if control.lost is None:  # the worker lives on: what it does not advance it must not hold
                await self.release(claim.lease)
        finally:
            await writer.close()

    async def release(self, lease: Lease) -> None:
        """Give a lease back. Nothing happens when it no longer stands."""
        with suppress(NotFound, Refused):  # erased meanwhile: there is nothing to give back
            await patiently(lambda: self.world.release(lease))


class _Session:
    """One claimed session, advancing."""

    def __init__(self, advancer: Advancer, claim: Claim, writer: Writer, control: Control) -> None:
        self._advancer = advancer
        self._claim = claim
        self._writer = writer
        self._control = control
        opened = writer.state.opened
        shapes: Shapes = {} if opened is None else advancer.agents[opened.agent].documents
        self._documents = Documents(writer.state, writer.blobs, shapes, advancer.clock)
        self._inbox = InboxReader(advancer.world, writer, self._documents, advancer.clock)
        world, gate, clock = advancer.world, advancer.gate, advancer.clock
        ears: tuple[Ear, ...] = (
            NotifierEar(advancer.notifier, world.tenant),
            CollectorEar(advancer.collector, world, writer.state),
        )
        tellings = [Telling(writer, ear, gate=gate, clock=clock) for ear in ears]
        self._outbox = Outbox(writer, tellings, Errands(world, writer, gate=gate, clock=clock))
        self._leaving = Leaving(world, writer, self._inbox, self._outbox, control, clock)

    async def run(self) -> None:
        async with self._inbox.listening(), self._outbox.going_on():
            await self._turns()
            while await self._linger():
                await self._turns()
        if not self._writer.released:
            await self._writer.flush()
            await self._keep_the_pause()
            self._writer.check()
            await self._advancer.release(self._writer.lease)
        await self._advancer.gate.cross(Point.RELEASED)

    async def _turns(self) -> None:
        """Turn after turn, until nothing is left to do or the open one cannot go on now."""
        resumed = self._writer.state.turn is not None
        while not self._writer.released:
            await self._inbox.read(leave_steers=resumed)
            ends = self._control.draining or self._inbox.newer
            if not resumed and (ends or not await self._open_turn()):
                return
            if not await self._attempt(resumed=resumed):
                return
            resumed = False
            await self._writer.snapshot()

    async def _linger(self) -> bool:
        """Stay while somebody is being told. True when another turn can begin meanwhile."""
        while self._outbox.busy and not self._writer.released and self._writer.lost is None:
            if self._control.draining:
                return False
            if await self._inbox.has_news():
                return (
                    self._writer.state.turn is None
                )  # an open turn goes on with a claim, as it would without
            await self._outbox.quiet(HOLD_S)
        return False

    async def _keep_the_pause(self) -> None:
        """Hold the session until the next attempt is due, where a steer waits, which would make it ready at once."""
        clock, control, inbox = self._advancer.clock, self._control, self._inbox
        due_s = self._writer.wake_at_s or 0.0
        turn = self._writer.state.turn
        if turn is None or turn.waits:  # what comes for it must find it given back
            return
        while clock.now() < due_s and not control.draining and self._writer.lost is None:
            await inbox.read(leave_steers=True)
            if inbox.cancels or not inbox.steers_wait:
                return
            await asyncio.sleep(min(HOLD_S, max(0.0, due_s - clock.now())))

    async def _open_turn(self) -> bool:
        """Open a turn for the next prompt that waits in the log. False when there is none."""
        state = self._writer.state
        if not state.queue:
            return False
        prompt = state.queue[0]
        landed = self._writer.append(
            TurnOpened(
                state.next_turn,
                prompt.input,
                prompt.prompt,
                self._advancer.clock.now(),
                after=state.seq,
                traceparent=prompt.traceparent,
                attachments=prompt.attachments,
            )
        )
        await self._advancer.gate.cross(Point.TURN_OPENED)
        # Durable before the harness starts: one that kills its worker at once would else use up no budget, for ever.
        await self._writer.durable(landed)
        self._leaving.opened_at = self._writer.state.seq
        return True

    async def _attempt(self, *, resumed: bool) -> bool:
        """Carry the open turn on. True when it was settled and the session may go on to its next prompt."""
        state, advancer = self._writer.state, self._advancer
        turn = state.turn
        if turn is None or state.opened is None:
            return False
        agent = advancer.agents[state.opened.agent]
        context = self._context(agent)
        if self._inbox.cancels:
            return await self._leaving.settle(context, None, None)
        if turn.parked is not None or used_up(turn, agent):
            return await self._leaving.leave_parked(turn)
        # By time alone the World's clock decides, which may be ahead of this one.
        if self._inbox.woke and self._advancer.clock.now() < turn.again_at_s:
            return await self._leaving.pause_on(turn)
        if resumed and self._claim.proof == "expired":
            await asyncio.sleep(advancer.kill_grace_s)
        try:
            async with advancer.surroundings(state, agent, context.network.note) as around:
                await context.enter(around.site, resumed=resumed)
                prompt = await context.value(turn.prompt)
                attempt = EngineAttempt(context, agent, around, resumed=resumed, prompt=str(prompt))
                end = await self._advance(attempt, context)
        except Exception as error:  # noqa: BLE001 - handled: the attempt failed, and its reason goes into the log
            return await self._leaving.failed(context, error)
        return await self._leaving.finish(attempt, context, end)

    def _context(self, agent: Agent) -> Context:
        advancer = self._advancer
        offered = OFFERED.values() if agent.adapter.abilities.waits else ()
        tools = {tool.name: tool for tool in (*offered, *agent.tools)}
        context = Context(
            advancer.world, self._writer, agent.adapter, tools, gate=advancer.gate, clock=advancer.clock
        )
        context.term = advancer.term or context.term
        context.rules, context.budget = agent.rules, agent.budget
        context.documents = self._documents
        self._control.context = context
        if self._control.draining:
            context.stop(HANDED_OVER)
        return context

    async def _advance(self, attempt: EngineAttempt, context: Context) -> End | OutlastError | None:
        """Let the adapter carry the turn until it ends, is stopped or is lost. Nothing of it runs when this returns."""
        loop = asyncio.get_running_loop()
        driver = loop.create_task(self._drive(attempt, context))
        watcher = loop.create_task(self._inbox.watch(attempt, context))
        stopped: asyncio.Future[None] = loop.create_future()
        context.on_stop = self._writer.on_lost = lambda: _cancel(driver, stopped)
        if context.stopping is not None or self._writer.lost is not None:
            _cancel(driver, stopped)
        try:
            await asyncio.wait({driver, watcher, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # A driver that goes on all the same can do no harm: in a context that is closed no call begins.
            ended = await stop({driver, watcher})
            context.on_stop = self._writer.on_lost = lambda: None
            # A tool that ran on beneath another worker would make nonsense of what that one finds out about it. At the
            # end of a turn it says itself that the call is in doubt; so a stubborn one is waited for in one case only.
            handing_over = context.stopping == HANDED_OVER and self._writer.lost is None
            await attempt.calls.stop(context.term.left_s if handing_over else STUBBORN_S)
            context.close()
        end = upshot(driver, watcher) if ended else HarnessError(harness="the adapter", reason=STUBBORN)
        end = context.failure or end
        if not isinstance(end, OutlastError):
            await context.files.end()
        return end

    async def _drive(self, attempt: EngineAttempt, context: Context) -> End:
        if attempt.resumed:
            await recover(attempt, context)
            if await attempt.calls.hold_on():
                return Waiting()
        else:
            await attempt.calls.told.recall()
        adapter = context.adapter
        check_taken(context.turn.attachments, adapter.abilities.attachments, adapter.name)
        try:
            return await adapter.advance(attempt)
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Of its own making. The others, out of a task, would take the event loop along.
            raise HarnessError(harness="the adapter", reason=described(error)) from error


def _cancel(task: "asyncio.Task[End]", cancelled: "asyncio.Future[None]") -> None:
    task.cancel()
    if not cancelled.done():
        cancelled.set_result(None)
