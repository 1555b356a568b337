"""What is asked of the way out of a session's workspace, as records of its log: few, whatever is asked.

The first about anything is written at once, then the tenth, the hundredth and so on; what came since is written when
the attempt ends. What a dead worker had counted since its last record is not in the log.
"""

from contextlib import suppress
from typing import Final

import msgspec

from outlast.clock import Clock
from outlast.engine.effects import as_unicode
from outlast.engine.writer import Writer
from outlast.errors import AttemptLost
from outlast.records import NetworkAsked
from outlast.workspace import Passage

KINDS: Final = 40
"""Of a turn: so many hosts that were refused are told one by one, and so many uses of credentials."""
TEXT: Final = 300
"""Characters of a host, a path or a reason."""


class NetworkNotes:
    """Counts for one attempt, and writes."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._counted: dict[str, NetworkAsked] = {}
        """What is not in the log as often as it was asked."""

    def note(self, passage: Passage) -> None:
        """Something was asked of the way out."""
        turn = self._writer.state.turn
        if turn is None:
            return
        record = _record(turn.turn, passage, self._clock.now())
        known = {**turn.asked, **self._counted}
        if record.about not in known and sum(one.passed == record.passed for one in known.values()) >= KINDS:
            record = _one_of_many(record)
        before = known.get(record.about)
        record = msgspec.structs.replace(record, count=1 if before is None else before.count + 1)
        self._counted[record.about] = record
        if str(record.count).rstrip("0") == "1":
            self._write(record)

    def end(self) -> None:
        """The attempt is over: write what was counted since."""
        for record in list(self._counted.values()):
            self._write(record)

    def _write(self, record: NetworkAsked) -> None:
        # Nobody waits for it, and who listens to the network must not fail for it: a session that is lost is another's.
        with suppress(AttemptLost):
            self._writer.append(record, lazy=True)
            del self._counted[record.about]


def _record(turn: int, passage: Passage, at_s: float) -> NetworkAsked:
    return NetworkAsked(
        turn,
        passage.passed,
        as_unicode(passage.host, limit=TEXT),
        passage.port,
        passage.credential,
        as_unicode(passage.method, limit=TEXT),
        as_unicode(passage.path, limit=TEXT),
        passage.status,
        as_unicode(passage.why, limit=TEXT),
        at_s=at_s,
    )


def _one_of_many(record: NetworkAsked) -> NetworkAsked:
    if record.passed == "refused":
        return NetworkAsked(record.turn, "refused", "", why="more hosts", at_s=record.at_s)
    return NetworkAsked(record.turn, "used", "", credential=record.credential, at_s=record.at_s)
