"""The port by which a conversation that a harness has had without outlast becomes a session.

An adapter whose class also keeps `Adopts` can be named in `outlast adopt`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Adopted:
    """A conversation of a harness, as a session begins with it."""

    name: str
    """The harness's own name for it."""
    prompt: str
    """What it began with; empty if nothing tells."""
    cwd: str
    """The directory that it works in."""
    files: Mapping[str, Sequence[str]]
    """The harness's files by path below the session's HOME, in lines, as `Attempt.mirrored` gives them."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the session records, on top of the adapter's own settings."""
    unanswered: Sequence[str] = ()
    """Names of the tools that were called and have no result: the next prompt tells the model what that means."""
    notes: Sequence[str] = ()
    """What a person should know: lines that were left out, say."""


@runtime_checkable
class Adopts(Protocol):
    """An adapter that can go on with what its harness did alone."""

    def adopt(self, transcript: Path, home: Path) -> Adopted:
        """Read what the harness has written. Changes nothing.

        Args:
            transcript: what the user names: the file, whatever the harness keeps a conversation in, or the
                conversation's name where it keeps all of them in one place. It need not exist.
            home: HOME of the session to be, for what stands in the files about their own place.

        Raises:
            BadInput: it is not there, is no transcript of this harness, is damaged, its directory is gone, or a process
                of the harness still goes on with it.
        """
        ...
