"""How a worker reaches into a session that it advances."""

from outlast.engine.context import Context
from outlast.engine.course import HANDED_OVER
from outlast.engine.writer import Writer


class Control:
    """How a worker reaches into one advancing session: it lost its lease, or it should hand over."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self.writer: Writer | None = None
        self.context: Context | None = None
        self.lost: str | None = None
        self.draining = False

    def lose(self, cause: str) -> None:
        """The lease no longer stands, as far as the worker knows."""
        self.lost = cause
        if self.writer is not None:
            self.writer.lose(cause)

    def hand_over(self) -> None:
        """Stop as soon as it can be done cleanly, and leave the rest to another worker."""
        self.draining = True
        if self.context is not None:
            self.context.stop(HANDED_OVER)
