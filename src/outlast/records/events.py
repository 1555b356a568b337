"""The public face of records, and deltas: what watchers are shown.

Event `i` of a commit is the face of its record `i`, so nothing is stored twice and a cursor can never shift. Records
that are no business of a watcher have a face too (`hidden`), which clients leave out and cursors still count.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

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
from outlast.records.payload import EMPTY, Attached, Payload, Usage
from outlast.records.union import AnyRecord

EventKind: TypeAlias = Literal[
    "session.opened",
    "session.forked",
    "turn.opened",
    "attempt.opened",
    "attempt.ended",
    "call.opened",
    "call.started",
    "call.settled",
    "call.retracted",
    "call.verdict",
    "call.decided",
    "call.text",
    "call.thinking",
    "call.output",
    "steer.taken",
    "prompt.queued",
    "signal.kept",
    "input.refused",
    "document.edited",
    "document.rejected",
    "files.kept",
    "files.lost",
    "network.asked",
    "turn.parked",
    "turn.released",
    "turn.continued",
    "turn.settled",
    "schedule.set",
    "schedule.came",
    "schedule.removed",
    "gap",
    "hidden",
]


class LiveDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a World's delta: text or output of a call that is still open."""

    call: int
    turn: int
    kind: Literal["text", "thinking", "output"]
    text: str
    offset: int
    """Characters of this kind that the call had shown before, in this attempt."""
    lane: str = ""
    fence: int = 0


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a watcher sees. `cursor` is where reading goes on after it."""

    cursor: str
    kind: EventKind
    turn: int = 0
    attempt: int = 0
    """Fence of the attempt that wrote it."""
    lane: str = ""
    call: int = 0
    name: str = ""
    text: str = ""
    status: str = ""
    offset: int = 0
    payload: Payload = EMPTY
    usage: Usage | None = None
    facts: dict[str, Any] = {}
    at_s: float = 0.0


def face(record: AnyRecord, cursor: str, fence: int) -> Event:  # noqa: C901 - one arm per kind, nothing else
    """The event that shows `record`, committed under `fence`."""
    match record:
        case SessionOpened():
            parent = record.parent
            facts = {} if parent is None else {"parent": parent.session, "parent_call": parent.call}
            return Event(
                cursor, "session.opened", attempt=fence, name=record.agent, facts=facts, at_s=record.at_s
            )
        case TurnOpened():
            return Event(
                cursor,
                "turn.opened",
                record.turn,
                fence,
                name=record.input,
                payload=record.prompt,
                facts=_attached(record.attachments),
                at_s=record.at_s,
            )
        case AttemptOpened():
            facts = {"worker": record.worker, "versions": record.versions}
            return Event(cursor, "attempt.opened", attempt=fence, facts=facts, at_s=record.at_s)
        case CallIntent():
            return _intended(record, cursor, fence)
        case CallStarted():
            return Event(
                cursor, "call.started", record.turn, fence, record.lane, record.call, at_s=record.at_s
            )
        case CallOutcome():
            return Event(
                cursor,
                "call.settled",
                record.turn,
                fence,
                record.lane,
                record.call,
                status=record.status,
                payload=record.result,
                usage=record.usage,
                facts={"duration_s": record.duration_s},
                at_s=record.at_s,
            )
        case CallRetracted():
            return Event(
                cursor,
                "call.retracted",
                record.turn,
                fence,
                record.lane,
                record.call,
                text=record.reason,
                usage=record.usage,
            )
        case Verdict():
            return Event(
                cursor,
                "call.verdict",
                record.turn,
                fence,
                record.lane,
                record.call,
                status=record.verdict,
                text=record.note,
            )
        case SteerTaken():
            return Event(cursor, "steer.taken", record.turn, fence, call=record.call, text=record.text)
        case PromptQueued():
            waits = Event(cursor, "prompt.queued", 0, fence, name=record.input, payload=record.prompt)
            return msgspec.structs.replace(waits, facts=_attached(record.attachments))
        case SignalKept():
            return Event(
                cursor,
                "signal.kept",
                attempt=fence,
                name=record.name,
                payload=record.value,
                at_s=record.at_s,
            )
        case Decided():
            return Event(
                cursor,
                "call.decided",
                record.turn,
                fence,
                call=record.call,
                status=record.ruling,
                text=record.by,
                at_s=record.at_s,
            )
        case AttemptEnded():
            return Event(
                cursor,
                "attempt.ended",
                record.turn,
                fence,
                status=record.why,
                text=record.error,
                at_s=record.at_s,
            )
        case TurnParked():
            return Event(
                cursor,
                "turn.parked",
                record.turn,
                fence,
                status=record.why,
                facts=record.evidence,
                at_s=record.at_s,
            )
        case TurnReleased():
            return Event(cursor, "turn.released", record.turn, fence, text=record.by, at_s=record.at_s)
        case TurnSettled():
            return Event(
                cursor,
                "turn.settled",
                record.turn,
                fence,
                status=record.status,
                text=record.error,
                payload=record.result,
                usage=record.usage,
                at_s=record.at_s,
            )
        case InputRefused():
            facts = {"signal": record.name} if record.name else {}
            return Event(
                cursor,
                "input.refused",
                attempt=fence,
                name=record.input,
                text=record.reason,
                facts=facts,
                at_s=record.at_s,
            )
        case Scheduled() | ScheduleCame() | Unscheduled():
            return _of_schedule(record, cursor, fence)
        case DocumentEdited() | EditRejected():
            return _document(record, cursor, fence)
        case FilesKept() | FilesLost():
            return _files(record, cursor, fence)
        case NetworkAsked():
            return _asked(record, cursor, fence)
        case Forked():
            facts = {"source": record.source, "at": record.at}
            return Event(
                cursor, "session.forked", attempt=fence, name=record.session, facts=facts, at_s=record.at_s
            )
        case TurnContinued():
            return Event(
                cursor,
                "turn.continued",
                record.turn,
                fence,
                payload=record.state,
                facts={"dropped": record.dropped},
                at_s=record.at_s,
            )
        case Mirrored() | Snapshot() | InputDropped() | NoticeDue() | NoticeTried():
            return Event(cursor, "hidden", attempt=fence)
        case ErrandDue() | ErrandDone() | PromptRecalled() | ResultTold():
            return Event(cursor, "hidden", attempt=fence)


def _intended(record: CallIntent, cursor: str, fence: int) -> Event:
    """What is rarely so is only said where it is."""
    facts = {"kind": record.kind, "policy": record.policy, "asked_by": record.asked_by}
    rare = ("until_s", "child", "granted", "spawns", "compensates")
    facts |= {name: value for name in rare if (value := getattr(record, name))}
    return Event(
        cursor,
        "call.opened",
        record.turn,
        fence,
        record.lane,
        record.call,
        record.name,
        payload=EMPTY if record.kind == "model" else record.arguments,
        facts=facts,
        at_s=record.at_s,
    )


def _attached(attachments: tuple[Attached, ...]) -> dict[str, Any]:
    if not attachments:
        return {}
    return {"attachments": [msgspec.structs.asdict(one) for one in attachments]}


def _of_schedule(record: Scheduled | ScheduleCame | Unscheduled, cursor: str, fence: int) -> Event:
    match record:
        case Scheduled():
            facts = {
                "due_s": record.due_s,
                "every_s": record.every_s,
                "cron": record.cron,
                "zone": record.zone,
            }
            return Event(
                cursor,
                "schedule.set",
                attempt=fence,
                name=record.name,
                payload=record.prompt,
                facts=facts,
                at_s=record.at_s,
            )
        case ScheduleCame():
            status = "skipped" if record.skipped else "queued"
            facts = {"due_s": record.due_s, "next_s": record.next_s}
            return Event(
                cursor,
                "schedule.came",
                attempt=fence,
                name=record.name,
                text=record.skipped,
                status=status,
                facts=facts,
                at_s=record.at_s,
            )
        case Unscheduled():
            return Event(cursor, "schedule.removed", attempt=fence, name=record.name)


def _document(record: DocumentEdited | EditRejected, cursor: str, fence: int) -> Event:
    edited = isinstance(record, DocumentEdited)
    facts = {"version": record.version, "input": record.input, "by": record.by}
    return Event(
        cursor,
        "document.edited" if edited else "document.rejected",
        attempt=fence,
        call=record.call,
        name=record.name,
        text="" if edited else record.reason,
        payload=record.value if edited else EMPTY,
        facts=facts,
        at_s=record.at_s,
    )


def _files(record: FilesKept | FilesLost, cursor: str, fence: int) -> Event:
    if isinstance(record, FilesLost):
        calls = msgspec.json.decode(msgspec.json.encode(record.calls))
        facts = {"calls": calls, "past": record.past}
        lost = Event(cursor, "files.lost", record.turn, fence, call=record.behind, text=record.text)
        return msgspec.structs.replace(lost, facts=facts, at_s=record.at_s)
    return Event(
        cursor,
        "files.kept",
        record.turn,
        fence,
        call=record.call,
        status=record.why,
        facts={"root": record.root, "changed": list(record.changed)},
        at_s=record.at_s,
    )


def _asked(record: NetworkAsked, cursor: str, fence: int) -> Event:
    facts: dict[str, Any] = {"host": record.host, "port": record.port, "count": record.count}
    if record.passed == "used":
        facts |= {"method": record.method, "path": record.path, "status": record.status}
    return Event(
        cursor,
        "network.asked",
        record.turn,
        fence,
        name=record.credential,
        text=record.why,
        status=record.passed,
        facts=facts,
        at_s=record.at_s,
    )


_SHOWN: Final[dict[str, EventKind]] = {
    "text": "call.text", "thinking": "call.thinking", "output": "call.output",
}  # fmt: skip


def delta_event(delta: LiveDelta, cursor: str) -> Event:
    """The event that shows a delta."""
    kind = _SHOWN[delta.kind]
    return Event(
        cursor, kind, delta.turn, delta.fence, delta.lane, delta.call, text=delta.text, offset=delta.offset
    )
