"""What an application holds: a durable conversation with one agent, and its turns."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from outlast.adapter import Agent
from outlast.attaching import Attachment, check_all, named, pack
from outlast.clock import Clock, SystemClock
from outlast.codec import Packer, canonical, read_input
from outlast.engine.inbox import BUSY
from outlast.engine.load import load_state
from outlast.errors import SessionBusy, SessionExists, SessionFull, TurnUnknown
from outlast.forking import ForkDesk
from outlast.founding import founding_commit, opening_of
from outlast.ids import check_session_id, new_id
from outlast.records import (
    Cancel,
    Decision,
    Payload,
    Prompt,
    Retry,
    SessionOpened,
    Signal,
    Steer,
    Usage,
)
from outlast.records.events import Event
from outlast.records.kinds import Ruling
from outlast.squeezing import unsqueeze
from outlast.tool import result_text
from outlast.tracing import SpanRef
from outlast.watch import events
from outlast.workspace import Workspace
from outlast.world import START, Cursor, SessionHead, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended."""

    turn: int
    status: str
    """`done`, `failed` or `cancelled`."""
    value: Any
    """The turn's result: of a conversation the last text."""
    error: str
    usage: Usage

    def __str__(self) -> str:
        if self.status != "done":
            return f"{self.status}: {self.error}" if self.error else self.status
        return result_text(self.value)


