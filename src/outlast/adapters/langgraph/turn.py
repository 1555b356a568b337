"""The thread of a session that a worker advances: its checkpoints stand in the session's own log."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapter import Attempt
from outlast.adapters.langgraph.index import Index
from outlast.adapters.langgraph.journal import FILE
from outlast.adapters.langgraph.saver import Saver
from outlast.adapters.langgraph.threads import Thread
from outlast.errors import BadInput

ERROR = "__error__"
"""The channel to which LangGraph writes how a task failed."""


class AttemptLines:
    """The lines of the session of an attempt. Nobody else appends to them: who had tried was refused."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._known: int | None = None

    async def read(self) -> Sequence[str]:
        if self._known is not None:
            return ()
        lines = (await self._attempt.mirrored()).get(FILE, ())
        self._known = len(lines)
        return lines

    async def append(self, lines: Sequence[str]) -> None:
        known = self._known or 0
        self._known = known + len(lines)
        await self._attempt.mirror(FILE, known, lines, durable=True)


class AttemptThread:
    """The one thread of an attempt, by the id of its session."""

    def __init__(self, attempt: Attempt) -> None:
        self._thread = Thread(attempt.session, AttemptLines(attempt))

    async def find(self, thread: str) -> Thread | None:
        return await self.open(thread)

    async def open(self, thread: str) -> Thread:
        if thread != self._thread.id:
            said = (
                f"The graph of the session {self._thread.id!r} has that as its only thread, not {thread!r}."
            )
            raise BadInput(detail=f"{said} Use a checkpointer of its own for other threads.")
        return self._thread

    async def erase(self, thread: str) -> None:
        raise BadInput(detail=f"The thread {thread!r} is being advanced: it cannot be removed now.")

    async def copy(self, source: str, target: str) -> None:
        raise BadInput(detail=f"The thread {source!r} is being advanced: copy it when its turn is over.")

    async def ids(self) -> AsyncIterator[str]:
        yield self._thread.id


class TurnSaver(Saver):
    """The checkpointer of a graph within a turn. What it has put is durable under the attempt's fence."""

    def __init__(self, attempt: Attempt, *, serde: SerializerProtocol | None = None) -> None:
        self._thread = AttemptThread(attempt)
        self._session = attempt.session
        super().__init__(self._thread, serde=serde)

    async def index(self) -> Index:
        """What the session has so far."""
        found = await self._thread.open(self._session)
        return await found.refresh()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        kept = [one for one in writes if not _is_taken_down(*one)]
        if kept:
            await super().aput_writes(config, kept, task_id, task_path)


def _is_taken_down(channel: str, value: object) -> bool:
    """Whether a task ended only because its attempt did, which says nothing about it."""
    taken_down = isinstance(value, asyncio.CancelledError) or not isinstance(value, Exception)
    return channel == ERROR and isinstance(value, BaseException) and taken_down
