"""Pure: the events of a session to a picture of it: turn → attempts → lanes → calls, and what the log saved.

It is made from events alone, so that a browser that follows a session and a server that reads its log draw the same
(`server/page/unfold.js` is this fold once more). A picture goes on where another ended: `Unfolding(timeline)` and then
the events behind `timeline.cursor` come to what all events come to at once.

What the words of it mean:

* **Finished** calls are those whose work need not be done again: model calls that ended `ok`, and tool calls that ran
  and ended `ok` or as an `error`, which is a result too. Not: answers of a provider that were refused or cut, calls
  that were denied, cancelled, interrupted or left in doubt, waits, values of a loop, and the sessions that it spawned,
  whose own logs tell what they saved.
* **Saved** is what the finished calls of the open turn had cost at the moment when another attempt at it began,
  whatever had ended the one before: a process without a log would have had to begin again with the prompt. Each call
  counts once for each such moment: two workers lost after the same call have saved it twice. What a loop left behind
  when it began again (`turn.continued`) still counts: it would have to come there anew. Of a fork counts what came
  after it began.
* **Money** is what the log holds with each answer: the provider's own word, else its list price.
* **Seconds** of a call are those of the try that settled it, within its own attempt: never the time for which nobody
  worked on it. `model_s` and `tool_s` add up the calls, without those that began a sub-agent, whose calls are counted
  themselves. `busy_s` is the time in which at least one of them ran: the time that doing it again would take.
* **Moments** are those of the workers' clocks, and never go back: where the clock of the next worker is behind, its
  moments are moved by what it is behind, so that what it does stands after what was done.
* **Void** is what was paid for answers that nobody could use: cut off, or of a worker that was lost.
* **Attempts** at a turn that is parked begin with the one that lets it go, or ends it, from its claim on. Who claims
  the session meanwhile, looks what has come and finds that the turn still waits, is none: nothing was lost with it,
  nothing is saved, and the wait goes on. Nor has anything been saved by one that ended it.
* A **lost** attempt ended without a word. Its end is its last sign of life, `unnoticed_s` the time from there until
  another attempt began.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from outlast.records.events import Event
from outlast.records.kinds import CallKind, Policy
from outlast.records.payload import Usage
from outlast.world import Commit

Ended: TypeAlias = Literal["", "settled", "parked", "waiting", "handed_over", "provider", "failed", "lost"]
"""How an attempt ended; empty while it goes on."""

WAITING: Final = frozenset({"waiting", "provider"})
"""Ends of attempts after which nothing is to be done for a while; every other wait is a turn's that is parked."""
ABOUT: Final = 80
"""Characters of what a call is about."""
PROMPT: Final = 160
"""Characters of a prompt."""


_SPACES: Final = re.compile(r"[ \t\r\n]+")


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """What need not be done again: see the definitions above. Sums of several moments are sums of each field."""

    takeovers: int = 0
    """Moments that it adds up: other attempts that went on with the open turn."""
    model_calls: int = 0
    tool_calls: int = 0
    models: dict[str, Usage] = {}
    """Tokens and money by the name of the model."""
    model_s: float = 0.0
    tool_s: float = 0.0
    busy_s: float = 0.0

    @property
    def usage(self) -> Usage:
        """Of all models."""
        return sum(self.models.values(), start=Usage())

    def __add__(self, other: "Saved") -> "Saved":
        names = [*self.models, *(name for name in other.models if name not in self.models)]
        return Saved(
            self.takeovers + other.takeovers,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            {name: self.models.get(name, Usage()) + other.models.get(name, Usage()) for name in names},
            self.model_s + other.model_s,
            self.tool_s + other.tool_s,
            self.busy_s + other.busy_s,
        )


