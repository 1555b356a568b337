"""What a commit says about the files of the session's workspace."""

from typing import Literal, TypeAlias

import msgspec

from outlast.records.kinds import Record
from outlast.records.payload import EMPTY, Payload, Touched

KeptFor: TypeAlias = Literal["call", "begin", "end", "undo"]
"""For a call, whose outcome stands in the same commit; before its turn began to work; when that came to an end; or
because a person brought back what had been, between two turns."""


class FilesKept(Record, frozen=True, tag="files_kept"):
    """The files of the workspace as they are now: all packs that `root` leads to are durable with this commit.

    Those that were not before are blobs of this commit, or of earlier ones that hold no record of them.
    """

    root: str
    """Names the whole tree (`outlast.drive`); empty: there is no file."""
    turn: int
    why: KeptFor
    call: int = 0
    """The call after which they are so."""
    aside: Payload = EMPTY
    """What the site keeps beside them, as JSON: the state of a shell."""
    changed: tuple[str, ...] = ()
    """Paths that are not as the log had them before; the first 100."""
    at_s: float = 0.0


class LostCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A call that ended, and whose changes are not in the files any more."""

    call: int
    turn: int
    name: str
    touched: Touched = Touched()


class FilesLost(Record, frozen=True, tag="files_lost"):
    """The workspace was made anew from files that are older than the log: what these calls changed is not there.

    From this commit on the model is told so, once: `text` stands in every model request behind the result of the call
    `behind`; or it waits to be told like a steer (`outlast.state.SessionState.behind`).
    """

    turn: int
    calls: tuple[LostCall, ...]
    past: int = 0
    """Calls before these, which nobody has noted one by one."""
    text: str = ""
    """What the model reads."""
    behind: int = 0
    """A call of the turn, by whose result the model reads it; 0: there is none."""
    at_s: float = 0.0
