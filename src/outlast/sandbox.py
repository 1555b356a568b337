"""Machines that commands run in, apart from the worker's own.

A provider makes and finds machines; everything that happens inside one goes through our own supervisor there, over one
stream of bytes (`SandboxProvider.dial`). So a provider is small, and what commands may rely on is the same with each.

Words: a *box* is one machine of a provider, for one session. A *job* is one process tree in a box, under a name that
its caller chose: begun twice under one name, it is begun once.

Invariants:

1. **A job is begun at most once** for each name in the life of a box, whoever asks, however often, and from whichever
   worker.
2. **Output is kept** by the box, each stream from byte 0 (or with an explicit gap at its head past
   `Limits.output_bytes`), until the job is dropped: a worker that comes later reads on from any offset. Where a box has
   no room for more, what jobs wrote that have ended goes first, the oldest first, and leaves a gap too.
3. **Fences hold.** `attach` says its fence; from then on the box refuses whoever has an older one, and has killed every
   job that was begun as `tied` under an older one. A job that is not tied goes on, and belongs to who has the newest
   fence. A box with `idle_s == 0` is its holder's alone: a newer fence ends it and makes another.
4. **A tied job dies** at the latest when its worker's deadline passes (`Box.beat`), even if nobody comes.
5. **A box ends** when it was destroyed, or after `Spec.idle_s` without a beat; with `idle_s == 0` when the attempt that
   holds it ends in any way. Nothing of it is left then: no process, no mount, no socket.
6. Inside, nothing reaches the host's files, processes or network but what the `Spec` names.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import quote

from anyio.abc import ByteStream

from outlast.drive import Entry

Ability: TypeAlias = Literal[
    "mounts", "outlives", "limits", "network", "ports", "snapshot", "fork", "pause", "isolates"
]
"""What a provider can do: bind directories of the worker's machine; keep a box when its worker dies; enforce `Limits`;
cut the network but for `Spec.ways`; reach a port inside; keep, copy, stop a whole box; stand as a boundary against
hostile code."""

Ref: TypeAlias = Mapping[str, Any]
"""How a provider finds a box again, as JSON: recorded in the session's log."""

SESSION_HEADER: Final = "outlast-session"
"""Whoever carries requests from a box to the gateway says here from which session's: the gateway lets a token in with
the mark of its own session, or with none. What a request says of itself is taken off before."""


def session_mark(tenant: str, session: str) -> str:
    """What stands in `SESSION_HEADER`."""
    return f"{quote(tenant, safe='')}/{session}"


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the worker's machine, in a box."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """A way out of a box: a unix socket of the worker's machine, reached inside at a port of the loopback."""

    port: int
    socket: Path


@dataclass(frozen=True, slots=True)
class Limits:
    """None: as the machine has it."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpus: float | None = None
    output_bytes: int = 64 * 1024 * 1024
    """Of each stream of a job that are kept."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a box is to be."""

    name: str
    """The session's own, no other's: a box that stands under it is that session's."""
    image: str = ""
    """Of providers that have such; empty: their own choice, or the worker's machine read-only."""
    cwd: str = "/workspace"
    """A directory of the box's own, where nothing is mounted there; so is the HOME of `env`, if it has one."""
    mounts: Sequence[Mount] = ()
    ways: Sequence[Way] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Limits = Limits()
    idle_s: float = 0.0
    """How long the box outlives its worker; 0: not at all."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    shell: str = "/bin/bash"
    """What the box says is the shell of who runs in it, where it says so at all; it need not be there."""
    spare: Callable[[int], None] | None = None
    """Told the pid of what outlives the worker on its own machine (`outlast.workspace.Stay.spare`)."""


@dataclass(frozen=True, slots=True)
class Found:
    """A box that stands."""

    ref: Ref
    name: str
    labels: Mapping[str, str]
    age_s: float
    state: Literal["running", "paused", "ended"]


@dataclass(frozen=True, slots=True)
class JobAsk:
    """A process to begin in a box."""

    job: str
    argv: Sequence[str]
    cwd: str = ""
    """Empty: that of the box."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Beside that of the box."""
    tied: bool = False
    """It dies with the worker: a harness. Else it goes on while the box stands: a command."""
    stdin: bool = False
    """It reads what `Job.write` gives it; else nothing."""
    timeout_s: float = 0.0
    """Killed by the box after that; 0: never."""
    paced: bool = False
    """It is held up where it writes faster than its holder reads, as by a pipe; not where nobody holds the box."""
    merged: bool = False
    """Its two streams are one, the output, in the order in which it wrote."""