class Try(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call ran, or may have. It ended with its call, its attempt or the next try, whichever came first."""

    attempt: int
    """Fence."""
    began_s: float
    void: bool = False
    """Its answer, or the try, counts for nothing."""


class CallBar(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call."""

    call: int
    kind: CallKind
    name: str = ""
    policy: Policy = "never"
    about: str = ""
    """The argument of a tool call that tells most, at most `ABOUT` characters; empty where it stands in a blob."""
    opened_s: float = 0.0
    opened_in: int = 0
    """Fence of the attempt that wrote the intent."""
    asked_by: int = 0
    granted: bool = False
    """It did not begin with its intent: see `tries`."""
    spawns: bool = False
    tries: tuple[Try, ...] = ()
    status: str = ""
    """Of its outcome; empty while it is open."""
    settled_s: float = 0.0
    settled_in: int = 0
    """Fence. In attempts with a greater one it came from the log."""
    ran_s: float = 0.0
    usage: Usage | None = None
    void: Usage | None = None
    retractions: int = 0
    verdicts: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    child: str = ""
    until_s: float = 0.0
    compensates: int = 0

    @property
    def finished(self) -> bool:
        """Its work need not be done again."""
        if self.kind == "model":
            return self.status == "ok"
        return self.kind == "tool" and bool(self.tries) and self.status in {"ok", "error"}


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sequential line of calls; a batch that runs at once stands in one lane, too."""

    name: str
    begun_by: int = 0
    """The tool call that began the sub-agent whose lane it is."""
    calls: tuple[CallBar, ...] = ()


class AttemptBar(msgspec.Struct, frozen=True, omit_defaults=True):
    """One worker's try at a turn."""

    attempt: int
    """Fence."""
    worker: str = ""
    versions: dict[str, str] = {}
    began_s: float = 0.0
    last_s: float = 0.0
    """Its newest sign of life."""
    ended: Ended = ""
    error: str = ""
    unnoticed_s: float = 0.0
    """Of a lost one."""
    settled: int = 0
    """Calls that were settled in it."""
    saved: Saved = Saved()
    """What it found in the log and need not do again; nothing of a turn's first."""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """Time in which no worker held the turn, since there was nothing to do for one."""

    why: str
    """What it is parked for, `waiting` for what its calls wait for, or `provider`."""
    began_s: float
    ended_s: float = 0.0
    """0 while it lasts."""


def parked(waits: Sequence[Wait]) -> bool:
    """Whether the turn of these waits is parked now: nobody works at it who does not let it go first."""
    return bool(waits) and not waits[-1].ended_s and waits[-1].why not in WAITING


class TurnBar(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn."""

    turn: int
    input: str = ""
    prompt: str = ""
    """How it begins, at most `PROMPT` characters; empty where it stands in a blob."""
    opened_s: float = 0.0
    status: str = "open"
    """`open`, or how it was settled."""
    settled_s: float = 0.0
    error: str = ""
    attempts: tuple[AttemptBar, ...] = ()
    lanes: tuple[Lane, ...] = ()
    """Empty where only the turn was asked for (`Unfolding`)."""
    waits: tuple[Wait, ...] = ()
    continued: tuple[float, ...] = ()
    """When its loop began again."""
    calls: int = 0
    usage: Usage = Usage()
    """What its calls cost, void answers included."""
    void: Usage = Usage()
    finished: Saved = Saved()
    """What is saved if another attempt begins now."""
    saved: Saved = Saved()


class Timeline(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session up to `cursor`."""

    cursor: str = "0.0"
    at_s: float = 0.0
    """The newest moment that the log tells."""
    behind_s: float = 0.0
    """By how much the clock of the newest attempt's worker is behind those before it."""
    attempt: AttemptBar | None = None
    """The newest, also while no turn is open, and while it only looks at one that is parked."""
    turns: tuple[TurnBar, ...] = ()
    saved: Saved = Saved()
    """Of all turns."""

    def find(self, turn: int) -> TurnBar | None:
        """A turn by its number."""
        return next((one for one in self.turns if one.turn == turn), None)


class LogCost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a log takes up."""

    commits: int = 0
    records: int = 0
    bytes: int = 0
    """Of the commits, as they are stored."""
    blobs: int = 0
    """Names of blobs that the commits hold; their bytes are only known to who reads them."""

    def plus(self, commit: Commit) -> "LogCost":
        """With one commit more."""
        header = commit.header
        return LogCost(
            self.commits + 1,
            self.records + header.events,
            self.bytes + len(commit.body),
            self.blobs + len(header.refs),
        )

    def __add__(self, other: "LogCost") -> "LogCost":
        return LogCost(
            self.commits + other.commits,
            self.records + other.records,
            self.bytes + other.bytes,
            self.blobs + other.blobs,
        )


class Telling(msgspec.Struct, frozen=True):
    """Arguments that tell most of a call, the first that there is."""

    command: object = None
    file_path: object = None
    path: object = None
    pattern: object = None
    url: object = None
    query: object = None
    description: object = None


def about(event: Event) -> str:
    """What a tool call is about, on one line; empty where its arguments do not tell."""
    if event.payload.ref or event.facts.get("kind") == "model":
        return ""
    try:
        given = msgspec.json.decode(event.payload.json, type=Telling)
    except msgspec.MsgspecError:
        return ""
    found = (getattr(given, name) for name in Telling.__struct_fields__)
    text = next((one for one in found if isinstance(one, str) and one), "")
    return _line(text, ABOUT)


class _Block(msgspec.Struct):
    text: str = ""


def prompt_of(event: Event) -> str:
    """How a prompt begins, on one line: a text, or the texts of its blocks."""
    try:
        given = msgspec.json.decode(event.payload.json, type=str | list[_Block] | None)
    except msgspec.MsgspecError:
        return ""
    blocks = [_Block(given)] if isinstance(given, str) else given or []
    return _line(" ".join(one.text for one in blocks), PROMPT)


def _line(text: str, width: int) -> str:
    return " ".join(_SPACES.split(text[: width * 8])).strip(" ")[:width]
