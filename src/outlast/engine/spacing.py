"""When a session's writer writes a snapshot: at the end of a turn, and within a long one."""

from typing import Final

from outlast.codec import Packer
from outlast.records import Snapshot
from outlast.snapshots import PART, WORTH, snapshot_of, weight
from outlast.state import SessionState

SNAPSHOT_AFTER: Final = 200
"""Commits since the newest snapshot after which the end of a turn writes another."""
SNAPSHOT_WEIGHT: Final = 4 * 1024 * 1024
RECORD_WEIGHT: Final = 750
"""Within a turn a snapshot is due when what came since the newest weighs so much: the bytes of its JSON, and for each
record what reading it costs beside."""


class Spacing:
    """How far the newest snapshot lies back.

    Invariants:

    * A claim reads no more than `SNAPSHOT_WEIGHT` behind the newest snapshot, and what an attempt that died had not
      counted, whatever the age of the turn.
    * A snapshot is due later where it would itself be heavier than what came: all of a turn together weigh no more than
      its log, and writing them costs no more than writing that did.
    * Writing one takes time for that much, some milliseconds, in which the event loop stands still.

    Args:
        least: what must have come at least before a snapshot within a turn is due.
        worth, part: see `outlast.snapshots`.
    """

    def __init__(self, least: int = SNAPSHOT_WEIGHT, *, worth: int = WORTH, part: int = PART) -> None:
        self.written = 0
        """Bytes of records since the newest snapshot, as far as this attempt wrote them."""
        self._least = least
        self._worth = worth
        self._part = part
        self._heavy = least

    def is_due(self, state: SessionState) -> bool:
        """Whether a commit that is begun within a turn should begin with a snapshot."""
        return self.written + RECORD_WEIGHT * state.tail >= self._heavy

    def take(self, state: SessionState, packer: Packer) -> Snapshot:
        """A snapshot of `state`, which the next commit must begin with."""
        record = snapshot_of(state, packer, worth=self._worth, part=self._part)
        self.written, self._heavy = 0, max(self._least, weight(record))
        return record

    def ends_turn(self, state: SessionState, commits: int) -> bool:
        """Whether a snapshot should follow the end of a turn.

        So many `commits` came since the newest; or that is of a turn that is over then, and whoever begins with it
        reads calls for nothing.
        """
        over = state.kept.calls.keys() - ({state.cut.turn} if state.cut is not None else set[int]())
        return bool(over) or commits > SNAPSHOT_AFTER
