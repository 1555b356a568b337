"""What a log amounts to: the state of a session, its open turn, and the calls of that.

Snapshots hold these structs, so they are a storage format: fields are only ever added, with a default.
"""

from typing import Final

import msgspec

from outlast.behind import Behind
from outlast.mirrored import FileState
from outlast.records import (
    EMPTY,
    Attached,
    CallIntent,
    CallOutcome,
    Decided,
    DocumentEdited,
    ErrandDue,
    FilesKept,
    Forked,
    Kept,
    NetworkAsked,
    NoticeDue,
    Payload,
    PromptQueued,
    ResultTold,
    Scheduled,
    SessionOpened,
    SignalKept,
    SteerTaken,
    TurnContinued,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Usage,
    Verdict,
)

BEGAN_LIMIT: Final = 100
"""Turns of which it is remembered how the files were when they began."""
TALK_LIMIT: Final = 128
"""Tool calls after the newest answer that are remembered beyond their turn."""


class CallState(msgspec.Struct, gc=False):
    """One call of the open turn. Like a record it is never part of a cycle."""

    intent: CallIntent
    opened: int
    """Fence of the attempt that wrote the intent."""
    started: int = 0
    """Fence of the newest attempt that let it go; 0 when none did."""
    outcome: CallOutcome | None = None
    verdict: Verdict | None = None
    decided: Decided | None = None
    """What a person decided about it and nobody has acted on."""
    cuts: int = 0
    """How often it was cut off because the time of its worker was over."""
    spent: Usage = Usage()
    """Billed for it so far, void answers included."""
    tries: int = 0
    """Of a tool call: tries that ended without any effect, by the tool's own word."""
    witness: Payload = EMPTY
    """What was noted when it was last let go, to tell later whether it took effect."""

    @property
    def open(self) -> bool:
        return self.outcome is None

    @property
    def begun(self) -> bool:
        """Its effect may have happened: it was let go, and no try has said since that there was none."""
        return self.started > 0 or not (self.intent.granted or self.tries)


class AttemptState(msgspec.Struct):
    """One worker's try at the open turn."""

    fence: int
    worker: str
    at_s: float = 0.0
    versions: dict[str, str] = {}
    settled: int = 0
    """Calls that were settled in it."""
    ended: str = ""
    """Why it ended before its turn, if that was recorded."""


class Mark(msgspec.Struct, frozen=True):
    """Where a person let a turn go on whose budgets were whole again: what it had used up by then counts no more."""

    usage: Usage = Usage()
    earlier: Usage = Usage()
    """Of the session's turns before."""
    calls: int = 0
    at_s: float = 0.0
    """Later by the time that the turn has been parked since."""
    tenant: dict[str, float] = {}
    """What the tenant had spent then, by limit, and `day`, the first of that period."""


