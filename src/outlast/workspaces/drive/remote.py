"""A directory that is not on this machine, as three verbs: see `outlast.workspaces.drive.remoting`."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from outlast.workspaces.drive.format import DIR, FILE, LINK, kept_time
from outlast.workspaces.drive.statcache import StatKey

KINDS: Final[dict[str, int]] = {"file": FILE, "link": LINK, "dir": DIR}


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands at a path of a remote directory."""

    path: bytes
    """Relative to it, with `/`."""
    kind: Literal["file", "link", "dir", "other"]
    mode: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    size: int = 0
    """Of a file."""
    target: bytes = b""
    """Of a link."""

    @property
    def key(self) -> StatKey:
        """What of it is different once a file was written."""
        return self.size, kept_time(self.mtime_ns), kept_time(self.ctime_ns), self.inode


@dataclass(frozen=True, slots=True)
class Scan:
    """A remote directory as it is."""

    looked_ns: int
    """When it was begun, by the clock of that machine's files."""
    entries: Sequence[Seen]
    """All that is in it, each directory before what is in it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file's content."""

    path: bytes
    data: bytes
    end: Seen | None = None
    """With the last part: what the file is now. Another than when it was scanned, and the content is not remembered."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a remote directory."""

    do: Literal["remove", "dir", "link", "file", "more", "meta"]
    """Remove it, with all below; make a directory; make a link; begin a file anew; add to it; set mode and time."""
    path: bytes
    data: bytes = b""
    """A part of a file's content, or the target of a link."""
    mode: int = 0
    mtime_ns: int = 0


class RemoteTree(Protocol):
    """A directory on another machine. No verb follows a link.

    Raises (each): `WorkspaceError`.
    """

    async def scan(self) -> Scan: ...

    def read(self, paths: Sequence[bytes]) -> AsyncGenerator[Chunk]:
        """The contents of files, one after the other, in chunks of at most `PIECE` bytes.

        Of what is no file any more nothing is given.
        """
        ...

    async def apply(self, steps: AsyncIterator[Step]) -> None:
        """Change it, in this order; a file's steps follow one another, and end with `meta`."""
        ...
