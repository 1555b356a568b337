"""A loop of one's own: an asynchronous function that outlast carries over the death of its process.

Recovery runs the function again from its beginning. Every call that it makes through `io` is found in the log by its
lane and its place there, checked against what the log has, and answered from it; beyond what the log has, it happens.
So the function must make the same calls each time: what it takes from a clock, from chance or from outside, it takes
through `io`. A function that does not is parked as `diverged`, with both sides.

While all lanes of a turn wait, nothing of it runs: the worker is given free, for days if it must be.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeAlias

from outlast.adapter import Attempt, Resolved, TurnResult, Waiting
from outlast.adapters.endings import check_own, is_taken_down, said_by, until_idle
from outlast.adapters.foreign import Replay, promised
from outlast.adapters.io import IO, STALE, Continued, Job
from outlast.adapters.lanes import SUSPENDED, Board
from outlast.errors import BadInput, TurnStopped
from outlast.groups import leaves
from outlast.records.kinds import Policy
from outlast.recovery import Abilities
from outlast.tool import Tool

__all__ = ["IO", "STALE", "Continued", "Job", "Loop", "LoopFunction"]

LoopFunction: TypeAlias = Callable[[IO, str], Awaitable[object]]


class Loop:
    """The adapter of a loop of one's own.

    Args:
        function: `async def agent(io, prompt)`; what it returns, JSON, is the result of the turn.
        settings: JSON that a new session records.
        foreign: what recovery may do about tools that a framework runs within the loop (`IO.foreign_tool`), by name;
            those that are not named are `never` run again.
        attachments: media types of the files that may come with a prompt, such as `image/png` or `text/*`; the function
            finds them with `io.attachments`. A turn with another fails before it begins.
    """

    name = "python"

    def __init__(
        self,
        function: LoopFunction,
        *,
        settings: Mapping[str, Any] | None = None,
        foreign: Mapping[str, Replay | Policy] | None = None,
        attachments: Collection[str] = (),
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise BadInput(
                detail=f"{function!r} is no agent: it must be an `async def` of `io` and the prompt."
            )
        self._function = function
        self._settings = dict(settings or {})
        self._attachments = frozenset(attachments)
        self._foreign = (
            None if foreign is None else {name: promised(name, said) for name, said in foreign.items()}
        )

    @property
    def abilities(self) -> Abilities:
        return Abilities(attachments=self._attachments)

    def versions(self) -> Mapping[str, str]:
        return {"outlast": version("outlast")}

    def settings(self) -> Mapping[str, Any]:
        return self._settings

    def check(self) -> Sequence[str]:
        return ()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        found = tools.get(name)
        if found is None:
            if self._foreign is not None:
                return self._foreign.get(name) or Resolved(name, "harness", "never")
            return Resolved(name, "worker", "never")
        return Resolved(name, "worker", found.policy, found.on_doubt, found.key_ttl_s)

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        board = Board()
        ended: TurnResult | None = None
        idle = False
        try:
            async with asyncio.TaskGroup() as tasks:
                walking = tasks.create_task(self._walk(attempt, board))
                watching = tasks.create_task(until_idle(board))
                try:
                    await asyncio.wait({walking, watching}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    board.closed = True
                idle = not walking.done()
                ended = None if idle else walking.result()
                walking.cancel()
                watching.cancel()
        except BaseExceptionGroup as group:
            failure = next((leaf for leaf in leaves(group) if not is_taken_down(leaf)), None)
            if failure is not None or not idle:
                raise failure or TurnStopped(SUSPENDED) from None
        if ended is None and board.failure is not None:
            raise board.failure
        return ended or Waiting()

    async def _walk(self, attempt: Attempt, board: Board) -> TurnResult:
        while True:
            board.walk = attempt.turn.begun
            io = IO(attempt, board, state=await attempt.calls.begun_with())
            try:
                end = TurnResult("done", await self._function(io, attempt.prompt))
            except Exception as error:  # noqa: BLE001 - the loop's own failure is the end of its turn
                end = TurnResult("failed", error=said_by(error))
            except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
                check_own(error)
                end = TurnResult("failed", error=said_by(error))
            except BaseException:
                if not io.over:  # it may come out of a task group of the loop's own
                    raise
                continue
            if io.over:
                continue
            if board.closed:  # it was taken down on its way, whatever it made of that
                raise TurnStopped(SUSPENDED)
            await attempt.calls.walked()
            return end
