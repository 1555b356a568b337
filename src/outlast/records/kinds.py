"""The kinds of record.

Order in a log, each an invariant that `outlast.fold` checks:

* `session_opened` is the first record of commit 1 and of no other; `snapshot` is the first record of a commit whose
  header announces it, and of no other;
* fences never fall, and each has at most one `attempt_opened`;
* turns and calls are numbered 1, 2, 3 …; ordinals 0, 1, 2 … within turn, lane and kind;
* `turn_opened` comes while no turn is open; every record with a `turn` names the open one;
* `call_started`, `verdict`, `decided`, `call_outcome` and `call_retracted` come after the `call_intent` of their call,
  and nothing of a call comes after its outcome;
* `prompt_queued` comes once for each input, and before the turn that it becomes;
* `signal_kept` comes once for each input, and before the one outcome that takes it;
* versions of a document are numbered 1, 2, 3 …; what a call edited comes before its outcome, in the same commit;
* `result_told` comes before the model call whose request was the first to tell it so;
* `mirrored` leaves no hole in its file;
* `files_kept` of a call comes before its outcome, in the same commit; any but that of an `undo` names the open turn;
* notices are numbered 1, 2, 3 …, and nothing of one comes after it was told or given up; errands likewise;
* `turn_continued` comes while no call of its turn is open, and no later record names a call from before it;
* `prompt_recalled` names a prompt that waits in the log;
* `schedule_came` and `unscheduled` name a schedule that stands;
* `forked` stands in the commit that comes next after the last that the fork shares;
* `turn_settled` leaves no call open: what still was gets its outcome before it, at the latest in the same commit.

Old logs are read by new code: fields are only added, with a default, and no default ever changes, since it is what a
log leaves out (`tests/histories` holds a list of them).
"""

from typing import Any, Literal, TypeAlias

import msgspec

from outlast.records.payload import EMPTY, Attached, Payload, Touched, Usage

Policy: TypeAlias = Literal["never", "verify", "keyed", "safe"]
OnDoubt: TypeAlias = Literal["tell", "ask"]
CallKind: TypeAlias = Literal["model", "tool", "wait", "value"]
"""A `wait` lasts until a time, a signal or a person's answer; a `value` is what a loop asked of chance or the clock."""
RunsIn: TypeAlias = Literal["worker", "harness", "provider"]
OutcomeStatus: TypeAlias = Literal["ok", "error", "in_doubt", "interrupted", "cancelled"]
TurnStatus: TypeAlias = Literal["done", "failed", "cancelled"]
Ruling: TypeAlias = Literal["done", "run_again", "failed", "allow", "deny", "compensate"]
ParkedFor: TypeAlias = Literal["stuck", "diverged", "decision", "signal", "budget"]


class Record(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True, gc=False):
    """Common base of all records: frozen, tagged, defaults left out of the text.

    A record holds JSON and is never part of a cycle, so the collector of cycles need not walk through thousands.
    """


class Parent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The call that spawned a session."""

    session: str
    turn: int
    call: int
    prompt: str
    """Id of the input that asks the child: how its turn ends is reported."""
    depth: int = 1
    """How many sessions stand above the child."""


class SessionOpened(Record, frozen=True, tag="session_opened"):
    """The agent's name and settings, and where it works. Code, tools and keys come from the worker."""

    session: str
    agent: str
    adapter: str
    settings: dict[str, Any] = {}
    workspace: dict[str, Any] = {}
    cwd: str = ""
    home: str = ""
    at_s: float = 0.0
    documents: dict[str, int] = {}
    """Documents that have a shape, with its version: who does not know the shape leaves their edits to a worker."""
    folder: str = ""
    """What a worker calls the directories that it makes for the session: a random name, no other session's in any
    World or of any tenant. Empty in older logs: they are called as the session."""
    parent: Parent | None = None
    """Of a session that another spawned."""


class TurnOpened(Record, frozen=True, tag="turn_opened"):
    """A prompt becomes the open turn. Its input was consumed when it was queued, at the latest by this commit."""

    turn: int
    input: str
    prompt: Payload
    at_s: float = 0.0
    after: int = 0
    """Number of a commit that it comes after: who reads the turn may begin behind that."""
    traceparent: str = ""
    """Of its prompt."""
    attachments: tuple[Attached, ...] = ()
    """Of its prompt. Of format 2."""


