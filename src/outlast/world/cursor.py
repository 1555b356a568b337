"""A place in what a session shows."""

from dataclasses import dataclass
from typing import Final

from outlast.errors import BadInput


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """The last item a reader has seen, as text `k.i`; reading goes on after it.

    `i` below the width of commit `k` (its number of events, at least one) is an event of that commit; from
    there on it is a delta published after it. A cursor never shifts: both counts stay when bytes are dropped.
    """

    seq: int
    index: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read `k.i`.

        Raises:
            BadInput: it is not two non-negative decimal numbers with a dot between.
        """
        seq, dot, index = text.partition(".")
        if not (
            dot
            and seq.isascii()
            and seq.isdigit()
            and index.isascii()
            and index.isdigit()
            and len(text) <= 40
        ):
            raise BadInput(
                detail=f"{text[:60]!r} is no cursor. A cursor is the text of two numbers, like 12.3."
            )
        return cls(int(seq), int(index))

    @classmethod
    def behind(cls, seq: int) -> "Cursor":
        """Behind everything of commit `seq`, and everything published after it so far."""
        return cls(seq, _BEHIND_ALL)


_BEHIND_ALL: Final = 1 << 40
"""No commit holds so many events and deltas."""

START = Cursor(0, 0)
"""Before everything: commit numbers begin at 1."""
