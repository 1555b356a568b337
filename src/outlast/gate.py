"""The one boundary that every effect crosses, and its named points.

In production crossing does nothing. Tests kill the process at every point, for every policy, in every World, and again
during the recovery: a place where a crash matters and that has no point is a bug not yet met.
"""

from enum import StrEnum
from typing import Final, Protocol


class Point(StrEnum):
    """Where a test may kill the process. The text of each says what is true there."""

    CLAIMED = "claimed"
    """The takeover commit has landed; nothing was read yet."""
    FOLDED = "folded"
    """The log is read; recovery is planned, nothing of it was done."""
    TURN_OPENED = "turn-opened"
    """The prompt is taken out of the inbox into a commit that may not be durable yet."""
    RETRACTED = "retracted"
    """Open model calls of the dead attempt are declared void."""
    BEFORE_VERIFY = "before-verify"
    """A tool's own `verify` is about to be asked."""
    AFTER_VERDICT = "after-verdict"
    """The verdict is durable; nothing was done about it."""
    DOUBT_SETTLED = "doubt-settled"
    """A call in doubt has its outcome in the log."""
    BEFORE_INTENT = "before-intent"
    """A call is decided on; the log does not know of it."""
    AFTER_INTENT = "after-intent"
    """The intent is written, and durable where its policy demands that; the effect has not begun."""
    IN_EFFECT = "in-effect"
    """The effect has begun: a model streams, a tool runs."""
    AFTER_EFFECT = "after-effect"
    """The effect is over; the log does not know how it ended."""
    BEFORE_CAPTURE = "before-capture"
    """Files of the workspace may have changed; nothing of that was looked at."""
    AFTER_CAPTURE = "after-capture"
    """It is known how the files are; the log does not know, nor does it know of the outcome."""
    OUTCOME_QUEUED = "outcome-queued"
    """The outcome is on its way to the World."""
    AFTER_OUTCOME = "after-outcome"
    """The outcome is durable; nobody has used it."""
    DELIVERED = "delivered"
    """The result was handed to the harness or the loop."""
    BEFORE_START = "before-start"
    """The harness asks to run a call that was granted to it; the log does not say so yet."""
    AFTER_START = "after-start"
    """That it may run is durable; the harness has not been told."""
    STEER_TAKEN = "steer-taken"
    """A steer is in the intent of a model call."""
    BEFORE_SETTLE = "before-settle"
    """The turn is over in the harness; the log does not know."""
    AFTER_SETTLE = "after-settle"
    """The turn is settled; the lease still stands if more is to be done, else the same commit gave it back."""
    CHILD_OPENED = "child-opened"
    """The session that a loop spawns is there; it has not been asked anything."""
    BEFORE_CONTINUE = "before-continue"
    """A loop is about to begin again with a state; the log does not know."""
    AFTER_CONTINUE = "after-continue"
    """That it begins again is durable; it has not."""
    BEFORE_ERRAND = "before-errand"
    """That a parent or a child is to be told is durable; nothing stands in its inbox."""
    AFTER_ERRAND = "after-errand"
    """It stands in the other's inbox, or never can; the log does not know."""
    BEFORE_TELLING = "before-telling"
    """That somebody outside is to be told is durable; nobody was."""
    AFTER_TELLING = "after-telling"
    """Somebody was told, or could not be; the log does not know."""
    RELEASED = "released"
    """The lease is given back; the worker has not looked for more work."""


OF_TELLING: Final = frozenset({Point.BEFORE_TELLING, Point.AFTER_TELLING})
"""Crossed only by workers that notify somebody."""
OF_FILES: Final = frozenset({Point.BEFORE_CAPTURE, Point.AFTER_CAPTURE})
"""Crossed only where a session's workspace is written down."""
OF_FAMILIES: Final = frozenset(
    {
        Point.CHILD_OPENED,
        Point.BEFORE_CONTINUE,
        Point.AFTER_CONTINUE,
        Point.BEFORE_ERRAND,
        Point.AFTER_ERRAND,
    }
)
"""Crossed only where a loop spawns sessions or begins again."""


class Gate(Protocol):
    """What every effect crosses."""

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        """Pass `point`. In production this returns at once; a test's gate may end the process here."""
        ...


class OpenGate:
    """The production gate: nothing happens."""

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        return
