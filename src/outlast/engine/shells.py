"""Shells of the harness that are commands of its calls, and outlive their worker (`outlast.workspace.LendsShell`).

Invariants:

* A shell becomes a command only of a call that has begun in this attempt, whose start is durable, and once.
* A command is known by its call's key: in whatever attempt, the call is found by it.
* Of a call without an outcome whose command the workspace has, that says how the call ended, and nothing else is asked.
* A command whose call has an outcome does not outlive the attempt.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from outlast.calls import ShellUse, ToolResult
from outlast.engine.context import Context
from outlast.errors import BoxGone, WorkspaceError
from outlast.fold import CallState
from outlast.workspace import LendsShell, Lent


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

    async def ended(self, state: CallState) -> None:
        """The call has an outcome, which is durable."""
        call, site = state.intent.call, lends(self._context)
        self._uses.pop(call, None)
        if site is not None and call in self._claimed:
            with suppress(WorkspaceError):  # it goes with the workspace, or the next attempt ends it
                await site.give_back(self._context.job_of(state))

    async def take_up(self, state: CallState, show: Callable[[str], None]) -> ToolResult | None:
        """How a call of an earlier attempt ended by its command, once that has; None: the workspace has none of it.

        Raises:
            TurnStopped: the workspace was lost.
        """
        context, intent, site = self._context, state.intent, lends(self._context)
        if site is None:
            return None
        use = context.resolve(intent.name, await context.value(intent.arguments)).shell
        if use is None:
            return None
        self._claimed.add(intent.call)
        try:
            ran = await site.take_up(context.job_of(state), show, self.outlasts, use.patience_s)
        except BoxGone as error:
            context.fail(error)
        return None if ran is None else use.told(ran)
