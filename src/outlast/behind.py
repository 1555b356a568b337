"""How far the files that are written down are behind the log, and what the model is told where these come back.

Snapshots hold these structs, so they are a storage format: fields are only ever added, with a default. Invariants:

* A call is here from its outcome on until files are written down, or until a record says that its changes are gone.
* What the model is told of that is said once: behind a result, in every request from then on, or like a steer.
"""

from typing import Final, Protocol, runtime_checkable

import msgspec

from outlast.records import CallIntent, CallOutcome, FilesLost, LostCall

UNKEPT_LIMIT: Final = 500
"""Calls that are noted one by one; of those before it is known how many they were."""
NOTES_LIMIT: Final = 100
"""Results behind which something more is said."""
NOTE: Final = "outlast.lost."
"""How the id of what is told like a steer begins, where a steer has that of its input."""
LOST: Final = "lost"
"""The name of a loop's look at what is gone."""


@runtime_checkable
class Holds(Protocol):
    """A site whose files may be older than the log where they are not written down with each call."""

    def holds(self, fence: int) -> bool:
        """Whether it has what calls changed that ended in the attempt of this fence, beside what was written down.

        The site of an attempt holds that attempt's own. Of earlier ones it holds those that worked in the very place
        that it is of: not those from before it was made anew, nor those on another machine.
        """
        ...


class Unkept(msgspec.Struct, frozen=True, gc=False):
    """A call that may have changed files, and has ended since these were written down."""

    call: LostCall
    fence: int
    """Of the attempt in which it ended: a workspace that this attempt never held does not have its changes."""


class Note(msgspec.Struct, frozen=True):
    """What the model is still to be told, as the text of a steer."""

    id: str
    text: str
    calls: tuple[LostCall, ...] = ()


class Behind(msgspec.Struct):
    """What of the calls of a session stands in no tree."""

    unkept: list[Unkept] = []
    past: int = 0
    """Calls before these."""
    notes: dict[str, str] = {}
    """By the harness's call id: what its model reads behind the result."""
    waiting: list[Note] = []

    def outcome(self, record: CallOutcome, intent: CallIntent, fence: int) -> None:
        """A call has ended: it may have changed files, or told a loop what is gone."""
        if (intent.kind, intent.name) == ("value", LOST):
            self.waiting = []
        if record.touched is None:
            return
        self.unkept.append(Unkept(LostCall(record.call, record.turn, intent.name, record.touched), fence))
        if len(self.unkept) > UNKEPT_LIMIT:
            self.unkept.pop(0)
            self.past += 1

    def kept(self) -> None:
        """The files were written down as they are."""
        self.unkept, self.past = [], 0

    def forked(self) -> None:
        """The past is another's: no workspace of this session has ever held what its calls changed."""
        self.unkept = [Unkept(one.call, 0) for one in self.unkept]

    def lost(self, record: FilesLost, harness_id: str, fence: int) -> None:
        """Changes are gone, and the model is told: behind the result of a call, if it has one of this id."""
        gone = {one.call for one in record.calls}
        self.unkept = [one for one in self.unkept if one.call.call not in gone]
        self.past = 0
        if not harness_id:
            self.waiting.append(Note(f"{NOTE}{fence}", record.text, record.calls))
            return
        before = self.notes.pop(harness_id, "")
        self.notes[harness_id] = f"{before}\n\n{record.text}" if before else record.text
        while len(self.notes) > NOTES_LIMIT:
            del self.notes[next(iter(self.notes))]

    def said(self, note: str) -> None:
        """A request has carried a note, or its loop has read it."""
        self.waiting = [one for one in self.waiting if one.id != note]


def is_note(steer: str) -> bool:
    """Whether what is told like a steer is none of somebody's, but one of these."""
    return steer.startswith(NOTE)
