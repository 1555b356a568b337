"""What is to become the next commit of a session."""

from typing import TypeAlias

from outlast.engine.ending import Ending
from outlast.records import PLAIN, AnyRecord
from outlast.world import Spent

Landing: TypeAlias = Ending[None]
"""The end of one commit: it has landed, or `AttemptLost`: it never will, as far as this attempt knows."""


class Queued:
    """Records that wait for the next commit, with whoever waits for them."""

    __slots__ = ("blobs", "consumes", "format", "landed", "records", "release", "spent", "texts")

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.texts: list[bytes] = []
        """The JSON of each record: made when it is appended, so that what cannot be written is refused there."""
        self.blobs: dict[str, bytes] = {}
        self.consumes: list[str] = []
        self.landed: Landing | None = None
        self.release = False
        self.format = PLAIN
        self.spent = Spent()
