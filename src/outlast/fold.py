"""Pure: commits to the state of a session.

`fold` depends on nothing but the commits. It checks the order that `outlast.records.kinds` promises and refuses a log
that breaks it, since acting on half-understood history is how effects happen twice.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from outlast.agenda import AgendaRecord, apply_agenda
from outlast.codec import decode_records
from outlast.errors import LogBroken
from outlast.mirrored import FileState
from outlast.records import (
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Decided,
    DocumentEdited,
    EditRejected,
    FilesKept,
    InputDropped,
    InputRefused,
    Mirrored,
    NetworkAsked,
    PromptQueued,
    SessionOpened,
    SignalKept,
    Snapshot,
    SteerTaken,
    TurnContinued,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Usage,
    Verdict,
)
from outlast.snapshots import adopt, forget_calls, inline, keep
from outlast.state import (
    AttemptState,
    CallState,
    SessionState,
    TalkState,
    TurnState,
    own,
    talk_of,
)
from outlast.tally import counted
from outlast.world.commit import Commit, Header

HELD_LIMIT: Final = 20_000
"""Names of blobs that a state remembers; beyond that the older half is forgotten."""

CallRecord: TypeAlias = CallIntent | CallStarted | CallOutcome | CallRetracted | Verdict | Decided
TurnRecord: TypeAlias = (
    TurnOpened | AttemptEnded | TurnParked | TurnReleased | TurnSettled | SteerTaken | TurnContinued
)

__all__ = [
    "HELD_LIMIT",
    "AttemptState",
    "CallState",
    "FileState",
    "SessionState",
    "TalkState",
    "TurnState",
    "apply",
    "apply_record",
    "fold",
    "records_of",
    "remember",
]


def fold(session: str, commits: Iterable[Commit]) -> SessionState:
    """The state after `commits`, which begin at commit 1 or at a commit with a snapshot that stands in its body.

    Raises:
        LogBroken, FormatTooNew
    """
    state = SessionState(session=session)
    for commit in commits:
        records = records_of(session, commit)
        if commit.header.snapshot and state.seq == 0:
            state.seq = commit.header.seq - 1
        apply(state, commit.header, records)
    return state


def records_of(session: str, commit: Commit) -> list[AnyRecord]:
    """What a commit of `session` says.

    Raises:
        LogBroken, FormatTooNew
    """
    header = commit.header
    return decode_records(commit.body, session=session, seq=header.seq, format=header.format)


def apply(state: SessionState, header: Header, records: Sequence[AnyRecord]) -> None:
    """Carry `state` over one commit.

    Raises:
        LogBroken: the commit is not the next, or breaks the order of records. The state is then of no more use.
    """
    if header.seq != state.seq + 1:
        raise LogBroken(session=state.session, seq=header.seq, reason=f"commit {state.seq + 1} is missing")
    state.seq = header.seq
    state.shown = state.shown or header.sealed > 0
    _check(state, header.fence >= state.fence, f"fence {header.fence} comes after {state.fence}")
    _check(state, header.events == len(records), f"it counts {header.events} events and holds {len(records)}")
    _check_place(state, header, records)
    state.fence = header.fence
    for record in records:
        apply_record(state, record)
    remember(state, header.refs)


def remember(state: SessionState, refs: Sequence[str]) -> Sequence[str]:
    """Note that the session names the blobs `refs`. Returns what it forgot for that, to stay bounded."""
    state.held.extend(refs)
    if len(state.held) <= HELD_LIMIT:
        return ()
    forgotten, state.held = state.held[: HELD_LIMIT // 2], state.held[HELD_LIMIT // 2 :]
    return forgotten


def _check_place(state: SessionState, header: Header, records: Sequence[AnyRecord]) -> None:
    """Openings and snapshots stand where a reader looks for them, and nowhere else."""
    for at, record in enumerate(records):
        match record:
            case SessionOpened():
                _check(state, header.seq == 1 and at == 0, "it opens the session a second time")
            case Snapshot():
                _check(
                    state,
                    header.snapshot and at == 0,
                    "its snapshot is not announced, or not its first record",
                )
            case _:
                pass
    first = records[0] if records else None
    _check(state, header.seq != 1 or isinstance(first, SessionOpened), "it does not open the session")
    _check(state, not header.snapshot or isinstance(first, Snapshot), "it announces a snapshot it lacks")


def apply_record(state: SessionState, record: AnyRecord) -> None:
    """Carry `state` over one record, written under `state.fence`.

    Raises:
        LogBroken: it breaks the order of records; the state is as it was.
    """
    if state.opened is None and not isinstance(record, SessionOpened | Snapshot):
        raise LogBroken(session=state.session, seq=state.seq, reason="the session is not open")
    if isinstance(record, AgendaRecord):
        wrong = apply_agenda(state, record)
        _check(state, not wrong, wrong)
    elif isinstance(record, TurnRecord | NetworkAsked):
        _of_turn(state, record)
    elif isinstance(record, CallRecord):
        _of_call(state, record)
    elif isinstance(record, DocumentEdited | FilesKept):
        _written(state, record)
    else:
        _of_session(state, record)
    counted(state.turn, record)
    state.tail += 1


def _of_session(
    state: SessionState,
    record: SessionOpened
    | AttemptOpened
    | PromptQueued
    | SignalKept
    | EditRejected
    | InputDropped
    | InputRefused
    | Mirrored
    | Snapshot,
) -> None:
    match record:
        case SessionOpened():
            _check(state, state.opened is None, "it opens the session a second time")
            state.opened = record
        case AttemptOpened():
            _attempt_opened(state, record)
        case PromptQueued():
            _queued(state, record)
        case SignalKept():
            _check(state, record.input not in _signals(state), f"signal {record.input} is kept twice")
            state.signals.append(record)
        case Mirrored():
            _mirrored(state, record)
        case Snapshot():
            _snapshot(state, record)
        case InputDropped() | InputRefused() | EditRejected():
            pass


def _of_call(state: SessionState, record: CallRecord) -> None:
    match record:
        case CallIntent():
            _intent(state, record)
        case CallStarted():
            call = _open_call(state, record.call, record.turn)
            call.started, call.witness = state.fence, own(record.witness)
            call.decided = None  # a word to run it again is about one run: this
        case CallOutcome():
            _outcome(state, record)
        case CallRetracted():
            _retracted(state, record)
        case Verdict():
            _open_call(state, record.call, record.turn).verdict = record
        case Decided():
            _open_call(state, record.call, record.turn).decided = record
            if record.ruling == "allow":
                turn = _turn(state, record.turn)
                (turn.allowed_for_turn if record.for_turn else turn.allowed).append(record.call)


def _of_turn(state: SessionState, record: TurnRecord | NetworkAsked) -> None:
    match record:
        case TurnOpened():
            _turn_opened(state, record)
        case AttemptEnded():
            _attempt_ended(_turn(state, record.turn), record)
        case TurnParked():
            _turn(state, record.turn).park(record)
        case TurnReleased():
            _turn(state, record.turn).release(record, state.usage)
        case TurnSettled():
            _turn_settled(state, record)
        case SteerTaken() | NetworkAsked():
            _turn(state, record.turn).note(record)
            state.behind.said(record.input if isinstance(record, SteerTaken) else "")
        case TurnContinued():
            turn = _turn(state, record.turn)
            _check(state, not turn.open_calls(), f"turn {record.turn} is continued with calls open")
            turn.begin_again(record)
            forget_calls(state, record.turn)


def _check(state: SessionState, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise LogBroken(session=state.session, seq=state.seq, reason=otherwise)


def _turn(state: SessionState, turn: int) -> TurnState:
    if state.turn is None or state.turn.turn != turn:
        raise LogBroken(session=state.session, seq=state.seq, reason=f"turn {turn} is not open")
    return state.turn


def _open_call(state: SessionState, call: int, turn: int) -> CallState:
    found = _turn(state, turn).calls.get(call)
    if found is None or found.outcome is not None:
        raise LogBroken(session=state.session, seq=state.seq, reason=f"call {call} is not open")
    return found


def _intent(state: SessionState, record: CallIntent) -> None:
    turn = _turn(state, record.turn)
    lane = f"{record.kind}/{record.lane}"
    place = turn.ordinals.get(lane, 0)
    _check(state, record.call == state.next_call, f"call {record.call} is not the next")
    _check(state, record.ordinal == place, f"call {record.call} has ordinal {record.ordinal}, not {place}")
    if record.compensates:  # a word to compensate is about one compensation: this
        _open_call(state, record.compensates, record.turn).decided = None
    state.next_call += 1
    turn.ordinals[lane] = record.ordinal + 1
    turn.calls[record.call] = CallState(record, state.fence)


def _signals(state: SessionState) -> list[str]:
    return [signal.input for signal in state.signals]


def _outcome(state: SessionState, record: CallOutcome) -> None:
    call = _open_call(state, record.call, record.turn)
    if record.signal:
        _check(state, record.signal in _signals(state), f"call {record.call} takes a signal that is not kept")
        state.signals = [signal for signal in state.signals if signal.input != record.signal]
    call.outcome = record
    _spend(state, call, record.usage)
    turn = _turn(state, record.turn)
    state.behind.outcome(record, call.intent, state.fence)
    turn.fruitless = turn.refused = turn.handed = 0
    if turn.attempts:
        turn.attempts[-1].settled += 1
    if record.status in {"in_doubt", "interrupted", "cancelled"} and call.intent.harness_id:
        state.told[call.intent.harness_id] = own(record.result)
    else:
        state.told.pop(call.intent.harness_id, None)  # the harness gave the id to another call
    state.corrected.pop(call.intent.harness_id, None)


def _retracted(state: SessionState, record: CallRetracted) -> None:
    call = _open_call(state, record.call, record.turn)
    _spend(state, call, record.usage)
    if record.no_effect:
        call.tries, call.started = call.tries + 1, 0


def _spend(state: SessionState, call: CallState, usage: Usage | None) -> None:
    if usage is not None and state.turn is not None:
        call.spent = call.spent + usage
        state.turn.usage = state.turn.usage + usage


def _mirrored(state: SessionState, record: Mirrored) -> None:
    file = state.files.get(record.file, FileState())
    in_order = 0 <= record.position <= file.lines and record.count >= 0
    _check(state, in_order, f"{record.file} has {file.lines} lines and goes on at line {record.position}")
    state.files[record.file] = file
    file.cut(record.position)
    if record.count:
        file.pieces.append(own(record.lines))
        file.counts.append(record.count)


def _written(state: SessionState, record: DocumentEdited | FilesKept) -> None:
    if record.call:
        _open_call(state, record.call, 0 if state.turn is None else state.turn.turn)
    if isinstance(record, FilesKept):
        if record.why != "undo":
            _turn(state, record.turn)
        state.files_kept(record)
        return
    following = state.version_of(record.name) + 1
    _check(
        state, record.version == following, f"{record.name} is edited to {record.version}, not {following}"
    )
    state.edited(record, own(record.value))


def _queued(state: SessionState, record: PromptQueued) -> None:
    waiting = [prompt.input for prompt in state.queue]
    known = waiting if state.turn is None else [*waiting, state.turn.input]
    _check(state, record.input not in known, f"input {record.input} is queued twice")
    state.queue.append(record)


def _turn_opened(state: SessionState, record: TurnOpened) -> None:
    _check(state, state.turn is None, f"turn {record.turn} is opened while another is open")
    _check(state, record.turn == state.next_turn, f"turn {record.turn} is not the next")
    state.open_turn(record)


def _attempt_opened(state: SessionState, record: AttemptOpened) -> None:
    newest = 0 if state.attempt is None else state.attempt.fence
    _check(state, state.fence > newest, f"fence {state.fence} has two attempts, or comes after {newest}")
    state.attempt = AttemptState(state.fence, record.worker, record.at_s, record.versions)
    if state.turn is not None:
        state.turn.lost += any(not attempt.ended for attempt in state.turn.attempts[-1:])
        state.turn.attempts.append(msgspec.structs.replace(state.attempt))
        state.turn.fruitless += 1


def _attempt_ended(turn: TurnState, record: AttemptEnded) -> None:
    for attempt in turn.attempts[-1:]:
        attempt.ended = record.error or record.why
    for number in record.cut:
        if number in turn.calls:
            turn.calls[number].cuts += 1
    settled = any(attempt.settled for attempt in turn.attempts[-1:])
    turn.handed += record.why == "handed_over" and not (settled or record.waits)
    turn.refused += record.why == "provider"
    turn.lost += record.why == "failed"
    turn.again_at_s = record.again_at_s
    if record.why != "failed":
        # The attempt was counted when it was opened, or it opened the turn; neither ending says anything against it.
        turn.fruitless -= 1


def _turn_settled(state: SessionState, record: TurnSettled) -> None:
    turn = _turn(state, record.turn)
    _check(state, not turn.open_calls(), f"turn {record.turn} is settled with calls open")
    state.usage = state.usage + turn.usage
    state.last = record
    state.talk = talk_of(turn) or turn.talk or state.talk
    state.cut = None if record.status == "done" else turn
    state.turn = None


def _snapshot(state: SessionState, record: Snapshot) -> None:
    if state.opened is None:  # else the fold came all the way here and knows more than the snapshot
        try:
            adopt(state, inline(record))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise LogBroken(session=state.session, seq=state.seq, reason=f"its snapshot: {error}") from None
        _check(state, state.opened is not None, "its snapshot is of a session that is not open")
    keep(state, record)
