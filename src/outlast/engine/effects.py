"""Runs an application's tool, and turns whatever it does into a result that can be written down."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolResult
from outlast.codec import to_json
from outlast.documents import Docs
from outlast.engine.ending import Ending
from outlast.errors import BadInput, BadPayload, WorkspaceError
from outlast.parts import shown
from outlast.tool import Done, NotDone, Tool, ToolFailed, TryAgain, Unsure, Verdict
from outlast.workspace import CallSite

STUBBORN_S: Final = 2.0
"""How long a tool may take to end once its time is up and it was cancelled."""
TEXT_LIMIT: Final = 65_536
"""Characters of the text of an exception that the model is shown."""


@dataclass(frozen=True, slots=True)
class CallIO:
    """What one call of a tool is given (`outlast.tool.ToolIO`)."""

    keyed: Callable[[], str]
    """Makes its key; most tools never ask for it."""
    session: str
    turn: int
    call: int
    attempt: int
    shown: Callable[[str], None]
    """Where its output goes."""
    docs: Docs
    compensates: str = ""
    files: CallSite | None = None

    @property
    def key(self) -> str:
        return self.keyed()

    @property
    def workspace(self) -> CallSite:
        if self.files is None:
            raise WorkspaceError(detail="Nothing of a workspace is here.")
        return self.files

    def show(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            raise TypeError(f"show wants text, not {type(text).__name__}")
        self.shown(as_unicode(text, limit=len(text)))


@dataclass(frozen=True, slots=True)
class Overdue:
    """A function did not end within its time. If it goes on all the same, nobody waits for it any more."""

    detail: str = ""


async def run_function(tool: Tool, io: CallIO, arguments: Mapping[str, Any]) -> ToolResult | TryAgain:
    """Run `tool` once. Whatever it raises or returns becomes a result; only being stopped from outside does not.

    `TryAgain` is returned as it is: it may be tried again.

    A tool that raises `SystemExit`, `KeyboardInterrupt` or a `CancelledError` of its own making ends its call as an
    error like any other: it must not take the worker or the turn with it. One that does not end within its time-out,
    even when it is cancelled, is left to itself.
    """
    ended = await within(lambda: tool.call(io, arguments), tool.timeout_s)
    match ended:
        case Overdue(detail=detail):
            text = f"{tool.name} ended with a time-out (limit {tool.timeout_s:g} s){detail}. It may have taken effect."
            return ToolResult("error", as_unicode(text))
        case TryAgain():
            return ended
        case ToolFailed():
            return ToolResult("error", as_unicode(said_by(ended)))
        case BaseException():
            return ToolResult("error", described(ended))
        case _:
            return result_of(tool.name, ended)


async def ask_verify(tool: Tool, io: CallIO, arguments: Mapping[str, Any]) -> Verdict:
    """Ask the tool whether its open call took effect. Whatever goes wrong is not knowing."""
    ended = await within(lambda: tool.ask(io, arguments), tool.timeout_s)
    match ended:
        case Overdue():
            return Unsure(f"verify gave no answer within {tool.timeout_s:g} s")
        case BaseException():
            return Unsure(f"verify raised {described(ended)}")
        case Done() | NotDone():
            return ended
        case Unsure(note=note):
            return Unsure(as_unicode(str(note)))
        case _:
            return Unsure(f"verify returned {type(ended).__name__}")


async def within(job: Callable[[], Awaitable[object]], timeout_s: float) -> object:
    """What `job` returns or raises, or `Overdue`. It is a task of its own: one that never ends is left."""
    loop = asyncio.get_running_loop()
    over: Ending[None] = Ending()
    task = loop.create_task(_caught(job, over))
    timer = loop.call_later(timeout_s, over.end, None)
    try:
        await over.wait()
        timer.cancel()
        if task.done():
            return task.result()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=STUBBORN_S)
    except asyncio.CancelledError:
        timer.cancel()
        task.cancel()
        await asyncio.wait({task})
        raise
    if not done or task.cancelled():
        return Overdue()
    ended = task.result()
    return Overdue(f": {described(ended)}") if isinstance(ended, BaseException) else ended


async def _caught(job: Callable[[], Awaitable[object]], over: Ending[None]) -> object:
    """Whatever it raises is caught in its own task: `SystemExit` would take the event loop along."""
    try:
        return await job()
    except BaseException as error:  # a tool may raise anything, and the model is told
        if _stopped_from_outside(error):
            raise
        return error
    finally:
        over.end(None)  # in the task's last step: whoever is woken finds it done


def _stopped_from_outside(error: BaseException) -> bool:
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def result_of(name: str, value: object) -> ToolResult:
    """The result of a tool that ran to its end: texts and images where it returned these, else its JSON."""
    try:
        parts = shown(value)
    except BadInput as error:
        return ToolResult("error", as_unicode(f"{name} ran to its end, but its result is lost. {error}"))
    if parts is None:
        return recordable(name, value)
    written = recordable(name, parts)  # its texts must be Unicode, and all of it must fit
    return ToolResult("ok", parts) if written.status == "ok" else written


def recordable(name: str, value: object) -> ToolResult:
    """The result of what ran to its end: what it returned, as JSON, or that this cannot be written down."""
    try:
        text = to_json(value, what=f"the result of {name}")
    except BadPayload as error:
        return ToolResult("error", as_unicode(f"{name} ran to its end, but its result is lost. {error}"))
    # As the log will give it back: whoever reads it must find the same in every attempt.
    return ToolResult("ok", value if type(value) is str else msgspec.json.decode(text))


def described(error: BaseException) -> str:
    """An exception as the model reads it, its group's members one by one."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner = "; ".join(described(one) for one in group.exceptions)
        return as_unicode(f"{type(group).__name__}: {inner}")
    return as_unicode(f"{type(error).__name__}: {said_by(error)}")


def as_unicode(text: str, *, limit: int = TEXT_LIMIT) -> str:
    """Text from anywhere, made fit for a record: half surrogate pairs are shown as escapes, and what is long is cut."""
    cut = text if len(text) <= limit else text[:limit] + " …"
    return cut if cut.isascii() else cut.encode("utf-8", "backslashreplace").decode()


def said_by(error: BaseException) -> str:
    """The text of an exception, whatever that does."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - handled: what cannot even be shown is named
        return f"(its text raised {type(broken).__name__})"
