"""One session that an editor has open: shown from the log, prompted, asked about, and given a worker.

Invariants:

* What the editor is shown follows from the log, in its order; a prompt is answered behind everything that its turn
  shows.
* A prompt is durable before anything of it is shown. Its turn ends whether or not the editor is there.
* A question is asked as long as it is open, once at a time; what anybody has answered takes the question back.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import anyio
from acp.exceptions import RequestError

from outlast.cli.acp.questions import CANCELLED, Question, questions_of
from outlast.cli.acp.shown import Shown, Update, agent_says, call_id
from outlast.cli.companion import Companion
from outlast.cli.watching import may_end
from outlast.clock import Clock
from outlast.errors import HarnessError, OutlastError
from outlast.fold import SessionState, records_of
from outlast.groups import leaves
from outlast.records.events import Event, face
from outlast.session import Session, Turn
from outlast.world import START, Cursor

CLOSE_S: Final = 10.0
"""How long a turn may take to end that is cancelled because its session is closed."""
_PAGE: Final = 200


class Editor(Protocol):
    """The editor that has a session open."""

    @property
    def name(self) -> str:
        """Who decides, for the log."""
        ...

    async def show(self, session: str, update: Update, facts: dict[str, Any]) -> None:
        """Draw an update; `facts` go along for whoever knows them."""
        ...

    async def ask(self, session: str, question: Question) -> str | None:
        """What the user chose; None if they did not.

        Raises:
            RequestError: the editor cannot ask.
        """
        ...

    def note(self, text: str) -> None:
        """A line about the watching, for the editor's log."""
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """How a prompt ended for the editor: its turn is over, or it waits for the user's next words."""

    status: str
    """As `Outcome.status`, or `asks`."""
    turn: int
    input: str
    error: str = ""