@dataclass(frozen=True, slots=True)
class Left:
    """How the process of a job that was begun has ended. What it began itself may go on."""

    status: int
    """As of `Job.wait`."""
    stdout: int
    """Bytes that the job had written by then, to each stream."""
    stderr: int
    timed_out: bool = False


class Job(Protocol):
    """One process tree in a box."""

    def output(
        self, stream: Literal["stdout", "stderr"], offset: int = 0
    ) -> AsyncIterator[tuple[int, bytes]]:
        """What it wrote from byte `offset` on: (offset of the piece, piece), until it has ended and all is read.

        An offset beyond the one asked for: what lies between is no longer kept.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Raises `BoxError` where it does not read, or has ended."""
        ...

    async def close_stdin(self) -> None: ...

    async def signal(self, number: int) -> None:
        """To the whole tree; nothing where it has ended."""
        ...

    async def wait(self) -> int:
        """Its exit status when all of its tree has ended; 128 + n where signal n ended it, 124 its time-out."""
        ...

    async def left(self) -> Left:
        """How the process that was begun ended, whatever of its tree goes on."""
        ...


class Box(Protocol):
    """A box, held under a fence."""

    @property
    def ref(self) -> Ref: ...

    @property
    def lived(self) -> bool:
        """It stood before this attach: its files and jobs are what earlier calls left."""
        ...

    @property
    def noted(self) -> str:
        """What its holder before had left there by `note`; empty: nothing."""
        ...

    async def note(self, text: str) -> None:
        """Leave a word for whoever attaches next, up to 4,096 characters, in place of the one before."""
        ...

    async def begin(self, ask: JobAsk) -> Job:
        """Begin a job, or find the one that was begun under this name.

        Raises:
            BoxError: the program cannot be started; the text is fit for a model.
            BoxGone: the box ended.
        """
        ...

    async def find(self, job: str) -> Job | None: ...

    async def drop(self, job: str) -> None:
        """Forget a job and its output; kills it first. Its name stays taken."""
        ...

    async def tie(self, job: str, *, kept: bool = True) -> None:
        """From now on this job is tied, and has no time of its own; nothing where there is none.

        Args:
            kept: False: it is forgotten as soon as it has ended, as by `drop`.
        """
        ...

    async def loose(self) -> Sequence[str]:
        """The names of the jobs that run and are not tied."""
        ...

    async def beat(self, for_s: float) -> None:
        """Tied jobs may live for so long from now, and the box for `idle_s` beyond."""
        ...

    async def read(self, path: str) -> bytes:
        """A whole file. Paths, here and below: as processes in the box see them, relative ones from `Spec.cwd`.

        Raises:
            FileMissing
            BoxError: it is no file, or cannot be read.
        """
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Whole or not at all; parents are made. Raises `BoxError`."""
        ...

    async def stat(self, path: str) -> Entry | None:
        """What is at `path`, links not followed; None: nothing."""
        ...

    async def list(self, path: str) -> Sequence[Entry]:
        """What is directly in a directory, by name; each with its path below the one asked for.

        Raises:
            FileMissing
            BoxError: it is no directory, or cannot be read.
        """
        ...

    async def remove(self, path: str) -> None:
        """A file, a link, or a directory with all that is in it. Raises `FileMissing`, `BoxError`."""
        ...


class SandboxProvider(Protocol):
    """Makes boxes."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> frozenset[Ability]: ...

    async def check(self) -> Sequence[str]:
        """Warnings about what it cannot do here (limits that cannot be set …), each with the way out.

        Raises:
            SandboxUnsupported: it cannot make a box here at all; the text says what is missing and how to get it.
        """
        ...

    def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AbstractAsyncContextManager[Box]:
        """Hold the box of `spec.name`: the one that stands, else a new one. By `ref` if one is known.

        On leaving, tied jobs are dead; a box with `idle_s == 0` has ended.

        Raises:
            SandboxUnsupported, BoxError
            Fenced: a newer fence holds it.
        """
        ...

    async def dial(self, ref: Ref) -> ByteStream:
        """A fresh stream to the supervisor inside. Raises `BoxGone`."""
        ...

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]: ...

    async def destroy(self, ref: Ref) -> None:
        """End it at once. Nothing happens where it has ended."""
        ...


OpenProvider: TypeAlias = Callable[[Path], SandboxProvider]
"""What an entry point of the group `outlast.sandboxes` names: a provider, over the directory of what a worker keeps."""
