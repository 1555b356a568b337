"""Runs an application's tool, and turns whatever it does into a result that can be written down."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.adapter import ToolResult
from outlast.codec import to_json
from outlast.errors import AttemptLost, BadPayload, TurnStopped
from outlast.tool import Tool, ToolFailed, Verdict


@dataclass(frozen=True, slots=True)
class CallIO:
    """What one call of a tool is given (`outlast.tool.ToolIO`)."""

    key: str
    session: str
    turn: int
    call: int
    attempt: int
    shown: Callable[[str], None]
    """Where its output goes."""

    def show(self, text: str) -> None:
        self.shown(text)


async def run_function(tool: Tool, io: CallIO, arguments: Mapping[str, Any]) -> ToolResult:
    """Run `tool` once. Whatever it raises or returns becomes a result; only being stopped from outside does not.

    A tool that raises `SystemExit`, `KeyboardInterrupt` or a `CancelledError` of its own making ends its call as an
    error like any other: it must not take the worker or the turn with it.
    """
    try:
        async with asyncio.timeout(tool.timeout_s):
            value = await tool.call(io, arguments)
    except (AttemptLost, TurnStopped):
        raise
    except TimeoutError as error:
        return _timed_out(tool, error)
    except ToolFailed as error:
        return ToolResult("error", _text(str(error)))
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything, and the model is told
        if _stopped_from_outside(error):
            raise
        return ToolResult("error", _text(f"{type(error).__name__}: {error}"))
    return _recordable(tool, value)


async def ask_verify(tool: Tool, io: CallIO, arguments: Mapping[str, Any]) -> Verdict:
    """Ask the tool whether its open call took effect."""
    async with asyncio.timeout(tool.timeout_s):
        return await tool.ask(io, arguments)


def _stopped_from_outside(error: BaseException) -> bool:
    task = asyncio.current_task()
    cancelled = isinstance(error, (asyncio.CancelledError, GeneratorExit))
    return cancelled and task is not None and task.cancelling() > 0


def _timed_out(tool: Tool, error: TimeoutError) -> ToolResult:
    detail = f": {error}" if str(error) else ""
    return ToolResult(
        "error",
        _text(
            f"{tool.name} ended with a time-out (limit {tool.timeout_s:g} s){detail}. It may have taken effect."
        ),
    )


def _recordable(tool: Tool, value: object) -> ToolResult:
    try:
        to_json(value, what=f"the result of {tool.name}")
    except BadPayload as error:
        return ToolResult("error", _text(f"{tool.name} ran to its end, but its result is lost. {error}"))
    return ToolResult("ok", value)


def _text(text: str) -> str:
    """Text of an exception, made Unicode: half surrogate pairs are shown as escapes; at most 64 KB."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= 65_536 else clean[:65_536] + " …"