class TurnState(msgspec.Struct):
    """The open turn."""

    turn: int
    input: str
    prompt: Payload
    at_s: float = 0.0
    calls: dict[int, CallState] = {}
    attempts: list[AttemptState] = []
    fruitless: int = 0
    """Attempts begun since the frontier of settled calls last moved, without those that provider or hand-over ended."""
    lost: int = 0
    """Attempts that failed or ended without a word since it was opened or released, whatever they settled before."""
    refused: int = 0
    """Attempts that the model provider ended since then."""
    handed: int = 0
    """Attempts that were handed over since then, though they settled nothing and had more to do than wait."""
    parked: TurnParked | None = None
    noticed: list[int] = []
    """Waits that somebody was told of, or is to be."""
    allowed: list[int] = []
    """Calls that a person has allowed, each for itself."""
    allowed_for_turn: list[int] = []
    """Calls that a person has allowed, and with them the same call again in the turn."""
    allowed_before: list[CallIntent] = []
    """Those of them that `calls` holds no more."""
    ordinals: dict[str, int] = {}
    """Next ordinal by `kind/lane`."""
    steers: list[SteerTaken] = []
    """Steers that its model calls carried, in order."""
    usage: Usage = Usage()
    """What its model calls cost so far, void answers included."""
    mark: "Mark" = Mark()
    """How far it was when its budgets were last whole."""
    begun_with: Payload | None = None
    """What its loop began again with, when it last did; None if it never has."""
    begun: int = 0
    """How often it has."""
    past: int = 0
    """Calls from before that, which `calls` holds no more; `ordinals` and `usage` count them still."""
    talk: "TalkState | None" = None
    """Where these left the conversation of the loop."""
    counted: int = 0
    """How many of its calls the tenant's counters have (`outlast.tally`)."""
    counted_s: float = 0.0
    """Unix time up to which they have its time."""
    again_at_s: float = 0.0
    """Unix time before which no attempt goes on, since harness or provider have failed; 0 at once."""
    asked: dict[str, NetworkAsked] = {}
    """What was asked of the way out of its workspace, the newest record about each."""
    after: int = 0
    """Number of a commit behind which all of it stands."""
    traceparent: str = ""
    attachments: tuple[Attached, ...] = ()
    """Both of its prompt."""

    def begin_again(self, record: TurnContinued) -> None:
        """Its loop goes on from a state, and not from its calls so far.

        Whatever counts against a budget goes on counting, and the ordinals of its lanes go on: what tells one call of
        a turn from another is never given twice.
        """
        self.talk = talk_of(self) or self.talk
        self.begun_with, self.begun = own(record.state), self.begun + 1
        self.past += len(self.calls)
        self.allowed_before.extend(own_intent(call.intent) for call in self.allowed_still())
        self.calls, self.noticed, self.steers = {}, [], []
        self.allowed, self.allowed_for_turn = [], []

    def note(self, record: SteerTaken | NetworkAsked) -> None:
        """What came to it, or what it asked of the network."""
        if isinstance(record, SteerTaken):
            self.steers.append(record)
        else:
            self.asked[record.about] = record

    def allowed_still(self) -> "list[CallState]":
        """The calls that a person has allowed for the turn, as far as `calls` holds them."""
        return [self.calls[number] for number in self.allowed_for_turn if number in self.calls]

    @property
    def waits(self) -> bool:
        """Its newest attempt ended because all that is left to do is wait."""
        return bool(self.attempts) and self.attempts[-1].ended == "waiting"

    @property
    def word(self) -> str:
        """How it stands, in a word: `open`, `waiting`, or what it is parked for."""
        return self.parked.why if self.parked is not None else "waiting" if self.waits else "open"

    def open_calls(self) -> list[CallState]:
        return [call for call in self.calls.values() if call.open]

    def count(self, before: int = 0) -> int:
        """Its model and tool calls, those `before` a number only if that is given."""
        # By the numbers that each lane has reached: it is asked before every call, and `calls` lacks what is past.
        made = sum(made for place, made in self.ordinals.items() if place.startswith(("model/", "tool/")))
        if not before:
            return made
        kinds = (call.intent.kind for number, call in self.calls.items() if number >= before)
        return made - sum(kind in {"model", "tool"} for kind in kinds)

    def park(self, record: TurnParked) -> None:
        """It waits for a person. What it is in doubt about is asked anew, whatever was decided before."""
        self.parked, self.again_at_s = record, 0.0
        for number in record.evidence.get("in_doubt", ()):
            if number in self.calls:
                self.calls[number].decided = None

    def release(self, record: TurnReleased, earlier: Usage) -> None:
        """A person has looked at it: it may fail as often as at first.

        Args:
            earlier: of the session's turns before.
        """
        parked = self.parked
        since_s = 0.0 if parked is None else parked.at_s
        self.parked, self.fruitless, self.lost, self.refused, self.again_at_s = None, 0, 0, 0, 0.0
        self.handed = 0
        for call in self.open_calls():
            call.cuts = 0
        if record.renews:
            tenant: dict[str, float] = {} if parked is None else parked.evidence.get("tenant", {})
            self.mark = Mark(self.usage, earlier, self.count(), record.at_s, tenant or self.mark.tenant)
        elif since_s:
            at_s = (self.mark.at_s or self.at_s) + max(0.0, record.at_s - since_s)
            self.mark = msgspec.structs.replace(self.mark, at_s=at_s)


class TalkState(msgspec.Struct):
    """Where the conversation of a loop stands: the newest answer in its main lane, of the turns that are over."""

    turn: int
    request: Payload
    """What the model was asked (`outlast.codec.ModelRequest`)."""
    answer: Payload
    tools: list[CallState] = []
    """Tool calls of that turn after the answer, the first `TALK_LIMIT`: their results are in no request yet."""


class NoticeState(msgspec.Struct):
    """What somebody outside is still to be told."""

    due: NoticeDue
    tries: int = 0
    at_s: float = 0.0
    """Not before this Unix time."""


class ScheduleState(msgspec.Struct):
    """A schedule that stands."""

    set: Scheduled
    due_s: float
    """Unix time at which it comes next."""


class DocumentState(msgspec.Struct, frozen=True):
    """A document: all that is kept of its edits is what they came to."""

    version: int
    value: Payload
    shape: int = 0
    """Version of the shape that it fits; 0 when nobody has looked."""


class TreeState(msgspec.Struct, frozen=True):
    """The files of the workspace as the log has them."""

    root: str = ""
    aside: Payload = EMPTY
    turn: int = 0
    call: int = 0
    """The newest call that they hold."""


