"""How a session leaves an attempt: its turn settled, waiting, parked, or left to another."""

from contextlib import suppress

from outlast.adapter import TurnResult, Waiting
from outlast.clock import Clock
from outlast.engine.attempt import EngineAttempt
from outlast.engine.budget import cut_off, evidence
from outlast.engine.context import Context
from outlast.engine.control import Control
from outlast.engine.course import FAILED, HANDED_OVER
from outlast.engine.effects import as_unicode, described
from outlast.engine.inbox import CANCELLED, InboxReader, as_prompts
from outlast.engine.outbox import Outbox
from outlast.engine.pauses import pause_s
from outlast.engine.settle import closing_records
from outlast.engine.upshot import End
from outlast.engine.waits import WAITING, next_end, only_waits
from outlast.engine.writer import Writer
from outlast.errors import (
    BadInput,
    HarnessError,
    ModelCallFailed,
    NotFound,
    OutlastError,
    Refused,
    WorldUnavailable,
)
from outlast.fold import TurnState
from outlast.gate import Point
from outlast.records import AttemptEnded, TurnParked
from outlast.world import World


class Leaving:
    """Ends the attempts of one claimed session.

    Each method returns True when the turn was settled and the session may go on to its next prompt.
    """

    def __init__(
        self,
        world: World,
        writer: Writer,
        inbox: InboxReader,
        outbox: Outbox,
        control: Control,
        clock: Clock,
    ) -> None:
        self._world = world
        self._writer = writer
        self._inbox = inbox
        self._outbox = outbox
        self._control = control
        self._clock = clock
        self.opened_at = 0
        """Number of the commit that opened the turn; 0 of one that another worker opened."""

    async def finish(self, attempt: EngineAttempt, context: Context, end: End | OutlastError | None) -> bool:
        """The adapter, or what stopped it, has come to this end."""
        if self._writer.lost is not None:
            raise self._writer.lost
        if context.stopping == CANCELLED:
            return await self.settle(context, None, attempt)
        if isinstance(end, TurnResult) and context.stopping is None:
            return await self.settle(context, end, attempt)
        if context.stopping == WAITING or (isinstance(end, Waiting) and context.stopping is None):
            return await self._suspend(context, attempt)
        if isinstance(end, BadInput) and context.stopping is None:
            return await self.settle(context, TurnResult("failed", error=str(end)), attempt)
        if isinstance(end, OutlastError) and context.stopping in {None, FAILED}:
            return await self.failed(context, end)
        if context.stopping == HANDED_OVER:
            await self._hand_over(context)
        return False

    async def _hand_over(self, context: Context) -> None:
        """Leave the turn to the next attempt: at once, or when a provider that has refused wants to be asked again."""
        now, turn = self._clock.now(), context.turn
        fence, asked_s = self._writer.lease.fence, context.retry_after_s
        cut = tuple(call.intent.call for call in turn.open_calls() if cut_off(call, fence))
        again_s = now + asked_s if asked_s else 0.0
        self._writer.wake_at_s = again_s or None
        waits = only_waits(self._writer.state, turn, now)
        await self._writer.write(
            AttemptEnded(turn.turn, "handed_over", at_s=now, cut=cut, waits=waits, again_at_s=again_s)
        )

    async def _suspend(self, context: Context, attempt: EngineAttempt) -> bool:
        """All that the turn does is wait: give the session back until one of its waits may end, by time or by input."""
        turn, now = context.turn, self._clock.now()
        # What came last: a steer that stayed in the inbox would wake the session at once, again and again.
        await self._inbox.read(attempt, context)
        if self._inbox.cancels:
            return await self.settle(context, None, attempt)
        overtaken = attempt.calls.waits.overtaken
        if not overtaken and not any(call.intent.kind == "wait" for call in turn.open_calls()):
            return await self.failed(
                context, HarnessError(harness="the adapter", reason="it waits for nothing")
            )
        self._writer.wake_at_s = now if overtaken else next_end(self._writer.state, turn, now)
        self._writer.asleep = self._writer.wake_at_s is None
        packer = self._writer.packer()
        steers = attempt.steers.untaken()
        records = [
            AttemptEnded(turn.turn, "waiting", at_s=now),
            *as_prompts(self._writer.state, steers, packer, now),
        ]
        self._control.context = None
        await self._writer.write(
            *records,
            packer=packer,
            consumes=[steer.input for steer in steers],
            release=not self._outbox.owes(settling=False),
        )
        return False

    async def settle(self, context: Context, end: TurnResult | None, attempt: EngineAttempt | None) -> bool:
        """The turn has come to its end; None: it was cancelled."""
        await context.gate.cross(Point.BEFORE_SETTLE)
        packer = self._writer.packer()
        steers = () if attempt is None else attempt.steers.untaken()
        consumes = [*(steer.input for steer in steers), *self._inbox.cancels]
        self._inbox.cancels = []
        now, closing = context.clock.now(), closing_records(context.turn, end, packer, context.clock)
        records = [*closing, *as_prompts(self._writer.state, steers, packer, now)]
        self._control.context = None
        await self._drop_deltas()
        # A prompt that comes meanwhile makes the session ready again, whoever claims it then.
        state, writer = self._writer.state, self._writer
        owes = self._outbox.owes(settling=True)
        last = not (steers or state.queue or writer.wants_snapshot or owes)
        await self._writer.write(*records, packer=packer, consumes=consumes, release=last)
        await context.gate.cross(Point.AFTER_SETTLE)
        return True

    async def failed(self, context: Context, error: Exception) -> bool:
        """The harness or the provider failed: let another attempt try, later; budgets of their own bound how often."""
        now, turn = self._clock.now(), context.turn
        text = as_unicode(str(error)) if isinstance(error, OutlastError) else described(error)
        provider = isinstance(error, ModelCallFailed)
        again_s = now + pause_s(turn, provider=provider, asked_s=context.retry_after_s)
        self._writer.wake_at_s = again_s
        why = "provider" if provider else "failed"
        await self._writer.write(AttemptEnded(turn.turn, why, text, now, again_at_s=again_s))
        return False

    async def pause_on(self, turn: TurnState) -> bool:
        """An input has woken the session before its pause is over: that goes on, and the attempt counts for nothing."""
        self._writer.wake_at_s = turn.again_at_s
        now = self._clock.now()
        again_s = turn.again_at_s
        await self._writer.write(
            AttemptEnded(turn.turn, "handed_over", at_s=now, waits=True, again_at_s=again_s)
        )
        return False

    async def leave_parked(self, turn: TurnState) -> bool:
        """The turn waits for a person, from now on if its budget is used up. Steers wait behind it, as prompts."""
        if turn.parked is None:
            now = self._clock.now()
            await self._writer.write(TurnParked(turn.turn, "stuck", evidence(turn), now))
        await self._inbox.read()
        return False

    async def _drop_deltas(self) -> None:
        """Free what the turns before this one showed; its own stays until the next is settled."""
        # If it fails, or is left out here, the next turn's call frees this too; what a refusal means, the next commit
        # finds out.
        if self.opened_at and self._writer.state.shown:
            with suppress(NotFound, Refused, WorldUnavailable):
                await self._world.drop_deltas(self._writer.lease, self.opened_at)
