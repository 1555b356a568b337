"""Reads a session's inbox while its turn runs, and turns what is there into records or into an end."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec

from outlast.adapter import TakenSteer
from outlast.agenda import parked_until
from outlast.clock import Clock
from outlast.codec import Packer, is_newer_input, read_input
from outlast.documents import wish
from outlast.engine.attempt import EngineAttempt
from outlast.engine.batch import patiently
from outlast.engine.children import reported
from outlast.engine.context import Context
from outlast.engine.documents import Documents
from outlast.engine.rulings import rule
from outlast.engine.waits import has_room
from outlast.engine.writer import Writer
from outlast.errors import BadInput
from outlast.logs import logger
from outlast.records import (
    AnyRecord,
    Cancel,
    Decision,
    Edit,
    InputDropped,
    InputRefused,
    Prompt,
    PromptQueued,
    PromptRecalled,
    Recall,
    Report,
    Retry,
    Schedule,
    Signal,
    SignalKept,
    Steer,
    TurnReleased,
    Unschedule,
)
from outlast.schedules import came, known_prompts, planned, prompt_id
from outlast.state import SessionState
from outlast.world import Input, Subscription, World

POLL_S: Final = 2.0
"""How often the inbox is read when no hint comes."""
CANCELLED: Final = "cancelled"
UNKNOWN: Final = (
    "session %s: the input %s is of a newer outlast than this worker is. It is left where it is; what runs goes on, "
    "then only a newer worker can claim the session. Start one."
)
SIGNALS_KEPT: Final = 1_000
PROMPTS_QUEUED: Final = 1_000
"""Signals that no wait has taken, and prompts behind the open turn, that a session keeps: all of recovery reads them.
What comes beyond is refused, not what is there: that was promised to be kept. A signal that a wait needs to end is
taken all the same."""

BUSY: Final = "another turn is open or waits"
"""Why a prompt is refused that is to run alone."""

_Word: TypeAlias = Signal | Decision | Retry | Schedule | Unschedule | Report
"""What a wait or a parked turn may wait for, or what is to come by itself."""
_Quick: TypeAlias = Prompt | Steer | Cancel | Recall | _Word
"""What is turned into records at once."""


log = logger("outlast.worker")


class InboxReader:
    """Handles each unconsumed input of a session once per attempt.

    One that only a newer outlast can read stays in the inbox, and the session is left to whoever can.
    """

    def __init__(self, world: World, writer: Writer, documents: Documents, clock: Clock) -> None:
        self._world = world
        self._writer = writer
        self._documents = documents
        self._clock = clock
        self._seen: set[str] = set()
        self.cancels: list[str] = []
        """Cancels of the open turn; consumed by the commit that settles it."""
        self.steers_wait = False
        """At the last look that left steers where they are, there were some."""
        self.newer = False
        """Something is there that a newer worker must take."""
        self._hints: Subscription | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Hear of what comes from here on: `watch` then needs no look of its own to begin with."""
        async with self._world.subscribe(self._writer.state.session, inbox=True) as hints:
            self._hints = hints
            yield

    @property
    def woke(self) -> bool:
        """Something was there since the session was claimed: that may be why it was, whatever the time is."""
        return bool(self._seen) or self.steers_wait

    async def has_news(self) -> bool:
        """Whether something came that was not looked at."""
        found = await patiently(lambda: self._world.inputs(self._writer.state.session))
        return any(new.id not in self._seen for new in found)

    async def read(
        self,
        attempt: EngineAttempt | None = None,
        context: Context | None = None,
        *,
        leave_steers: bool = False,
    ) -> None:
        """Look at what is there: queue prompts, hand steers to the attempt, stop it on a cancel.

        Without an attempt steers become prompts; `leave_steers` leaves them to the attempt that comes.
        """
        self.steers_wait = False
        self.come()
        for new in await patiently(lambda: self._world.inputs(self._writer.state.session)):
            if new.id in self._seen and not leave_steers:
                continue
            value = read_input(new.body)
            if leave_steers and isinstance(value, Steer):
                self.steers_wait = True
                continue
            if new.id in self._seen:
                continue
            if isinstance(value, Edit):
                await self._edit(new, value)  # whatever ends this, it is seen only once it is done
            else:
                self._handle(new, value, attempt, context)
            self._seen.add(new.id)
        self.come()

    def _handle(
        self, new: Input, value: _Quick | None, attempt: EngineAttempt | None, context: Context | None
    ) -> None:
        match value:
            case None:
                self._cannot_read(new)
            case Prompt():
                self._prompt(new, value)
            case Steer() if attempt is not None:
                attempt.steers.put(TakenSteer(new.id, value.text))
            case Steer():
                self._queue(new, value.text, steered=True)
            case Cancel():
                self._cancel(new, value, context)
            case Recall():
                self._recall(new, value, context)
            case _:
                self._heard(new, value)
                if attempt is not None:
                    attempt.calls.waits.look()

    def _cannot_read(self, new: Input) -> None:
        if is_newer_input(new.body):
            log.warning(UNKNOWN, self._writer.state.session, new.id)
            self.newer = True
            self._writer.leave_to_newer()
        else:
            self._drop(new, "its content cannot be read")

    async def _edit(self, new: Input, value: Edit) -> None:
        """Apply it or reject it: whoever made it finds either in the log."""
        packer = self._writer.packer()
        records: Sequence[AnyRecord]
        try:
            wanted = wish(value.name, value.edits, value.if_version)
            records = await self._documents.land([wanted], packer, input_id=new.id, by=value.by)
        except BadInput as error:
            records = [self._documents.rejected(value.name, error, input_id=new.id, by=value.by)]
        self._writer.append(*records, packer=packer, consumes=[new.id])

    def _cancel(self, new: Input, value: Cancel, context: Context | None) -> None:
        turn = self._writer.state.turn
        if turn is None or value.turn != turn.turn:
            self._drop(new, f"turn {value.turn} is not open")
            return
        self.cancels.append(new.id)
        if context is not None:
            context.stop(CANCELLED)

    def _recall(self, new: Input, value: Recall, context: Context | None) -> None:
        """Whoever spawned this session waits no more: the turn that it asked for ends, or never begins."""
        state = self._writer.state
        if state.turn is not None and state.turn.input == value.prompt:
            self.cancels.append(new.id)
            if context is not None:
                context.stop(CANCELLED)
        elif any(prompt.input == value.prompt for prompt in state.queue):
            self._writer.append(PromptRecalled(value.prompt, new.id), consumes=[new.id])
        else:
            self._drop(new, f"the turn of {value.prompt} is over")

    def _heard(self, new: Input, value: _Word) -> None:
        packer, now_s = self._writer.packer(), self._clock.now()
        ruled: Sequence[AnyRecord] | str
        match value:
            case Signal() if not has_room(self._writer.state, value.name, SIGNALS_KEPT):
                full = f"{SIGNALS_KEPT:,} signals wait that nobody has taken"
                ruled = [InputRefused(new.id, value.name, full, now_s)]
            case Signal():
                payload = packer.payload(value.value, what="the signal's value")
                ruled = [SignalKept(new.id, value.name, payload, now_s, value.failed)]
            case Report():
                ruled = reported(self._writer.state, value, packer, now_s)
            case Schedule() | Unschedule():
                ruled = planned(self._writer.state, new.id, value, packer, now_s)
            case _:
                ruled = rule(self._writer.state, new.id, value, packer, now_s)
        if isinstance(ruled, str):
            self._drop(new, ruled)
        else:
            self._writer.append(*ruled, packer=packer, consumes=[new.id])

    def come(self) -> None:
        """Queue the prompts whose time has come; let the turn go on whose tenant has a new period."""
        state, now_s = self._writer.state, self._clock.now()
        until_s = None if state.turn is None else parked_until(state.turn)
        if state.turn is not None and until_s is not None and now_s >= until_s:
            self._writer.append(TurnReleased(state.turn.turn, "a new period", now_s, renews=False))
        for schedule in list(state.schedules.values()):
            record = came(state, schedule, now_s)
            if record is None:
                continue
            records: list[AnyRecord] = [record]
            if not record.skipped:
                records.append(PromptQueued(prompt_id(record.name, record.due_s), schedule.set.prompt))
            self._writer.append(*records)

    def _drop(self, new: Input, reason: str) -> None:
        self._writer.append(InputDropped(new.id, reason), consumes=[new.id])

    def _prompt(self, new: Input, value: Prompt) -> None:
        state = self._writer.state
        if value.alone and (state.turn is not None or state.queue):
            refused = InputRefused(new.id, reason=BUSY, at_s=self._clock.now())
            self._writer.append(refused, consumes=[new.id])
        else:
            self._queue(new, value.text, steered=False, asked=value)

    def _queue(self, new: Input, text: str, *, steered: bool, asked: Prompt | None = None) -> None:
        packer = self._writer.packer()
        (record,) = as_prompts(
            self._writer.state, [TakenSteer(new.id, text)], packer, self._clock.now(), steered=steered
        )
        if asked is not None and isinstance(record, PromptQueued):
            record = msgspec.structs.replace(
                record, traceparent=asked.traceparent, attachments=asked.attachments
            )
        lazy = not isinstance(record, InputDropped)
        self._writer.append(record, packer=packer, consumes=[new.id], lazy=lazy)

    async def watch(self, attempt: EngineAttempt, context: Context) -> None:
        """Read again whenever something may have come since the last look, until cancelled; while `listening`."""
        assert self._hints is not None
        if self.steers_wait:
            await self.read(attempt, context)
        while True:
            await self._hints.wait(POLL_S)
            await self.read(attempt, context)


def as_prompts(
    state: SessionState, steers: Sequence[TakenSteer], packer: Packer, now_s: float, *, steered: bool = True
) -> list[PromptQueued | InputDropped | InputRefused]:
    """What comes of inputs that are to be the next prompts, such as steers that their turn never took."""
    records: list[PromptQueued | InputDropped | InputRefused] = []
    known, waiting = known_prompts(state), len(state.queue)
    for steer in steers:
        if steer.input in known:
            records.append(InputDropped(steer.input, "a schedule's prompt has its id"))
        elif waiting >= PROMPTS_QUEUED:
            full = f"{PROMPTS_QUEUED:,} prompts wait behind the open turn"
            records.append(InputRefused(steer.input, reason=full, at_s=now_s))
        else:
            prompt = packer.payload(steer.text, what="the prompt")
            records.append(PromptQueued(steer.input, prompt, steered))
            waiting += 1
    return records
