"""Folds what a session has to do by itself: tell somebody outside or another session, queue prompts in their time.

And where a fork begins, which leaves such things to its source, and what a model is told beside what its harness says.
"""

from typing import Final, TypeAlias

import msgspec

from outlast.records import (
    ErrandDone,
    ErrandDue,
    FilesLost,
    Forked,
    NoticeDue,
    NoticeTried,
    PromptRecalled,
    ResultTold,
    ScheduleCame,
    Scheduled,
    Unscheduled,
)
from outlast.state import NoticeState, ScheduleState, SessionState, TurnState, own

CORRECTED_LIMIT: Final = 500
"""Results that are remembered because a harness tells them otherwise than a request did."""

ErrandRecord: TypeAlias = ErrandDue | ErrandDone | PromptRecalled
AgendaRecord: TypeAlias = (
    NoticeDue
    | NoticeTried
    | Scheduled
    | ScheduleCame
    | Unscheduled
    | ErrandDue
    | ErrandDone
    | PromptRecalled
    | Forked
    | FilesLost
    | ResultTold
)


def apply_agenda(state: SessionState, record: AgendaRecord) -> str:
    """Carry `state` over one record. Returns what is wrong with it, and then leaves the state as it was."""
    match record:
        case NoticeDue():
            return _due(state, record)
        case NoticeTried():
            return _tried(state, record)
        case Scheduled():
            state.schedules[record.name] = ScheduleState(record, record.due_s)
            return ""
        case ScheduleCame():
            return _came(state, record)
        case Unscheduled():
            return _unknown(record.name) if state.schedules.pop(record.name, None) is None else ""
        case Forked():
            return _forked(state, record)
        case FilesLost() | ResultTold():
            return _lost(state, record) if isinstance(record, FilesLost) else _told(state, record)
        case _:
            return _errand(state, record)


def _errand(state: SessionState, record: ErrandRecord) -> str:
    match record:
        case ErrandDue():
            if record.number != state.next_errand:
                return f"errand {record.number} is not the next"
            state.next_errand += 1
            state.errands.append(record)
        case ErrandDone():
            left = [one for one in state.errands if one.number != record.number]
            if len(left) == len(state.errands):
                return f"errand {record.number} is not due"
            state.errands = left
        case PromptRecalled():
            waiting = [one for one in state.queue if one.input != record.prompt]
            if len(waiting) == len(state.queue):
                return f"input {record.prompt} does not wait"
            state.queue = waiting
    return ""


def _lost(state: SessionState, record: FilesLost) -> str:
    turn = state.turn
    if turn is None or turn.turn != record.turn:
        return f"turn {record.turn} is not open"
    if record.behind and record.behind not in turn.calls:
        return f"call {record.behind} is none of the turn"
    told_by = turn.calls[record.behind].intent.harness_id if record.behind else ""
    state.behind.lost(record, told_by, state.fence)
    return ""


def _told(state: SessionState, record: ResultTold) -> str:
    if state.turn is None or state.turn.turn != record.turn:
        return f"turn {record.turn} is not open"
    state.corrected[record.harness_id] = msgspec.structs.replace(record, result=own(record.result))
    while len(state.corrected) > CORRECTED_LIMIT:
        del state.corrected[next(iter(state.corrected))]
    return ""


def _forked(state: SessionState, record: Forked) -> str:
    """The past is another's from here on: the place is the fork's own, and nobody waits for it as for its source."""
    opened = state.opened
    if opened is None or state.seq != record.at + 1:
        return f"it is a fork at commit {record.at}"
    place = (record.workspace, record.cwd) if record.workspace else (opened.workspace, opened.cwd)
    workspace, cwd = place
    state.forked = record
    state.behind.forked()
    state.opened = msgspec.structs.replace(
        opened, folder=record.folder, home="", workspace=workspace, cwd=cwd, parent=None
    )
    if state.turn is not None:  # what a person was told, and has allowed, was about the source
        state.turn.noticed, state.turn.allowed = [], []
        state.turn.allowed_for_turn, state.turn.allowed_before = [], []
    return ""


def _due(state: SessionState, record: NoticeDue) -> str:
    if record.number != state.next_notice:
        return f"notice {record.number} is not the next"
    state.next_notice += 1
    state.untold.append(NoticeState(record))
    if state.turn is not None:
        state.turn.noticed.extend(record.calls)
    return ""


def _tried(state: SessionState, record: NoticeTried) -> str:
    found = next((one for one in state.untold if one.due.number == record.number), None)
    if found is None:
        return f"notice {record.number} is not due"
    if record.ok or not record.again_at_s:
        state.untold.remove(found)
    else:
        found.tries, found.at_s = found.tries + 1, record.again_at_s
    return ""


def _came(state: SessionState, record: ScheduleCame) -> str:
    found = state.schedules.get(record.name)
    if found is None:
        return _unknown(record.name)
    if record.next_s:
        found.due_s = record.next_s
    else:
        del state.schedules[record.name]
    return ""


def _unknown(name: str) -> str:
    return f"there is no schedule {name}"


def wake_of(state: SessionState, attempt_s: float | None, *, asleep: bool) -> float | None:
    """The wake time of a session that stands like this.

    Args:
        attempt_s: when its open turn may go on; None at once.
        asleep: its open turn goes on when an input comes, and not before.
    """
    turn = state.turn
    told_s = _first(*(one.at_s for one in state.untold), 0.0 if state.errands else None)
    if turn is None:
        if state.queue:
            return 0.0  # it is in no inbox any more: without this nothing would wake its session
        return _first(told_s, *(one.due_s for one in state.schedules.values()))
    if turn.parked is not None:
        return _first(told_s, parked_until(turn))
    if asleep:
        return told_s
    return _first(told_s, attempt_s) if turn.waits else attempt_s


def parked_until(turn: TurnState) -> float | None:
    """When what the turn is parked for is over by itself; None never."""
    parked = turn.parked
    return parked.evidence.get("until_s") if parked is not None and parked.why == "budget" else None


def _first(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
