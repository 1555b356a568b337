"""What a site and its shell say to each other: one JSON text to a line.

An ask is answered by any number of `Said` and `Piece`, and then by one `Done` or one `Failed`. Asks come one at a time.
Bytes are in base 64.
"""

from typing import Final, Literal, TypeAlias

import msgspec

ROOT: Final = "/workspace"
"""Where the tree of the site stands in the shell."""
FILE_LIMIT: Final = 10_000_000
"""Bytes of one file."""
TARGET_LIMIT: Final = 4095
"""Bytes of what a link leads to, one at least, as everywhere else; the interpreter would let one lead to nothing."""


class Piece(msgspec.Struct, tag="piece", omit_defaults=True, gc=False):
    """One file, link or directory with what is in it. Paths are relative to the root of the tree."""

    path: str
    kind: Literal["file", "link", "dir"]
    mode: int = 0o644
    mtime_ns: int = 0
    data: bytes = b""
    target: str = ""


class State(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a shell knows beside the files, as text that brings it back in any bash."""

    cwd: str = ROOT
    lines: tuple[str, ...] = ()
    """Each a command: what differs from a fresh shell."""
    outside: int = 0
    """How many files there are outside of the workspace. They end with the shell."""


class Load(msgspec.Struct, tag="load", gc=False):
    """Put these into the tree. Directories come before what is in them."""

    pieces: list[Piece]


class Wake(msgspec.Struct, tag="wake", gc=False):
    """The tree is loaded: be the shell that this was."""

    state: State


class Run(msgspec.Struct, tag="run", gc=False):
    """Run a command."""

    text: str
    cwd: str
    """Absolute; empty: where the shell is."""
    env: dict[str, str]
    cpu_s: float
    """Seconds of a processor that it may take."""


class Read(msgspec.Struct, tag="read", gc=False):
    """Give the content of a file."""

    path: str


class Write(msgspec.Struct, tag="write", gc=False):
    """Write a file, making its parents."""

    path: str
    data: bytes
    mode: int | None


class Find(msgspec.Struct, tag="find", gc=False):
    """Say what is at a path."""

    path: str


class Scan(msgspec.Struct, tag="scan", gc=False):
    """Say what is directly in a directory."""

    path: str


class Remove(msgspec.Struct, tag="remove", gc=False):
    """Remove what is at a path, with all that is in it."""

    path: str


class Said(msgspec.Struct, tag="said", omit_defaults=True, gc=False):
    """What a command wrote meanwhile."""

    out: str = ""
    err: str = ""


class Done(msgspec.Struct, tag="done", omit_defaults=True, gc=False):
    """The ask was done. What is in the tree now, and was not before, came before this as pieces."""

    status: int = 0
    lost: bool = False
    """The command wrote more than the shell passes on."""
    ended: bool = False
    """The shell can no longer be heard: what is to go on needs another."""
    gone: list[str] = []
    """Paths that are no longer in the tree."""
    notes: list[str] = []
    """What the model should know beside what the command wrote."""
    state: State | None = None
    """What the shell knows, if that has changed."""
    data: bytes = b""
    found: list[Piece] = []
    sizes: list[int] = []
    """Of those found, in order."""


class Failed(msgspec.Struct, tag="failed", gc=False):
    """The ask was not done, and nothing is otherwise than before."""

    why: Literal["missing", "outside", "refused"]
    detail: str


Ask: TypeAlias = Load | Wake | Run | Read | Write | Find | Scan | Remove
Answer: TypeAlias = Said | Piece | Done | Failed