class AttemptOpened(Record, frozen=True, tag="attempt_opened"):
    """A worker claimed the session. Its fence is the commit's; partial output of open calls is void from here on."""

    worker: str
    host: str = ""
    versions: dict[str, str] = {}
    at_s: float = 0.0


class CallIntent(Record, frozen=True, tag="call_intent"):
    """A call is about to happen, or was granted to the harness."""

    call: int
    """Dense from 1 within the session."""
    turn: int
    lane: str
    ordinal: int
    """Dense from 0 within turn, lane and kind."""
    kind: CallKind
    name: str
    arguments: Payload = EMPTY
    """Of a tool its arguments; of a model call the request (`outlast.codec.ModelRequest`)."""
    policy: Policy = "never"
    on_doubt: OnDoubt = "tell"
    key: str = ""
    """Idempotency key of a tool call, the same in every attempt."""
    key_until_s: float = 0.0
    """Unix time up to which the outside honours `key`; 0 for ever."""
    harness_id: str = ""
    """The id that harness and model use for it."""
    runs_in: RunsIn = "worker"
    granted: bool = False
    """Written ahead of its start, with the answer that asks for it: until a `call_started` it has not begun."""
    spawns: bool = False
    """It begins a sub-agent, whose own calls are in lanes of their own."""
    asked_by: int = 0
    """The model call whose answer asked for it; of a sub-agent's model call, the tool call that began the sub-agent."""
    match: str = ""
    """Of a model call: the canonical hash of the request."""
    until_s: float = 0.0
    """Of a wait: Unix time at which it ends by itself; 0 never."""
    at_s: float = 0.0
    child: str = ""
    """Of a spawn: the session that it waits for."""
    opens: Payload = EMPTY
    """Of a spawn: what opens that session (`outlast.engine.children.Opening`)."""
    compensates: int = 0
    """Of a compensation: the call, in doubt and still open, that it makes good."""


class CallStarted(Record, frozen=True, tag="call_started"):
    """A granted call was let go in this attempt: from here on its effect may have happened."""

    call: int
    turn: int
    lane: str = ""
    at_s: float = 0.0
    witness: Payload = EMPTY
    """What will tell whether it took effect (`outlast.inquiry`): JSON, null where nothing was noted."""


class CallOutcome(Record, frozen=True, tag="call_outcome"):
    """How a call ended. Final."""

    call: int
    turn: int
    status: OutcomeStatus
    result: Payload = EMPTY
    lane: str = ""
    usage: Usage | None = None
    duration_s: float = 0.0
    at_s: float = 0.0
    signal: str = ""
    """Of a wait: the input of the kept signal that ended it."""
    version: int = 0
    """Of a loop's look at a document, and of its edit: the version of the document that `result` is."""
    shows: bool = False
    """`result` is a list of texts and images for a model (`outlast.model.Parts`), behind a blob."""
    touched: Touched | None = None
    """Of a call that may have changed files which are written down with no outcome; None: it has not, or they are."""


class ResultTold(Record, frozen=True, tag="result_told"):
    """A request tells this result in place of what the harness makes of it. From here on every request does."""

    turn: int
    harness_id: str
    status: OutcomeStatus
    result: Payload
    shows: bool = False
    """As of an outcome."""


class CallRetracted(Record, frozen=True, tag="call_retracted"):
    """What the open call has shown so far is void: it is tried again, or its answer was cut (recorded for its cost)."""

    call: int
    turn: int
    lane: str = ""
    reason: str = ""
    usage: Usage | None = None
    """What the provider billed for the answer that is void, as far as it reported it."""
    no_effect: bool = False
    """Of a tool call: the tool itself has said that this try had no effect. Until a `call_started` it has not begun."""


class Verdict(Record, frozen=True, tag="verdict"):
    """What a tool's `verify` said about its own open call."""

    call: int
    turn: int
    verdict: Literal["done", "not_done", "unsure"]
    note: str = ""
    lane: str = ""


class SteerTaken(Record, frozen=True, tag="steer_taken"):
    """A steer became part of the request of `call`; its input is consumed by the same commit."""

    turn: int
    input: str
    call: int
    text: str = ""


class PromptQueued(Record, frozen=True, tag="prompt_queued"):
    """A prompt, or a steer that its turn never took, waits in the log for a turn; this commit consumes its input."""

    input: str
    prompt: Payload
    steered: bool = False
    traceparent: str = ""
    """Of the prompt."""
    attachments: tuple[Attached, ...] = ()
    """Of the prompt. Of format 2."""


