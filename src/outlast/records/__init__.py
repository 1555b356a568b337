"""What a commit holds: every record and every input, frozen and tagged, with the version of their format.

A record is for recovery and, through its public face (`outlast.records.events`), for watchers. Fields are only ever
added, with a default; a tag or a field never changes its meaning. Whatever an older outlast could not read rightly
raises `FORMAT`, and workers that read less leave such a session alone.
"""

from outlast.records.agenda import NoticeDue, NoticeTried, ScheduleCame, Scheduled, Unscheduled
from outlast.records.edits import AnyEdit, Delete, DocumentEdited, EditRejected, Merge, Set
from outlast.records.errands import ErrandDone, ErrandDue, ErrandKind, PromptRecalled, TurnContinued
from outlast.records.files import FilesKept, FilesLost, KeptFor, LostCall
from outlast.records.forks import Forked
from outlast.records.inputs import (
    AnyInput,
    Cancel,
    Decision,
    Edit,
    Prompt,
    Recall,
    Report,
    Retry,
    Schedule,
    Signal,
    Steer,
    Unschedule,
)
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
    Kept,
    Mirrored,
    Parent,
    PromptQueued,
    ResultTold,
    SessionOpened,
    Shelf,
    SignalKept,
    Snapshot,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Verdict,
)
from outlast.records.network import NetworkAsked, Passed
from outlast.records.payload import EMPTY, Attached, Payload, Touched, Usage
from outlast.records.union import AnyRecord

FORMAT = 2
"""The newest record format this code reads."""
PLAIN = 1
"""The format of whatever holds nothing that came after it: older workers read that, and go on with such sessions."""

__all__ = [
    "EMPTY",
    "FORMAT",
    "PLAIN",
    "AnyEdit",
    "AnyInput",
    "AnyRecord",
    "Attached",
    "AttemptEnded",
    "AttemptOpened",
    "CallIntent",
    "CallOutcome",
    "CallRetracted",
    "CallStarted",
    "Cancel",
    "Decided",
    "Decision",
    "Delete",
    "DocumentEdited",
    "Edit",
    "EditRejected",
    "ErrandDone",
    "ErrandDue",
    "ErrandKind",
    "FilesKept",
    "FilesLost",
    "Forked",
    "InputDropped",
    "InputRefused",
    "Kept",
    "KeptFor",
    "LostCall",
    "Merge",
    "Mirrored",
    "NetworkAsked",
    "NoticeDue",
    "NoticeTried",
    "Parent",
    "Passed",
    "Payload",
    "Prompt",
    "PromptQueued",
    "PromptRecalled",
    "Recall",
    "Report",
    "ResultTold",
    "Retry",
    "Schedule",
    "ScheduleCame",
    "Scheduled",
    "SessionOpened",
    "Set",
    "Shelf",
    "Signal",
    "SignalKept",
    "Snapshot",
    "Steer",
    "SteerTaken",
    "Touched",
    "TurnContinued",
    "TurnOpened",
    "TurnParked",
    "TurnReleased",
    "TurnSettled",
    "Unschedule",
    "Unscheduled",
    "Usage",
    "Verdict",
]