class Session(ForkDesk):
    """A session of a World. Holding one holds no lease: any number may, anywhere.

    Open with `Session.open` (creates or finds) or `Session.find` (only finds).
    """

    @classmethod
    async def open(  # noqa: PLR0913 - the one door; all but three are for the few who need them
        cls,
        world: World,
        session: str,
        *,
        agent: str | Agent,
        workspace: Workspace | None = None,
        home: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
        files: Mapping[str, Sequence[str]] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Open a session, or find it if it is there already, for this agent in this place. Durable when this returns.

        What a session was opened with stands: of one that is found, `home`, `settings`, `labels`, `priority` and
        `files` change nothing.

        Args:
            session: its id, `[a-z0-9][a-z0-9._-]{0,127}`.
            agent: the agent's name, which a worker must offer; an `Agent` also records its settings and workspace.
            workspace: where it works; by default the agent's, else the worker gives it an empty directory, its own.
            home: HOME of its harness, the same in every attempt; by default a directory of its own that the worker
                chooses.
            settings: JSON; on top of the agent's own.
            priority: from -100 to 100; of two sessions of an agent that wait for a worker the higher goes first.
            files: of its harness, by path below `home`, in lines: the session goes on from them (`outlast.adopting`).

        Raises:
            SessionExists: it was opened for another agent or place.
            BadSessionId, BadPayload, SessionErased, WorldUnavailable
        """
        check_session_id(session)
        clock = clock or SystemClock()
        opened = opening_of(session, agent, workspace, home, settings, clock)
        if isinstance(agent, Agent):
            workspace = workspace or agent.workspace
        placement = "any" if workspace is None else workspace.placement
        first = founding_commit(world.tenant, opened, files)
        try:
            await world.create(
                session, first, agent=opened.agent, placement=placement, labels=labels, priority=priority
            )
        except SessionExists:
            await _check_same(world, session, opened)
        return cls(world, session, clock, agent.documents if isinstance(agent, Agent) else None)

    @classmethod
    async def find(
        cls, world: World, session: str, *, agent: Agent | None = None, clock: Clock | None = None
    ) -> Self:
        """The session `session`.

        Args:
            agent: says what its documents must be, so that they can be edited here while no worker runs.

        Raises:
            BadSessionId, SessionUnknown, SessionErased
        """
        await world.get(check_session_id(session))
        shapes = None if agent is None else agent.documents
        return cls(world, session, clock or SystemClock(), shapes)

    async def head(self) -> SessionHead:
        """How it stands: a cheap look."""
        return await self.world.get(self.id)

    async def send(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002
        priority: int | None = None,
        busy: Literal["queue", "refuse"] = "queue",
        traceparent: str = "",
        attachments: Sequence[Attachment] = (),
    ) -> "Turn":
        """Begin a turn with this prompt. Durable when this returns.

        Args:
            id: the caller's own; the same id and content again is the same turn.
            priority: of the session from now on, from -100 to 100; None leaves it as it is.
            busy: what happens while another turn is open or waits: the prompt waits behind it, `queue`; or it is not
                taken, `refuse`. Where no turn is open yet it is the worker that refuses it: `Turn.result` then raises
                `SessionBusy`.
            traceparent: of the span on whose behalf it is sent (W3C Trace Context): the turn's spans stand beneath it.
                One that cannot be read counts for nothing, as the standard has it.
            attachments: files for the model, at most 20. A turn whose harness cannot take one of them fails before it
                begins.

        Raises:
            SessionBusy: another turn is open, and the prompt was to be refused then.
            InputConflict: the id was used with another content.
            BadPayload: the text is not Unicode, or too long; the priority is out of bounds.
            BadAttachment: there are too many attachments, or they are too large.
        """
        check_all(attachments)
        input_id = id or new_id("in")
        alone = busy == "refuse"
        if alone and (await self.head()).turn_open and await self.world.find_input(self.id, input_id) is None:
            raise SessionBusy(session=self.id, input=input_id)
        asked_by = SpanRef.read(traceparent)
        packer = Packer(self.world.tenant, set())
        kept = pack(attachments, packer)
        prompt = Prompt(text, self._clock.now(), alone, "" if asked_by is None else asked_by.write(), kept)
        content = canonical([text, named(attachments, self.world.tenant)]).decode() if kept else text
        await self._put(input_id, prompt, content, priority, packer)
        return Turn(self, input_id)

    async def steer(self, text: str, *, id: str | None = None) -> str:  # noqa: A002
        """Tell the running turn something. Returns its id.

        If its turn never takes it, it becomes the next prompt; where 1,000 wait already it is refused, as a signal is.
        """
        input_id = id or new_id("in")
        await self._put(input_id, Steer(text, sent_at_s=self._clock.now()), text)
        return input_id

    async def cancel(self, turn: int | None = None, *, reason: str = "", id: str | None = None) -> int:  # noqa: A002
        """End a turn, by default the open one. Returns its number.

        Raises:
            TurnUnknown: no turn is open.
        """
        if turn is None:
            state = await self.state()
            if state.turn is None:
                raise TurnUnknown(session=self.id, turn="open")
            turn = state.turn.turn
        input_id = id or f"cancel-{turn}"
        await self._put(input_id, Cancel(turn, reason, self._clock.now()), f"{turn}")
        return turn

    async def signal(
        self,
        name: str,
        value: object = None,
        *,
        failed: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> str:
        """Tell whoever waits for `name`, now or later; each signal ends one wait. Returns its id.

        A session keeps 1,000 that nobody has taken. One that comes beyond is refused: `follow` shows `input.refused`,
        with its id as the name.

        Args:
            value: JSON, which the wait returns.
            failed: what is waited for came to nothing, and `value` says why: the wait ends as an error.
            id: the caller's own; the same id and content again is the same signal.

        Raises:
            InputConflict: the id was used with another content.
            BadPayload: the value is not JSON.
        """
        input_id = id or new_id("signal")
        content = canonical([name, value, failed] if failed else [name, value]).decode()
        await self._put(input_id, Signal(name, value, self._clock.now(), failed), content)
        return input_id

    async def decide(  # noqa: PLR0913 - each keyword is a choice of its own
        self,
        call: int,
        ruling: Ruling = "done",
        value: object = None,
        *,
        by: str = "",
        for_turn: bool = False,
        ask: str = "",
        id: str | None = None,  # noqa: A002
    ) -> str:
        """Decide about a call that is in doubt, or answer a question. Returns the id of the decision.

        It counts once: about a call that waits for no decision, or no more, it changes nothing.

        Args:
            ruling: of a call in doubt: it is `done`, with this result · `run_again` · it `failed`, for this reason ·
                `compensate` it. Of one that wants to be allowed: `allow` · `deny`.
            value: JSON, the result or the answer; with `failed` a text.
            by: who decided, for the log.
            for_turn: with `allow`, the same call may also run again in this turn. Otherwise the word is about one call.
            ask: which asking is meant (`outlast.awaited.Awaited.ask`): where the call is asked about anew by the time
                that the word arrives, it changes nothing. Empty: whichever stands then.
        """
        input_id = id or new_id("decide")
        content = canonical([call, ruling, value, *([for_turn] if for_turn else [])]).decode()
        word = Decision(call, ruling, value, by, self._clock.now(), for_turn, ask)
        await self._put(input_id, word, content)
        return input_id

    async def retry(self, turn: int | None = None, *, by: str = "", id: str | None = None) -> int:  # noqa: A002
        """Let a turn that is stuck or diverged go on, its recovery budget whole again. Returns its number.

        Raises:
            TurnUnknown: no turn is open.
        """
        if turn is None:
            state = await self.state()
            if state.turn is None:
                raise TurnUnknown(session=self.id, turn="open")
            turn = state.turn.turn
        input_id = id or new_id("retry")
        await self._put(input_id, Retry(turn, by, self._clock.now()), f"{turn}")
        return turn

    async def follow(self, after: Cursor | str = START) -> AsyncGenerator[Event]:
        """Everything that is shown behind `after`, then whatever comes, without end."""
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        async with aclosing(events(self.world, self.id, cursor)) as shown:
            async for event in shown:
                yield event

    async def result(self, turn: int) -> Outcome:
        """Wait for the end of a turn and return how it ended.

        Raises:
            TurnUnknown: the session never had such a turn and has not queued one.
        """
        state = await self.state()
        prompts = len(state.queue) + sum(
            isinstance(read_input(one.body), Prompt | Steer) for one in await self.world.inputs(self.id)
        )
        if not 0 < turn < state.next_turn + prompts:
            raise TurnUnknown(session=self.id, turn=turn)
        last = state.last
        if last is not None and last.turn == turn:
            return Outcome(
                turn, last.status, await self.value(last.result), last.error, last.usage or Usage()
            )
        after = Cursor.behind(state.seq) if turn >= state.next_turn - (state.turn is not None) else START
        async with aclosing(self.follow(after)) as shown:
            async for event in shown:
                if event.turn == turn and event.kind == "turn.settled":
                    return await self.outcome_of(event)
        raise TurnUnknown(session=self.id, turn=turn)

    async def value(self, payload: Payload) -> Any:
        """The JSON value of a payload of this session."""
        if not payload.ref:
            return msgspec.json.decode(payload.json)
        found = await self.world.get_many(self.id, [payload.ref])
        return msgspec.json.decode(unsqueeze(found[payload.ref]))

    async def outcome_of(self, event: Event) -> Outcome:
        """What a `turn.settled` event says, with its value."""
        usage = event.usage or Usage()
        return Outcome(event.turn, event.status, await self.value(event.payload), event.text, usage)


class Turn:
    """One prompt, from when it was accepted to its end."""

    def __init__(self, session: Session, input_id: str) -> None:
        self.session = session
        self.input = input_id

    async def follow(self) -> AsyncGenerator[Event]:
        """What this turn shows, up to `turn.settled`.

        Raises:
            SessionFull: too many prompts wait to queue this one.
            SessionBusy: it was to run alone, and another turn was open or waited.
        """
        number = 0
        async with aclosing(self.session.follow(Cursor.behind(await self._before()))) as shown:
            async for event in shown:
                if event.kind == "turn.opened" and event.name == self.input:
                    number = event.turn
                refused = event.kind == "input.refused" and event.name == self.input
                if refused and event.text == BUSY:
                    raise SessionBusy(session=self.session.id, input=self.input)
                if refused:
                    raise SessionFull(session=self.session.id, input=self.input, reason=event.text)
                if number and (event.turn == number or event.kind in {"attempt.opened", "gap"}):
                    yield event
                    if event.kind == "turn.settled":
                        return

    async def number(self) -> int:
        """Its number in the session; waits until a worker has opened it."""
        async with aclosing(self.follow()) as shown:
            return (await anext(shown)).turn

    async def result(self) -> Outcome:
        """Wait for its end and return how it ended."""
        async with aclosing(self.follow()) as shown:
            async for event in shown:
                if event.kind == "turn.settled":
                    return await self.session.outcome_of(event)
        raise TurnUnknown(session=self.session.id, turn=self.input)

    async def cancel(self, reason: str = "") -> None:
        """End it, once it is the open turn: a prompt that waits is waited for."""
        await self.session.cancel(await self.number(), reason=reason)

    async def _before(self) -> int:
        """Number of the commit before the one that consumed the prompt; the newest while none has."""
        head = await self.session.head()  # read first: what is not consumed after it lands behind it
        found = await self.session.world.find_input(self.session.id, self.input)
        return head.seq if found is None or found.consumed_by is None else found.consumed_by - 1


async def _check_same(world: World, session: str, wanted: SessionOpened) -> None:
    """Return if the session that is there was opened for the same agent and place.

    Raises:
        SessionExists
    """
    head = await world.get(session)
    state = await load_state(world, session, head.snapshot_seq)
    opened = state.opened
    if opened is None or opened.agent != wanted.agent:
        raise SessionExists(session=session, difference=f"its agent is {head.agent!r}, not {wanted.agent!r}")
    if wanted.cwd and opened.cwd != wanted.cwd:
        raise SessionExists(session=session, difference=f"it works in {opened.cwd}, not {wanted.cwd}")
