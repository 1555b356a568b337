"""What passes between a session and those that it spawned: who its parent is, and what either is to be told.

A session is told by an input in its inbox. That it is to be told stands first in the log of the other, as an errand,
and is done until it is there.
"""

from typing import Literal, TypeAlias

from outlast.records.kinds import Record, TurnStatus
from outlast.records.payload import EMPTY, Payload, Usage

ErrandKind: TypeAlias = Literal["report", "recall"]
"""A child reports to its parent how its turn ended; a parent recalls a child that it does not wait for any more."""


class ErrandDue(Record, frozen=True, tag="errand_due"):
    """Another session is to be told of a record of this commit."""

    number: int
    """Dense from 1 within the session."""
    errand: ErrandKind
    to: str
    """The session that is to be told."""
    turn: int
    call: int
    """The parent's call."""
    status: TurnStatus = "done"
    """Of a report: how the turn ended."""
    content: Payload = EMPTY
    """Of a report the turn's result; of a recall what opens the child, which may not be there yet."""
    prompt: Payload = EMPTY
    """Of a recall: what the child was asked."""
    error: str = ""
    usage: Usage | None = None
    at_s: float = 0.0


class ErrandDone(Record, frozen=True, tag="errand_done"):
    """It stands in the inbox of the other session, or never can."""

    number: int
    error: str = ""
    """Why it was given up."""
    at_s: float = 0.0


class PromptRecalled(Record, frozen=True, tag="prompt_recalled"):
    """A prompt that waited in the log is not wanted any more; this commit consumes the input that said so."""

    prompt: str
    """The input that it was."""
    input: str
    """Empty: a fork leaves it to its source."""


class TurnContinued(Record, frozen=True, tag="turn_continued"):
    """The loop of the turn begins again, with a state in place of its calls so far: recovery reads no more of them."""

    turn: int
    state: Payload
    dropped: int = 0
    """How many calls that were, since it last began."""
    at_s: float = 0.0