class SignalKept(Record, frozen=True, tag="signal_kept"):
    """A signal waits in the log for a wait that takes it; this commit consumes its input."""

    input: str
    name: str
    value: Payload
    at_s: float = 0.0
    failed: bool = False
    """The wait that takes it ends as an error."""


class Decided(Record, frozen=True, tag="decided"):
    """A person decided about a call; this commit consumes the input.

    With `done` and `failed` its outcome follows; with `run_again` the next `call_started` is what was decided, and none
    behind that; with `compensate` the next `call_intent` that compensates it. A park that names it asks anew.
    """

    turn: int
    call: int
    ruling: Ruling
    input: str
    by: str = ""
    at_s: float = 0.0
    for_turn: bool = False
    """Of an `allow`: the same tool with the same arguments is allowed for the rest of the turn."""


class InputDropped(Record, frozen=True, tag="input_dropped"):
    """An input that changes nothing was consumed: a cancel of another turn, content that nobody can read."""

    input: str
    reason: str


class InputRefused(Record, frozen=True, tag="input_refused"):
    """A prompt or a signal was consumed for which there is no room: so many wait already. It changes nothing."""

    input: str
    name: str = ""
    """Of a signal."""
    reason: str = ""
    at_s: float = 0.0


class AttemptEnded(Record, frozen=True, tag="attempt_ended"):
    """An attempt ended before its turn: harness or model provider failed, the worker handed it over, or all wait."""

    turn: int
    why: Literal["failed", "provider", "handed_over", "waiting"]
    error: str = ""
    at_s: float = 0.0
    cut: tuple[int, ...] = ()
    """Calls that ran when it was handed over, and were cut off."""
    waits: bool = False
    """Handed over with nothing to do but wait: for a time, a signal, a person, or `again_at_s`."""
    again_at_s: float = 0.0
    """Unix time before which no attempt goes on, whatever input comes; 0 at once."""


class Mirrored(Record, frozen=True, tag="mirrored"):
    """Lines that a harness appended to one of its own files."""

    file: str
    """Path below the session's HOME."""
    position: int
    """Number of lines of that file mirrored before; lower than known truncates what followed."""
    lines: Payload
    """A JSON list of texts without their line ends."""
    count: int = 0
    """How many lines that is."""


class TurnParked(Record, frozen=True, tag="turn_parked"):
    """The turn waits for a person, with the evidence."""

    turn: int
    why: ParkedFor
    evidence: dict[str, Any] = {}
    at_s: float = 0.0


class TurnReleased(Record, frozen=True, tag="turn_released"):
    """A parked turn goes on: a person let it, or what it was parked for is over. It may fail as often as at first."""

    turn: int
    by: str = ""
    at_s: float = 0.0
    renews: bool = True
    """Its budgets are whole again. Where they are not, the time for which it was parked counts for none of them."""


class TurnSettled(Record, frozen=True, tag="turn_settled"):
    """The turn is over."""

    turn: int
    status: TurnStatus
    result: Payload = EMPTY
    error: str = ""
    usage: Usage | None = None
    """Of all its model calls, void answers included."""
    at_s: float = 0.0
    began_s: float = 0.0
    """When it was opened."""


class Shelf(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A list that only grows, in parts: blobs that are JSON lists."""

    levels: tuple[tuple[str, ...], ...] = ()
    """The names of the newest parts; then, level by level, of blobs that are JSON lists of `codec.NODE` names of the
    level before. What a higher level names stands before what a lower one does."""
    count: int = 0
    """What all parts hold together."""


class Kept(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a snapshot leaves to parts, which the next names again."""

    calls: dict[int, Shelf] = {}
    """By turn: settled calls."""
    next_call: int = 0
    """Of the calls before this one all are in parts, but those `left`."""
    left: tuple[int, ...] = ()
    files: dict[str, Shelf] = {}
    """By file: pieces of its lines, and how many lines of each stand."""


class Snapshot(Record, frozen=True, tag="snapshot"):
    """The folded state of everything before this commit: folding may begin here (`outlast.snapshots`)."""

    state: Payload
    """The whole state; null of one that has parts."""
    bare: Payload = EMPTY
    """The state without what is in parts."""
    kept: Kept = Kept()
