"""The session's documents, as a lane of a loop has them."""

from collections.abc import Awaitable, Callable
from typing import Final

from outlast.adapter import Attempt
from outlast.documents import Document, wish
from outlast.records import AnyEdit

Alone = Callable[[str, Awaitable[Document]], Awaitable[Document]]
"""Does one thing of a lane at a time."""
WHAT: Final = "docs"


class LaneDocs:
    """Looks and edits as calls of a lane (`outlast.documents.Docs`)."""

    def __init__(self, attempt: Attempt, lane: str, alone: Alone) -> None:
        self._attempt = attempt
        self._lane = lane
        self._alone = alone

    async def get(self, name: str) -> Document:
        return await self._alone(WHAT, self._attempt.read_document(name, lane=self._lane))

    async def edit(self, name: str, *edits: AnyEdit, if_version: int | None = None) -> Document:
        wanted = wish(name, edits, if_version)
        return await self._alone(WHAT, self._attempt.edit_document(wanted, lane=self._lane))
