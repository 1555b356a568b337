"""The port to whoever takes the traces of turns, and the ids in them.

Ids are derived from what they are of, so that whoever sends a span twice sends the same.
"""

import re
from dataclasses import dataclass
from typing import Final, Protocol, Self

from outlast.ids import number_of
from outlast.records import NoticeDue, SessionOpened
from outlast.world import World

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
COLLECTOR_KEYS: Final = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
)
"""Variables that hold what opens the operator's collector: nothing that a model chooses finds them."""


@dataclass(frozen=True, slots=True)
class SpanRef:
    """A span, wherever it is."""

    trace: int
    """128 bits."""
    span: int
    """64 bits."""
    sampled: bool = True

    @classmethod
    def read(cls, traceparent: str) -> Self | None:
        """The span that a `traceparent` names (W3C Trace Context, level 1); None: it names none."""
        found = _PARENT.fullmatch(traceparent.strip())
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        trace, span = int(found[2], 16), int(found[3], 16)
        return cls(trace, span, bool(int(found[4], 16) & _SAMPLED)) if trace and span else None

    def write(self) -> str:
        """It as a `traceparent`."""
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.sampled):02x}"


@dataclass(frozen=True, slots=True)
class TurnIds:
    """The ids of one turn's spans.

    Args:
        folder: the session's own random name (`SessionOpened.folder`): two sessions of one id, in two Worlds that send
            to one collector, are two.
        traceparent: of whoever asked for the turn; empty: nobody's trace.
    """

    tenant: str
    folder: str
    session: str
    turn: int
    traceparent: str = ""

    @property
    def parent(self) -> SpanRef | None:
        """The span of whoever asked."""
        return SpanRef.read(self.traceparent)

    @property
    def trace(self) -> int:
        parent = self.parent
        return number_of(128, *self._parts(b"trace")) if parent is None else parent.trace

    @property
    def root(self) -> int:
        """Of the turn."""
        return number_of(64, *self._parts(b"turn"))

    def attempt(self, fence: int) -> int:
        return number_of(64, *self._parts(b"attempt"), b"%d" % fence)

    def call(self, call: int, fence: int, before: int = 0) -> int:
        """Of a try of a call in the attempt of that fence, so many `before` it there; of a wait, where it was begun."""
        return number_of(64, *self._parts(b"call"), b"%d" % fence, b"%d" % call, b"%d" % before)

    def lane(self, lane: str, fence: int) -> int:
        """Of what the attempt of that fence did in a sub-agent's lane."""
        return number_of(64, *self._parts(b"lane"), b"%d" % fence, lane.encode())

    def within(self, span: int) -> SpanRef:
        """A span of this turn, for whoever is to go on beneath it."""
        parent = self.parent
        return SpanRef(self.trace, span, sampled=parent is None or parent.sampled)

    def _parts(self, kind: bytes) -> tuple[bytes, ...]:
        return (kind, self.tenant.encode(), self.folder.encode(), self.session.encode(), b"%d" % self.turn)


@dataclass(frozen=True, slots=True)
class Settled:
    """A turn that is over, and where its records stand."""

    tenant: str
    session: str
    opened: SessionOpened
    """As it is now: of a fork its own."""
    due: NoticeDue
    """Its turn, and the commit behind which all of it stands."""


class Collector(Protocol):
    """Takes traces.

    It is called once for each turn, and again where a worker died before the log said that it was: whatever it sends
    is derived from the log, ids too, so that a repetition changes nothing where ids count. It ends soon when it is
    cancelled, and soon altogether: a session is held until it has answered.
    """

    async def collect(self, world: World, settled: Settled) -> str:
        """Send the trace of a turn. Returns why that failed, nothing when it was taken.

        Args:
            world: the tenant's; the records are read from it.
        """
        ...
