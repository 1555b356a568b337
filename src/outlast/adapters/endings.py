"""How what a loop does ends otherwise than well, and what of that the loop is shown."""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from outlast.adapters.lanes import SUSPENDED, Board
from outlast.errors import BadInput, ModelCallRejected, OutlastError, PromptTooLong, TurnStopped
from outlast.tool import Tool

_REFUSALS: Final[Mapping[str, type[ModelCallRejected | BadInput]]] = {
    kind.__name__: kind for kind in (ModelCallRejected, PromptTooLong, BadInput)
}


class LoopFailed(Exception):
    """A lane ended by `SystemExit`, `KeyboardInterrupt` or a cancellation of its own making."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(said_by(cause))


async def until_idle(board: Board) -> None:
    """Return once nothing is left to do but wait."""
    while True:
        await board.idle.wait()
        await asyncio.sleep(0)  # what is ready to go on at this moment goes on first
        if board.idle.is_set():
            return


def drop(job: Awaitable[object]) -> None:
    """It will not be awaited."""
    if inspect.iscoroutine(job):
        job.close()


def is_taken_down(error: BaseException) -> bool:
    """Whether a lane ended only because its attempt did."""
    return isinstance(error, TurnStopped) and error.why == SUSPENDED


def named(tool: Tool | str) -> str:
    """The name of a tool that is given or named."""
    return tool if isinstance(tool, str) else tool.name


def refusal_of(refusal: Mapping[str, Any]) -> ModelCallRejected | BadInput:
    """The error that stands in the log for a refusal."""
    kind = _REFUSALS.get(str(refusal.get("is")), ModelCallRejected)
    return kind(**refusal.get("facts", {}))


def check_own(error: BaseException) -> None:
    """Raise what comes from outside; what the loop raised itself is its own failure, and must take nothing along."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def said_by(error: BaseException) -> str:
    """An error as the log has it."""
    return str(error) if isinstance(error, OutlastError) else f"{type(error).__name__}: {error}"
