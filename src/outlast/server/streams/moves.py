"""What a turn shows, step by step, in no protocol's words: the one source of every projection.

The rules are those of `outlast.watch.Screen`, carried out already (`turning`), so that a projection has only two things
to do with what is live: append a `Piece`, and take back all pieces of a call at a `Void`.

* Pieces of a kind follow one another without hole or overlap. Where the log has lost some (a `Gap`) one `…` stands.
* A call that is retracted, and every open call at a take-over, is voided if it has shown anything.
* Before a model call's `Said` come the pieces that its answer holds beyond what was shown; if what was shown is no
  beginning of the answer, it is voided and the answer comes whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from outlast.records import Usage
from outlast.server.streams.saying import Saying

PieceKind: TypeAlias = Literal["text", "thinking", "output"]


@dataclass(frozen=True, slots=True)
class Began:
    """The turn was opened."""

    turn: int
    input: str
    """Id of its prompt."""
    prompt: object
    """Its text."""
    at_s: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """Another worker goes on; what open calls have shown is voided by itself."""

    fence: int
    nth: int
    """Of this turn; the first is not told."""
    worker: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A model is asked."""

    call: int
    lane: str
    name: str
    """Of the model."""
    ours: bool
    """It is the conversation itself that asks, and no sub-agent or lane beside it."""


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call: about to begin, or granted."""

    call: int
    lane: str
    name: str
    input: object
    ours: bool
    """It belongs to the conversation itself: its lane has no model of its own."""


@dataclass(frozen=True, slots=True)
class Started:
    """A granted call was let go."""

    call: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Something more of an open call's text, thinking or output."""

    call: int
    lane: str
    kind: PieceKind
    offset: int
    """Characters of this kind that it has shown before."""
    text: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Void:
    """All pieces of this call are void; it is still open."""

    call: int
    why: str


@dataclass(frozen=True, slots=True)
class Said:
    """A model call is settled. Its words have all been shown, if it went well."""

    call: int
    lane: str
    status: str
    saying: Saying
    ours: bool
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A tool call or a wait is settled."""

    call: int
    lane: str
    name: str
    status: str
    value: object
    ours: bool
    wait: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """The turn waits here for something, beside whatever else it does."""

    call: int
    what: Literal["answer", "signal", "time", "child"]
    about: Mapping[str, Any]
    until_s: float
    """Unix time at which the wait ends by itself; 0 never."""
    child: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked about a call."""

    call: int
    nth: int
    """How often this call was asked about before: an answer counts for the asking that it answers only."""
    what: Literal["doubt", "allow", "answer"]
    name: str
    input: object
    why: str = ""
    compensation: str = ""
    """Of a call in doubt: the tool that would make it good."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing goes on before a person says something."""

    number: int
    """Of the turn's pauses, from 1."""
    why: str
    """`decision`, `answer`; or what the turn is parked for: `stuck`, `diverged`, `budget`."""
    asks: tuple[Question, ...]
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Ruled:
    """A person has decided about a call."""

    call: int
    ruling: str
    by: str


@dataclass(frozen=True, slots=True)
class Steered:
    """The model is told something more by whoever watches."""

    call: int
    nth: int
    """Of the turn."""
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the session has a new value."""

    name: str
    version: int
    value: object
    by: str
    call: int


@dataclass(frozen=True, slots=True)
class Gap:
    """So many pieces are lost: how far the turn's chunks are the same elsewhere nobody can say from here on."""

    count: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The turn is over."""

    turn: int
    status: str
    error: str
    value: object
    usage: Usage | None


Move: TypeAlias = (
    Began
    | Attempt
    | Asked
    | Called
    | Started
    | Piece
    | Void
    | Said
    | Ended
    | Waits
    | Paused
    | Ruled
    | Steered
    | Document
    | Gap
    | Settled
)
