"""What a fork says first of all."""

from typing import Any

import msgspec

from outlast.records.kinds import Record


class Forked(Record, frozen=True, tag="forked"):
    """The session is a fork: everything before this record is another's past that it shares.

    It is the first record of the first commit of its own. What follows in that commit ends, one by one, what the past
    had begun and what is the source's alone to go on with (`outlast.forking`).
    """

    session: str
    """The fork."""
    source: str
    at: int
    """Number of the last commit that it shares with its source."""
    folder: str
    """What a worker calls the directories that it makes for the fork: nobody else's (`SessionOpened.folder`)."""
    workspace: dict[str, Any] = msgspec.field(default_factory=dict)
    """Where the fork works; empty: as its source does."""
    cwd: str = ""
    at_s: float = 0.0
