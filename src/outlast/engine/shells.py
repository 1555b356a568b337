"""Shells of the harness that are commands of its calls, and outlive their worker (`outlast.workspace.LendsShell`).

Invariants:

* A shell becomes a command only of a call that has begun in this attempt, whose start is durable, and once.
* A command is known by its call's key: in whatever attempt, the call is found by it.
* Of a call without an outcome whose command the workspace has, that says how the call ended, and nothing else is asked.
* A command whose call has an outcome does not outlive the attempt; but for one that a harness goes on with, which does
  while a call waits for its end.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from outlast.calls import ShellUse, ToolResult
from outlast.engine.context import Context
from outlast.errors import BoxGone, WorkspaceError
from outlast.fold import CallState
from outlast.workspace import LendsShell, Lent

Ended: TypeAlias = Callable[[CallState], Awaitable[ToolResult]]


def lends(context: Context) -> LendsShell | None:
    """The workspace, if it lends a shell."""
    site = context.files.open_site
    return site if isinstance(site, LendsShell) and site.shell else None


class Shells:
    """Those of one attempt (`outlast.workspace.Lender`)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._uses: dict[int, ShellUse] = {}
        self._claimed: set[int] = set()

    def note(self, call: int, use: ShellUse | None) -> None:
        """The harness is about to run this call."""
        site = lends(self._context)
        if site is not None and use is not None:
            site.lend(self)
            self._uses[call] = use

    def claim(self, words: Sequence[str]) -> Lent | None:
        context = self._context
        if context.closed:
            return None
        for call, use in self._uses.items():
            state = context.turn.calls[call]
            begun = state.open and state.started == context.writer.lease.fence
            if begun and call not in self._claimed and use.runs(words):
                self._claimed.add(call)
                return Lent(context.job_of(state), use.timeout_s)
        return None

    def outlasts(self) -> bool:
        return self._context.files.outlasts()

    async def ended(self, state: CallState, result: ToolResult) -> None:
        """The call has an outcome, which is durable."""
        call, site = state.intent.call, lends(self._context)
        use = self._uses.pop(call, None)
        if site is None or call not in self._claimed or _goes_on(use, result):
            return
        with suppress(WorkspaceError):  # it goes with the workspace, or the next attempt ends it
            await site.give_back(self._context.job_of(state))

    async def take_up(self, state: CallState, show: Callable[[str], None], ended: Ended) -> ToolResult | None:
        """How a call of an earlier attempt ended by its command, once that has; None: the workspace has none of it.

        Args:
            ended: says how a call ended that has an outcome.

        Raises:
            TurnStopped: the workspace was lost.
        """
        context, site = self._context, lends(self._context)
        use = None if site is None else await self._use_of(state)
        if site is None or use is None:
            return None
        begun = await self._begun(use.follows, ended) if use.follows else state
        if begun is None:
            return None
        self._claimed.add(begun.intent.call)
        try:
            ran = await site.take_up(context.job_of(begun), show, self.outlasts, use.patience_s)
        except BoxGone as error:
            context.fail(error)
        return None if ran is None else use.told(ran)

    async def _use_of(self, state: CallState) -> ShellUse | None:
        intent = state.intent
        return self._context.resolve(intent.name, await self._context.value(intent.arguments)).shell

    async def _begun(self, name: str, ended: Ended) -> CallState | None:
        """The last call of the turn that left a command of this name going on."""
        for state in reversed(list(self._context.turn.calls.values())):
            theirs = state.intent.kind == "tool" and state.intent.runs_in == "harness"
            use = await self._use_of(state) if theirs and state.outcome is not None else None
            if use is not None and use.goes_on is not None and use.goes_on(await ended(state)) == name:
                return state
        return None

    async def end_others(self) -> None:
        """End what earlier attempts have begun for calls that have an outcome, or never were."""
        site, context = lends(self._context), self._context
        if site is not None:
            await site.end_others([context.job_of(call) for call in context.turn.open_calls()])


def _goes_on(use: ShellUse | None, result: ToolResult) -> bool:
    return use is not None and use.goes_on is not None and use.goes_on(result) != ""
