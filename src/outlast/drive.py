"""Files that outlive the machine they are on, as content-addressed packs.

A *root* is a short text that names a whole tree. A tree is described by nodes, one for each directory (a large one has
several), and a node names what is in it by content hash and by where the content lies: in which *pack*, from which
byte on, how long. A pack is a run of compressed contents and nodes, named by its own hash, never changed. A checkpoint
after a small change is one small pack: the changed contents, and the nodes from there up to the root.

Hashes are blake3; packs in a World are its blobs, hashed with the tenant's name as every blob is (`outlast.ids`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

EMPTY_ROOT = ""
"""The root of a tree that holds nothing, not even an empty directory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, link or directory of a tree."""

    path: str
    """Relative to the root of the tree, with `/`; the root itself is empty."""
    kind: Literal["file", "link", "dir"]
    mode: int = 0o644
    """Permission bits."""
    size: int = 0
    """Bytes, of a file."""
    mtime_ns: int = 0
    digest: str = ""
    """Of a file: blake3 of its content, 64 hexadecimal digits; empty where it was not looked at."""
    target: str = ""
    """Of a link."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A tree as it is now."""

    root: str
    packs: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """By name, those that must be durable before, or with, whatever names the root. Empty: nothing new."""
    changed: Sequence[str] = ()
    """Paths that are not as in the capture before; the first 100."""
    aside: Mapping[str, object] = field(default_factory=dict[str, object])
    """What a site keeps beside its files, as JSON: the state of a shell. Small."""
    left_out: Sequence[str] = ()
    """What is there and in no tree (sockets, pipes, devices, what may not be read): its path, a colon, and why; the
    first 100."""


class Packs(Protocol):
    """Where packs are read from."""

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of each.

        Raises:
            PacksGone: one is not there.
        """
        ...


class PackStore(Packs, Protocol):
    """A store of packs of its own, beside the World: a directory, a bucket.

    Packs are named by their hash, so whoever puts one puts what was there already. It is the log that says which tree
    is a session's, and its fence that keeps the log to one writer; that of the store stops a writer early whose session
    has gone on elsewhere, and no more than that.
    """

    async def find_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of those that are there."""
        ...

    async def claim(self, session: str, fence: int) -> None:
        """From now on, who holds an older fence of this session is refused.

        Raises:
            Fenced: a newer one was claimed.
            WorkspaceError: it cannot be written; the text says what to do.
        """
        ...

    async def claimants(self) -> frozenset[str]:
        """The sessions that have claimed it, but for those it was told to forget."""
        ...

    async def forget(self, session: str) -> None:
        """The session is no more: whatever it claimed. Its packs go with a collection."""
        ...

    async def put_many(self, packs: Mapping[str, bytes], *, session: str, fence: int) -> None:
        """Durable when this returns.

        Raises:
            Fenced: a newer fence of this session was claimed.
            WorkspaceError: it cannot be written; the text says what to do.
        """
        ...

    async def names(self, *, older_s: float = 0.0) -> Sequence[str]:
        """All that it holds and that were put at least so long ago, also where they were put again since."""
        ...

    async def remove(self, names: Sequence[str]) -> None:
        """Nothing happens to those that are not there."""
        ...


OpenStore: TypeAlias = Callable[[str, str], PackStore]
"""Opens the store at a URL for a tenant: an entry point of the group `outlast.stores`, by the URL's scheme."""
