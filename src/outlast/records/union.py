"""Every kind of record there is."""

from typing import TypeAlias

from outlast.records.edits import DocumentEdited, EditRejected
from outlast.records.errands import ErrandDone, ErrandDue, PromptRecalled, TurnContinued
from outlast.records.kinds import (
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Decided,
    InputDropped,
    InputRefused,
    Mirrored,
    NoticeDue,
    NoticeTried,
    PromptQueued,
    ScheduleCame,
    Scheduled,
    SessionOpened,
    SignalKept,
    Snapshot,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Unscheduled,
    Verdict,
)

AnyRecord: TypeAlias = (
    SessionOpened
    | TurnOpened
    | AttemptOpened
    | CallIntent
    | CallStarted
    | CallOutcome
    | CallRetracted
    | Verdict
    | SteerTaken
    | PromptQueued
    | SignalKept
    | Decided
    | DocumentEdited
    | EditRejected
    | InputDropped
    | InputRefused
    | AttemptEnded
    | Mirrored
    | TurnParked
    | TurnReleased
    | TurnSettled
    | NoticeDue
    | NoticeTried
    | Scheduled
    | ScheduleCame
    | Unscheduled
    | ErrandDue
    | ErrandDone
    | PromptRecalled
    | TurnContinued
    | Snapshot
)
