"""What a loop does to the world outside, lane by lane."""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast

from msgspec import convert, to_builtins

from outlast.adapter import Agent, Attachment, Attempt, ToolAsk, ToolResult, WaitAsk
from outlast.adapters.asking import ask_model
from outlast.adapters.children import asked_of, result_of
from outlast.adapters.docs import LaneDocs
from outlast.adapters.endings import LoopFailed, check_own, drop, named
from outlast.adapters.foreign import ForeignRequest, RunForeign, SendForeign, ask_foreign, run_foreign
from outlast.adapters.lanes import SUSPENDED, Board
from outlast.adapters.looking import LaneFiles, LaneWorkspace
from outlast.adapters.place import Place
from outlast.behind import LOST
from outlast.calls import MAIN
from outlast.documents import Docs
from outlast.errors import BadInput, NothingCame, ToolError, TurnStopped
from outlast.groups import leaves
from outlast.model import Answer, Message, Model, Request
from outlast.offers import SIGNAL_LIMIT
from outlast.records import LostCall
from outlast.tool import Tool, result_text
from outlast.workspace import Workspace

T = TypeVar("T")

Job: TypeAlias = Callable[["IO"], Awaitable[T]]
"""Work for a lane of its own."""

STALE: Final = (
    "An io from before the loop began again was asked for {what}. Use the io that the loop was given since."
)


class Continued(BaseException):
    """The loop begins again: what is left of it until then must not run on."""


