"""What one try of a call holds in its hands: the documents and files that it changes, which commit with its outcome."""

from collections.abc import Callable, Sequence
from typing import Self

from outlast.calls import ToolResult
from outlast.codec import Packer
from outlast.engine.context import Context
from outlast.engine.documents import CallDocs
from outlast.engine.effects import CallIO
from outlast.engine.files import CallFiles
from outlast.engine.lost import touched, touched_by
from outlast.fold import CallState
from outlast.records import AnyRecord, FilesKept, Touched


class Hands:
    """Of one try of a call. Nothing is changed through it once its context has ended."""

    def __init__(self, context: Context, state: CallState, show: Callable[[str], None]) -> None:
        self._context = context
        self._state = state
        self._show = show
        self._docs = CallDocs(context.documents)
        self._files = CallFiles(context.files, self._key)
        self._kept: Sequence[FilesKept] = ()
        self.touched: Touched | None = None
        """What it may have changed, where that is written down with no outcome."""

    def _key(self) -> str:
        return self._context.job_of(self._state)

    @property
    def io(self) -> CallIO:
        """What the tool is given."""
        context, intent = self._context, self._state.intent
        undone = intent.compensates
        return CallIO(
            self._key,
            context.session,
            context.turn.turn,
            intent.call,
            context.writer.lease.fence,
            self._show,
            self._docs,
            (context.turn.calls[undone].intent.key or context.key_of(undone)) if undone else "",
            self._files,
        )

    async def with_outcome(
        self, result: ToolResult, packer: Packer
    ) -> tuple[ToolResult, Sequence[AnyRecord]]:
        """How the call ends, and what comes before its outcome, in the same commit.

        Raises:
            TurnStopped: its files cannot be written down, or were lost while it ran.
        """
        context, intent = self._context, self._state.intent
        context.check()
        self._docs.over = self._files.over = True
        if self._changed:
            await self._files.hold()  # roots stand in the log in the order in which the files were so
            self._kept = await context.files.of_call(intent, packer)
            self.touched = await self._touches(result)
        result, edits = await context.documents.with_outcome(intent, result, self._docs, packer)
        return result, (*self._kept, *edits)

    async def _touches(self, result: ToolResult) -> Touched | None:
        context, intent, files = self._context, self._state.intent, self._files
        if not context.files.may_lose or result.status in {"interrupted", "cancelled"}:
            return None
        arguments = await context.value(intent.arguments)
        if intent.runs_in == "harness":
            return touched_by(arguments)
        return touched(arguments, list(files.paths), more=files.ran) if files.changed else None

    @property
    def _changed(self) -> bool:
        """Files may be other than the log has them, for this call."""
        state, files = self._state, self._context.files
        if state.intent.runs_in == "harness":
            return state.intent.policy != "safe" and state.begun
        return self._files.changed or (files.dirty and not files.changing.locked())

    def landed(self) -> None:
        """The outcome is durable."""
        self._context.files.landed(self._kept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._docs.over = True
        self._files.release()