class SessionState(msgspec.Struct):
    """What recovery knows of a session: bounded by its open turn and its harness's files, not by its age."""

    session: str = ""
    opened: SessionOpened | None = None
    forked: Forked | None = None
    seq: int = 0
    fence: int = 0
    next_call: int = 1
    next_turn: int = 1
    turn: TurnState | None = None
    attempt: AttemptState | None = None
    """The newest attempt, also while no turn is open."""
    queue: list[PromptQueued] = []
    """Prompts that wait in the log, oldest first."""
    signals: list[SignalKept] = []
    """Signals that no wait has taken, oldest first."""
    documents: dict[str, DocumentState] = {}
    last: TurnSettled | None = None
    cut: TurnState | None = None
    """The newest settled turn, if it was cut short: what its harness had not written down is told from here."""
    files: dict[str, FileState] = {}
    told: dict[str, Payload] = {}
    """By the harness's call id: results that we wrote and the harness's own files may tell otherwise."""
    corrected: dict[str, ResultTold] = {}
    """By the same id: results that a request told otherwise than the harness, which knows the call as ended too."""
    talk: TalkState | None = None
    usage: Usage = Usage()
    """Of all settled turns."""
    next_notice: int = 1
    untold: list[NoticeState] = []
    """What somebody outside is still to be told, oldest first."""
    next_errand: int = 1
    errands: list[ErrandDue] = []
    """What other sessions are still to be told, oldest first."""
    schedules: dict[str, ScheduleState] = {}
    tree: TreeState = TreeState()
    behind: Behind = msgspec.field(default_factory=Behind)
    """What of the calls stands in no tree."""
    began: dict[int, str] = {}
    """By turn, the newest `BEGAN_LIMIT`: the root of the files as it began; of sessions that keep any."""
    shown: bool = False
    """Deltas were ever published: there may be some to drop."""
    kept: Kept = Kept()
    """What the newest snapshot left to parts."""
    tail: int = 0
    """Records from the newest snapshot on."""
    held: list[str] = []
    """Blobs that the session names, oldest first; a hint that saves sending bytes again."""

    def version_of(self, document: str) -> int:
        """The version of a document; 0 of one that is not there."""
        return self.documents[document].version if document in self.documents else 0

    def open_turn(self, record: TurnOpened) -> None:
        """The next turn begins."""
        self.next_turn += 1
        turn = self.turn = TurnState(record.turn, record.input, record.prompt, record.at_s)
        turn.after, turn.traceparent, turn.attachments = record.after, record.traceparent, record.attachments
        self.queue = [prompt for prompt in self.queue if prompt.input != record.input]
        if self.attempt is not None:
            turn.attempts.append(msgspec.structs.replace(self.attempt, settled=0))
        if self.tree.turn:
            self._begins(record.turn, self.tree.root)
        place = {} if self.opened is None else self.opened.workspace
        if (place.get("kind"), place.get("checkpoint")) == ("virtual", "off"):
            self.behind.kept()  # they are as at first when a turn ends, and are said to be

    def files_kept(self, record: FilesKept) -> None:
        """The workspace has other files."""
        if record.why == "begin":
            self._begins(record.turn, record.root)
        elif not self.tree.turn and self.opened and self.opened.workspace.get("checkpoint") != "turn":
            self._begins(record.turn, "")  # with `turn` it began with what nobody has seen
        self.behind.kept()
        self.tree = TreeState(record.root, own(record.aside), record.turn, record.call or self.tree.call)

    def _begins(self, turn: int, root: str) -> None:
        self.began[turn] = root
        while len(self.began) > BEGAN_LIMIT:
            del self.began[next(iter(self.began))]

    def edited(self, record: DocumentEdited, value: Payload) -> None:
        """A document has a new value: `value`, which is the record's."""
        self.documents[record.name] = DocumentState(record.version, value, record.shape)


def own(payload: Payload) -> Payload:
    """The payload with a text of its own: what was decoded is a window on its whole commit, and would keep that."""
    return payload if payload.ref else msgspec.structs.replace(payload, json=payload.json.copy())


def own_intent(intent: CallIntent) -> CallIntent:
    """The intent with arguments of its own, as `own`."""
    return msgspec.structs.replace(intent, arguments=own(intent.arguments))


def talk_of(turn: TurnState) -> TalkState | None:
    """Where the turn leaves the conversation of its loop; None if no model has answered in it."""
    tools: list[CallState] = []
    for call in reversed(turn.calls.values()):
        intent, outcome = call.intent, call.outcome
        if (intent.kind == "tool" and not intent.compensates) or intent.harness_id:
            tools.append(call)
        if outcome is None or outcome.status != "ok" or (intent.kind, intent.lane) != ("model", "main"):
            continue
        if intent.runs_in != "worker":
            return None  # a harness keeps its own conversation
        return TalkState(turn.turn, own(intent.arguments), own(outcome.result), tools[::-1][:TALK_LIMIT])
    return None


def status_of(state: SessionState) -> str:
    """The short text for `list`: `turn 3 open · attempt 2 · 7 calls · $0.0800`."""
    turn = state.turn
    if turn is None:
        if state.last is None:
            return "new"
        return f"turn {state.last.turn} {state.last.status} · ${state.usage.cost_usd:.4f}"
    tries, calls = max(1, len(turn.attempts)), turn.past + len(turn.calls)
    return f"turn {turn.turn} {turn.word} · attempt {tries} · {calls} calls · ${turn.usage.cost_usd:.4f}"