class IO(Place):
    """What a loop does to the world outside, in one lane: calls one after the other. `gather` opens lanes beside it.

    Every method may raise what ends or suspends the turn, a `BaseException` that must not be caught.
    """

    def __init__(self, attempt: Attempt, board: Board, lane: str = MAIN, *, state: Any = None) -> None:
        super().__init__(attempt, lane)
        self._board = board
        self._walk = board.walk
        self.state = state
        """What `continue_as_new` was last given in this turn; None if it never was."""
        self._busy = ""
        self._gathered = 0

    async def attachments(self) -> Sequence[Attachment]:
        """The files that came with the prompt, the same in every attempt."""
        return await self._attempt.attachments()

    async def model(self, model: Model, request: Request | Sequence[Message]) -> Answer:
        """Ask a model; watchers see its answer as it comes.

        Raises:
            ModelCallRejected, PromptTooLong: the provider refuses the request for good. Other failures end the attempt,
                and another asks again later.
            BadInput: the provider's API cannot express the request.
        """
        asked = (
            request if isinstance(request, Request) else Request(model=model.name, messages=tuple(request))
        )
        return await self._alone("model", ask_model(self._attempt, self._board, self._lane, model, asked))

    async def tool(self, tool: Tool | str, /, **arguments: Any) -> Any:
        """Run a tool of the agent's and return its result.

        Raises:
            ToolError: it ended as an error, or it is in doubt whether it ran (`status`).
        """
        result = await self.result(tool, arguments)
        if result.status != "ok":
            raise ToolError(tool=named(tool), status=result.status, said=result_text(result.value))
        return result.value

    async def result(self, tool: Tool | str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a tool of the agent's and return how it ended, whatever that is: for a model to read."""
        run = self._attempt.calls.run_tool(named(tool), dict(arguments), lane=self._lane)
        return await self._alone("tool", run)

    async def foreign_model(self, request: ForeignRequest, send: SendForeign) -> Mapping[str, Any]:
        """Ask a model as a framework does, in its own JSON; `send` is called only where the log has no answer.

        Raises:
            ModelCallRejected, PromptTooLong: the provider refuses the request for good. Other failures end the attempt,
                and another asks again later.
        """
        return await self._alone("model", ask_foreign(self._attempt, self._board, self._lane, request, send))

    async def foreign_tool(
        self, call_id: str, name: str, arguments: Mapping[str, Any], run: RunForeign
    ) -> ToolResult:
        """Run a tool as a framework does that a model has called, by the id of that call; or read how it ended.

        May be called for several calls at once, in any order. Of one that `foreign_model` did not name among what its
        answer asks for nothing is known, and it is refused. A tool of the agent's own runs as one; `run` is not called.
        """
        self._check()
        async with self._beside():
            own = IO(self._attempt, self._board, f"{self._lane}.{call_id}")
            return await run_foreign(self._attempt, own, self._board, ToolAsk(call_id, name, arguments), run)

    async def beside(self, key: str, job: Job[T]) -> T:
        """Do something in a lane of its own while this one goes on: for what a framework starts in an order of its own.

        Args:
            key: tells it from all else that is done so in this lane: the same in every attempt.
        """
        self._check()
        async with self._beside():
            return await job(IO(self._attempt, self._board, f"{self._lane}.{key}"))

    def leave(self, key: str) -> None:
        """What was done beside this lane under this key is over: another attempt need not do it again."""
        self._attempt.calls.pass_by(f"{self._lane}.{key}")

    @property
    def docs(self) -> Docs:
        """The session's documents: each look and each edit is a call of this lane, the same in every attempt."""
        return LaneDocs(self._attempt, self._lane, self._alone)

    @property
    def workspace(self) -> LaneWorkspace:
        """The files of the session: each look is a call of this lane, the same in every attempt; tools change them."""
        return LaneWorkspace(LaneFiles(self._attempt, self._lane, self._alone))

    async def sleep(self, seconds: float) -> None:
        """Wait for some time; days cost no more than minutes."""
        await self._wait(WaitAsk("sleep", {}, seconds))

    async def wait_for(self, signal: str, *, timeout_s: float | None = None) -> Any:
        """Wait for a signal and return its value. One that came before counts; each signal ends one wait.

        Raises:
            NothingCame: the time was over first.
            ToolError: the signal says that what was waited for failed; its `said` is why.
            BadInput: the name is longer than any signal's (`outlast.offers.SIGNAL_LIMIT`).
        """
        if len(signal) > SIGNAL_LIMIT:
            raise BadInput(
                detail=f"The name of a signal has up to {SIGNAL_LIMIT} characters, not {len(signal)}."
            )
        ended = await self._wait(WaitAsk("signal", {"signal": signal}, timeout_s))
        if ended.status == "error":
            raise ToolError(tool=f"the signal {signal!r}", status="error", said=result_text(ended.value))
        if ended.status != "ok":
            raise NothingCame(what=f"the signal {signal!r}", time=f"{timeout_s or 0.0:g} s")
        return ended.value

    async def ask(self, question: str, *, choices: Sequence[str] = (), timeout_s: float | None = None) -> Any:
        """Ask a person and return the answer: the value of a decision about this call.

        Raises:
            NothingCame: the time was over first.
            ToolError: the person refused to answer.
        """
        about = {"question": question, "choices": list(choices)}
        ended = await self._wait(WaitAsk("person", about, timeout_s))
        if ended.status == "interrupted":
            raise NothingCame(what="an answer", time=f"{timeout_s or 0.0:g} s")
        if ended.status != "ok":
            raise ToolError(tool="ask", status=ended.status, said=result_text(ended.value))
        return ended.value

    async def spawn(
        self,
        agent: str | Agent,
        prompt: str,
        *,
        timeout_s: float | None = None,
        workspace: Workspace | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask another agent, in a session of its own, and return the result of its turn.

        The session is opened as `Session.open` opens one, under an id that comes from this call; any worker that offers
        the agent advances it. It has its own log, budget and recovery; what it cost counts as this turn's, too. If this
        call ends before it does, for a time-out or because the turn ends, its turn is cancelled.

        Args:
            agent: a name, which some worker must offer; an `Agent` also says its settings and workspace.
            timeout_s: how long it is waited for. By default for ever: also for an agent that no worker offers, and for
                one that waits for a person.
            workspace: where it works; by default the agent's, else an empty directory of its own.
            settings: JSON; on top of the agent's own.

        Raises:
            ChildFailed: its turn failed or was cancelled, or it was erased.
            NothingCame: the time was over first.
        """
        ask = asked_of(agent, prompt, timeout_s, workspace, settings)
        spawning = self._attempt.calls.spawn(ask, lane=self._lane, pausing=self._board.pausing)
        return result_of(ask, await self._alone("spawn", spawning))

    async def continue_as_new(self, state: object) -> NoReturn:
        """Begin the function again, in the same turn, with this as `io.state`: for loops that go on for very long.

        Recovery reads nothing more of the calls before. Prompt, steers, budgets and documents stay. It does not return:
        nothing behind it runs, and no call can be made from a `finally` around it.

        Args:
            state: JSON, all that the function needs to go on.

        Raises:
            BadInput: it was not called in the main lane, something else is under way, or the state is not JSON.
        """
        if self._lane != MAIN:
            raise BadInput(
                detail=f"The lane {self._lane} cannot begin the loop again. Call io.continue_as_new in the main lane."
            )
        await self._alone("continue_as_new", self._attempt.calls.begin_again(state))
        raise Continued

    async def now(self) -> float:
        """Unix time when the turn first came here."""
        return float(await self._value("now", self._attempt.clock.now))

    async def random(self) -> float:
        """A number from 0 up to 1, the same in every attempt."""
        return float(await self._value("random", random.SystemRandom().random))

    async def uuid(self) -> str:
        """A random UUID, the same in every attempt."""
        return str(await self._value("uuid", lambda: str(uuid.uuid4())))

    async def once(self, name: str, make: Callable[[], object]) -> Any:
        """What `make` returned when the turn first came here, as JSON: for what is quick and changes nothing.

        Raises:
            ToolError: it raised something, or returned what is not JSON; the same in every attempt.
        """
        return await self._value(f"once {name}", make)

    async def lost(self) -> Sequence[LostCall]:
        """Which calls' changes are not in the workspace any more, and nobody was told: what it is made of is older.

        For loops that do not put what `steers` returns before a model. Call it before each step: at most places of most
        turns it is nothing, and the same in every attempt.
        """
        waiting = self._attempt.state.behind.waiting
        found = await self._value(LOST, lambda: to_builtins([one for note in waiting for one in note.calls]))
        return convert(found, list[LostCall])

    @property
    def made_before(self) -> bool:
        """What this lane does next it did in an earlier attempt: it is read from the log."""
        return self._attempt.calls.ahead(self._lane) is not None

    async def patched(self, change: str) -> bool:
        """Whether the turn goes the way of the code after `change`.

        True in turns that come here first with the new code, and ever after in those; False in turns that had passed
        here with the old.
        """
        name = f"patched {change}"
        ahead = self._attempt.calls.ahead(self._lane)
        if ahead is not None and (ahead.kind, ahead.name) != ("value", name):
            return False
        return bool(await self._value(name, lambda: True))

    async def gather(self, *jobs: Job[T]) -> list[T]:
        """Do several things at once, each in a lane of its own; returns what they return, in order.

        All come to their end. The first that failed, in order, then fails the lane that opened them.
        """
        return await self._alone("gather", self._gather(jobs))

    async def _gather(self, jobs: Sequence[Job[T]]) -> list[T]:
        number, self._gathered = self._gathered, self._gathered + 1
        lanes = [IO(self._attempt, self._board, f"{self._lane}.{number}.{at}") for at in range(len(jobs))]
        ended = self._board.opened(len(jobs))
        try:
            async with asyncio.TaskGroup() as tasks:
                leading = [self._lead(job, io, ended) for job, io in zip(jobs, lanes, strict=True)]
                running = [tasks.create_task(lead) for lead in leading]
        except BaseExceptionGroup as group:
            raise next(leaves(group)) from None
        results = [task.result() for task in running]
        for one in results:
            if isinstance(one, Exception):
                raise one
        return cast("list[T]", results)

    async def _lead(self, job: Job[T], io: "IO", ended: Callable[[], None]) -> T | Exception:
        try:
            return await job(io)
        except Exception as error:  # noqa: BLE001 - raised by the lane that gathers, once all have ended
            return error
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
            check_own(error)
            return LoopFailed(error)
        finally:
            ended()

    @property
    def over(self) -> bool:
        """The loop has begun again since."""
        return self._walk != self._attempt.turn.begun

    @asynccontextmanager
    async def _beside(self) -> AsyncGenerator[None]:
        with self._board.beside(self._lane):
            if self._board.failure is not None:
                await self._board.stand_still()
            yield

    def _check(self) -> None:
        """Nothing begins in an attempt that is over, or before a loop that has begun again."""
        if self.over:
            raise Continued
        if self._board.closed:
            raise TurnStopped(SUSPENDED)

    async def _wait(self, ask: WaitAsk) -> ToolResult:
        waiting = self._attempt.calls.wait(ask, lane=self._lane, pausing=self._board.pausing)
        return await self._alone(ask.name, waiting)

    async def _value(self, name: str, make: Callable[[], object]) -> Any:
        return await self._alone(name, self._attempt.calls.value(name, make, lane=self._lane))

    async def _alone(self, what: str, job: Awaitable[T]) -> T:
        """Do one thing at a time: two at once in a lane would have no order that recovery could rely on."""
        if self._busy or self._board.closed or self.over:
            drop(job)
            if self._walk != self._board.walk:
                raise BadInput(detail=STALE.format(what=what))
            if self.over:
                raise Continued
            if self._board.closed:
                raise TurnStopped(SUSPENDED)
            said = f"The lane {self._lane} was asked for {what} during {self._busy}."
            raise BadInput(detail=f"{said} Use io.gather to do two things at once.")
        self._busy = what
        try:
            if self._board.failure is not None:
                drop(job)
                await self._board.stand_still()
            with self._board.acting(self._lane):
                return await job
        finally:
            self._busy = ""
