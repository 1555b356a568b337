"""Every kind of record there is."""

from typing import TypeAlias

from outlast.records.agenda import NoticeDue, NoticeTried, ScheduleCame, Scheduled, Unscheduled
from outlast.records.edits import DocumentEdited, EditRejected
from outlast.records.errands import ErrandDone, ErrandDue, PromptRecalled, TurnContinued
from outlast.records.files import FilesKept, FilesLost
from outlast.records.forks import Forked
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
    PromptQueued,
    ResultTold,
    SessionOpened,
    SignalKept,
    Snapshot,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Verdict,
)
from outlast.records.network import NetworkAsked

AnyRecord: TypeAlias = (
    SessionOpened
    | TurnOpened
    | AttemptOpened
    | CallIntent
    | CallStarted
    | CallOutcome
    | CallRetracted
    | ResultTold
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
    | FilesKept
    | FilesLost
    | NetworkAsked
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
    | Forked
    | Snapshot
)