@dataclass
class Conversation:
    """See the module. `run` lasts as long as the editor has the session open."""

    session: Session
    editor: Editor
    clock: Clock
    cwd: str
    companion: Companion | None
    """Its worker; None: it is left to workers elsewhere."""
    wake: Any
    """Tells whoever starts workers that the session is ready."""
    live: bool = False
    """Text is shown while it comes."""
    _own: set[str] = field(default_factory=set[str])
    _waiting: dict[str, "asyncio.Future[Answered]"] = field(
        default_factory=dict[str, "asyncio.Future[Answered]"]
    )
    """By the prompt's id."""
    _ended: dict[str, Answered] = field(default_factory=dict[str, Answered])
    _inputs: dict[int, str] = field(default_factory=dict[int, str])
    _asking: dict[str, anyio.CancelScope] = field(default_factory=dict[str, anyio.CancelScope])
    _told: set[str] = field(default_factory=set[str])
    """Questions that stand on the screen, or that the user would not answer."""
    _free: Question | None = None
    """The question that the next prompt answers."""
    _seen: Cursor = START
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _tasks: "anyio.abc.TaskGroup | None" = None
    _works: bool = False
    _broken: OutlastError | None = None
    """Why nothing is shown any more."""

    def __post_init__(self) -> None:
        self._shown = Shown(self.cwd, self._own, self.clock, live=self.live)

    # -- from the log to the editor

    async def replay(self) -> None:
        """Show the whole history, up to the newest commit."""
        after = 0
        while page := await self.session.world.commits(self.session.id, after, _PAGE):
            for commit in page:
                after = commit.header.seq
                for at, record in enumerate(records_of(self.session.id, commit)):
                    event = face(record, str(Cursor(after, at)), commit.header.fence)
                    if event.kind != "hidden":
                        await self._take(event)
        self._seen = Cursor.behind(after)

    async def skip(self, after: Cursor | None = None) -> None:
        """Show only what comes behind `after`; by default what comes from now on."""
        state = await self.session.state()
        if state.turn is not None:
            self._inputs[state.turn.turn] = state.turn.input
        self._seen = Cursor.behind(state.seq) if after is None else after

    async def run(self) -> None:
        """Show what comes, ask what the session asks, and keep its worker, until `close` or the editor's end."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    state = await self.session.state()
                    if state.turn is not None or state.queue or (await self.session.head()).waiting_inputs:
                        self._work()
                    await self._look()
                    await self._follow()
        except* OutlastError as group:
            self._broken = _first(group)
            self._fail(self._broken)

    async def _follow(self) -> None:
        async with aclosing(self.session.follow(self._seen)) as events:
            async for event in events:
                await self._take(event)
                opens_wait = event.kind == "call.opened" and event.facts.get("kind") == "wait"
                if may_end(event) or opens_wait:
                    await self._look()

    async def _take(self, event: Event) -> None:
        value = await self.session.value(event.payload)
        if event.kind == "turn.opened":
            self._inputs[event.turn] = event.name
        facts = {"cursor": event.cursor, "turn": event.turn, "input": self._inputs.get(event.turn, "")}
        for update in self._shown.take(event, value):
            await self.editor.show(self.session.id, update, facts)
        match event.kind:
            case "call.decided" | "call.settled":
                self._take_back(call_id(event.call))
            case "turn.released":
                self._take_back(f"turn-{event.turn}")
            case "turn.settled":
                self._settle(event)
            case _:
                pass

    def _settle(self, event: Event) -> None:
        for scope in list(self._asking.values()):
            scope.cancel()
        self._told.clear()
        self._free = None
        name = self._inputs.pop(event.turn, "")
        self._answer(Answered(event.status, event.turn, name, event.text))

    def _answer(self, answered: Answered) -> None:
        if answered.status != "asks":
            self._ended[answered.input] = answered
        waiting = self._waiting.pop(answered.input, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)

    def _fail(self, error: OutlastError) -> None:
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            if not one.done():
                one.set_exception(error)
        self.editor.note(str(error))

    # -- questions

    async def _look(self) -> None:
        """Ask what the session waits for, as far as it is not asked already."""
        state = await self.session.state()
        for question in await questions_of(self.session, state):
            if question.id in self._told:
                continue
            self._told.add(question.id)
            if question.options and self._tasks is not None:
                self._tasks.start_soon(self._ask, question)
            elif self._free is None:
                await self._ask_freely(state, question)

    async def _ask(self, question: Question) -> None:
        chosen: str | None = None
        with anyio.CancelScope() as scope:
            self._asking[question.id] = scope
            try:
                chosen = await self.editor.ask(self.session.id, question)
            except RequestError as error:
                self.editor.note(
                    f"The editor cannot ask ({error}): `outlast show {self.session.id}` says how to decide."
                )
        self._asking.pop(question.id, None)
        act = None if scope.cancelled_caught or chosen is None else question.act(chosen)
        if act is not None:
            await act(self.session, self.editor.name)
            await self._woken()

    async def _ask_freely(self, state: SessionState, question: Question) -> None:
        """Show a question that no list answers, and give the word to the user."""
        self._free = question
        await self.editor.show(
            self.session.id, agent_says(question.title, question.call), {"turn": question.turn}
        )
        if state.turn is not None:
            self._answer(Answered("asks", question.turn, state.turn.input))

    def _take_back(self, question: str) -> None:
        """It is answered, by whomever."""
        if question in self._asking:
            self._asking[question].cancel()
        self._told.discard(question)
        if self._free is not None and self._free.id == question:
            self._free = None

    # -- from the editor to the session

    async def prompt(self, text: str, name: str) -> Answered:
        """Send a prompt, and wait for the end of its turn; or answer what the open turn has asked.

        Args:
            name: id of the prompt: the same again is the same turn.

        Raises:
            OutlastError: it cannot be sent, or the session cannot be followed any more.
        """
        if self._broken is not None:
            raise self._broken
        question, self._free = self._free, None
        if question is not None:
            return await self._reply(question, text)
        self._own.add(name)
        waiting = self._wait_for(name)
        await self.session.send(text, id=name)
        await self._woken()
        if name in self._ended:
            return self._ended[name]
        if not waiting.done() and await self._is_past(name):
            outcome = await Turn(self.session, name).result()
            return Answered(outcome.status, outcome.turn, name, outcome.error)
        self._work()
        return await waiting

    async def _reply(self, question: Question, text: str) -> Answered:
        waiting = self._wait_for(self._inputs.get(question.turn, ""))
        await self.session.decide(question.call, "done", text, by=self.editor.name)
        await self._woken()
        self._work()
        return await waiting

    async def cancel(self) -> None:
        """End the turn that is open, and each that this editor has prompted and waits for."""
        state = await self.session.state()
        opened = "" if state.turn is None else state.turn.input
        if state.turn is not None:
            await self.session.cancel(state.turn.turn, reason=f"{CANCELLED} by {self.editor.name}")
        for name in self._waiting:
            if name != opened and self._tasks is not None:
                self._tasks.start_soon(Turn(self.session, name).cancel, CANCELLED)
        await self._woken()

    async def close(self) -> None:
        """Cancel what is under way, as ACP has it, let the worker go and show nothing more."""
        if self._waiting or (await self.session.state()).turn is not None:
            await self.cancel()
            self._work()
            with anyio.move_on_after(CLOSE_S):
                await self._until_idle()
        if self.companion is not None:
            await self.companion.leave()
        self.leave()

    def leave(self) -> None:
        """Show nothing more. A worker that is under way goes on without us."""
        self._scope.cancel()
        for waiting in self._waiting.values():
            waiting.cancel()

    async def _until_idle(self) -> None:
        async with aclosing(
            self.session.follow(Cursor.behind((await self.session.head()).seq - 1))
        ) as events:
            async for _ in events:
                if not (await self.session.head()).turn_open:
                    return

    def _wait_for(self, name: str) -> "asyncio.Future[Answered]":
        waiting = self._waiting.get(name)
        if waiting is None or waiting.done():
            waiting = self._waiting[name] = asyncio.get_running_loop().create_future()
        return waiting

    async def _is_past(self, name: str) -> bool:
        """Whether its turn was opened before what this editor has been shown."""
        found = await self.session.world.find_input(self.session.id, name)
        return found is not None and found.consumed_by is not None and found.consumed_by <= self._seen.seq

    async def _woken(self) -> None:
        await self.wake(self.session.world.tenant, self.session.id)

    def _work(self) -> None:
        """Have a worker beside, if it has none."""
        if self.companion is not None and not self._works and self._tasks is not None:
            self._works = True
            self._tasks.start_soon(self._keep_working, self.companion)

    async def _keep_working(self, companion: Companion) -> None:
        try:
            await companion.work()
        except* HarnessError as group:
            self._fail(_first(group))
        finally:
            self._works = False


def _first(group: BaseExceptionGroup[OutlastError]) -> OutlastError:
    return next(error for error in leaves(group) if isinstance(error, OutlastError))
