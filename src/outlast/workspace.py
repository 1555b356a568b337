"""The files that a session works on, and the commands that run beside them.

Three things, each described by what the one before holds:

* a `Workspace` is a description: it stands in the session's first record (`Workspace.reference`);
* a `Kind` opens such a reference for one attempt. Kinds are found by the entry point group `outlast.workspaces`,
  under the word that the reference has as `kind`;
* a `Site` is what it opens: the files and the commands of one session, held by one attempt.

**What of it is durable.** The files of a site are written down as the *root* of a tree of content-addressed packs
(`outlast.drive`). `Site.capture` gives the root of what there is now, with the packs that nothing durable holds yet;
the engine writes both in one commit with the outcome of the call that changed them (`Workspace.checkpoint == "call"`)
or when a turn ends (`"turn"`). So files and log stand at the same call. Invariants:

1. A root is in the log only if every pack that it leads to is durable: in that commit, in one before it, or in the
   drive's own store before that commit was put.
2. `Site.capture` never holds half of a call: one call changes the files at a time, or each says which files are its.
3. What a site shows after it was opened with a root is that root, byte for byte, modes, links, empty directories and
   times included; but for a site that lives on (`Found.lives`), which shows what it has, and what its calls did since.
4. A site of an older fence changes nothing once a site of a newer one was opened.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from outlast.drive import Capture, Entry, Packs

if TYPE_CHECKING:  # an adapter names workspaces, and a workspace how adapters start their programs
    from outlast.adapter import Processes

Checkpoint: TypeAlias = Literal["call", "turn", "off"]
"""When files are written down: with the outcome of each call that may have changed them, when a turn ends, or never."""

Undone: TypeAlias = Literal["", "files", "all"]
"""What is undone of a call: nothing that is known; its `files`, while what it sent to hosts that it could reach may
stand; or `all`: nothing of it is left, neither in the files nor anywhere that it could reach."""

OUTPUT_LIMIT: Final = 200_000
"""Bytes of each stream of a command that `Ran` keeps: the first and the last half of it."""


class Workspace(Protocol):
    """Where an agent's files are.

    A workspace is described in the session's first record (`reference`), and opened by each attempt from that.
    """

    @property
    def kind(self) -> str:
        """The word for how it is kept, as in its reference: `local`, `virtual`, `sandbox`."""
        ...

    @property
    def placement(self) -> str:
        """Where it can be reached: `any`, or `host:<id>` for a directory of one machine."""
        ...

    @property
    def isolated(self) -> bool:
        """False where commands of the model reach the host's own files and processes."""
        ...

    @property
    def cwd(self) -> str:
        """The directory, as the harness sees it."""
        ...

    def reference(self) -> Mapping[str, Any]:
        """Everything needed to open it again, as JSON.

        It holds the `kind`; and as `checkpoint` a `Checkpoint`, without which its files are never written down.
        """
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a call."""

    text: str
    """A line for the site's shell."""
    job: str
    """The same in every attempt at the call, and no other's: where commands outlive workers, it is found by this."""
    cwd: str = ""
    """Relative to that of the site."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 600.0
    show: Callable[[str], None] | None = None
    """Told its output as it comes, both streams."""
    outlasts: Callable[[], bool] = lambda: False
    """Asked when whoever waits for it is cancelled: whether it goes on, where commands can, since another attempt will
    wait for it. Else it is ended."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    """Its exit status; 128 + n where signal n ended it."""
    stdout: str
    stderr: str
    cut: int = 0
    """Bytes of output that are in neither."""
    timed_out: bool = False


class Files(Protocol):
    """The files of a site. Paths are absolute, or relative to its `cwd`; what leads out of the workspace is refused.

    Raises (each method): `WorkspaceError`, whose text is fit for the model; `NotFound` is never raised, an absent
    file is `FileMissing`, which is one.
    """

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Whole or not at all; parents are made. The workspace itself is refused."""
        ...

    async def find(self, path: str) -> Entry | None:
        """What is at `path`; None: nothing."""
        ...

    async def list(self, path: str) -> Sequence[Entry]:
        """What is directly in a directory, by name."""
        ...

    async def remove(self, path: str) -> None:
        """A file, or a directory with all that is in it. The workspace itself is refused, and all in it stays."""
        ...


class CallSite(Protocol):
    """A site as one call of a tool has it. What the call changes is kept with its outcome.

    From its first change on no other call of the attempt changes files, until this one has ended.

    Raises (each use): `WorkspaceError`, whose text is fit for the model.
    """

    @property
    def cwd(self) -> str: ...

    @property
    def hosts_programs(self) -> bool: ...

    @property
    def files(self) -> Files: ...

    async def run(
        self,
        text: str,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        show: Callable[[str], None] | None = None,
        looks: bool = False,
    ) -> Ran:
        """Run a line of shell to its end (`Site.run`); the n-th of a call is the same command in every attempt.

        Args:
            looks: it changes no file, and need not wait for other calls.
        """
        ...

    async def knows(self, run: int = 1) -> bool | None:
        """Whether the n-th command of this call was begun in an attempt before (`Site.knows`)."""
        ...


class Site(Protocol):
    """The workspace of one session, held by one attempt."""

    @property
    def cwd(self) -> str: ...

    @property
    def files(self) -> Files: ...

    @property
    def processes(self) -> "Processes":
        """How a harness is started so that it works on these files, and can reach nothing that it must not.

        Programs started by it die with the attempt, whatever else of the site lives on.
        """
        ...

    @property
    def hosts_programs(self) -> bool:
        """False where no program of the host can run in it (`virtual`): only our own tools reach its files."""
        ...

    async def run(self, command: Command) -> Ran:
        """Run a command to its end; where `command.job` was begun before and lives or has ended, that one.

        Raises:
            WorkspaceError: it cannot be begun, or the site was lost while it ran.
        """
        ...

    async def knows(self, job: str) -> bool | None:
        """Whether a command of this name was begun here; None: the site that could tell is gone."""
        ...

    async def capture(self) -> Capture | None:
        """What the files are now. Cheap where nothing has changed. Nothing is durable by it: see `Capture.packs`.

        None: they are not written down this time (a directory of the user's that is too large for it).

        Raises:
            WorkspaceError
        """
        ...

    def captured(self, root: str) -> None:
        """The commit that holds this root is durable: the next capture need not give its packs again."""
        ...


@runtime_checkable
class Lasts(Protocol):
    """A site whose files are nobody's but its user's."""

    @property
    def lasts(self) -> bool:
        """What a call did to them stands, whether or not it has an outcome: they are never brought back."""
        ...


@runtime_checkable
class Undoes(Protocol):
    """A site that can be sure about calls which were cut off before it was opened."""

    @property
    def undoes(self) -> Undone:
        """What is undone of every call without an outcome."""
        ...


@runtime_checkable
class Away(Protocol):
    """`Site.processes` whose programs have a HOME of their own: in a sandbox that shares no directory with us."""

    async def fetch_home(self) -> None:
        """What they have made of HOME so far is in the session's own here (`Stay.home`).

        Awaited before an adapter is to mirror it (`outlast.adapter.Dialogue.recorded`), and when a program has ended.

        Raises:
            WorkspaceError
        """
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """What was asked of a workspace's way out, for the session's log: no secret, no query, no body."""

    passed: Literal["used", "refused"]
    """A credential of the session's was added to a request; a request or connection was not let out."""
    host: str
    """Empty: none could be made out."""
    port: int
    credential: str = ""
    """Its name."""
    method: str = ""
    path: str = ""
    status: int = 0
    """What the host answered; 0: nothing."""
    why: str = ""
    """Why it was not let out."""


Note: TypeAlias = Callable[[Passage], None]
"""Is told of each passage, in the event loop; it does not wait and raises nothing."""


@dataclass(frozen=True, slots=True)
class Lent:
    """A shell of a harness that becomes a command of a call."""

    job: str
    """As `Command.job`."""
    timeout_s: float = 0.0
    """It is ended after that; 0: never."""


class Lender(Protocol):
    """Knows which call of the attempt a shell of its harness belongs to."""

    def claim(self, words: Sequence[str]) -> Lent | None:
        """What a shell with these arguments becomes, once; None: it belongs to no call, and is just a shell."""
        ...

    def outlasts(self) -> bool:
        """As `Command.outlasts`."""
        ...


@runtime_checkable
class LendsShell(Protocol):
    """A site in which what programs run by a shell can outlive them.

    A program that runs a command by the shell at `shell` gets what the real shell would have given it: output, exit
    status, time-outs and interrupts of its own. Where the lender knows the call, the command is a job of the site,
    under the call's name: begun once, and not ended with the worker. When its program ends it, it is ended.
    """

    @property
    def shell(self) -> str:
        """The path of that shell, as programs of the site see it; empty: there is none."""
        ...

    def lend(self, lender: Lender | None) -> None:
        """From now on, ask this one; None: nobody, every shell is just one."""
        ...

    async def take_up(
        self, job: str, show: Callable[[str], None], outlasts: Callable[[], bool], patience_s: float = 0.0
    ) -> Ran | None:
        """Wait for the end of a command that an attempt before has begun so; None: none of this name was.

        Args:
            show: told its output as it comes, from its beginning.
            outlasts: as `Command.outlasts`.
            patience_s: it is ended when it has written nothing for so long, as by its time-out; 0: never.

        Raises:
            WorkspaceError: the site was lost.
        """
        ...

    async def give_back(self, job: str) -> None:
        """The call of this name has an outcome: what is left of its command dies with the attempt."""
        ...

    async def end_others(self, jobs: Collection[str]) -> None:
        """End every command of an attempt before whose name begins with none of these."""
        ...


@dataclass(frozen=True, slots=True)
class Stay:
    """What a kind is told about the attempt that opens a site."""

    tenant: str
    session: str
    folder: str
    """The session's own name for directories: no other session has it."""
    fence: int
    data: Path
    """The directory of what this worker keeps."""
    home: Path
    """The session's HOME, which is the same path inside a sandbox."""
    root: str
    """The files as the log last has them; empty: none yet."""
    aside: Mapping[str, Any]
    """What the capture of that root kept aside (`outlast.drive.Capture.aside`)."""
    packs: Packs
    """Reads what the log holds, and the store that the workspace names."""
    processes: "Processes"
    """Starts programs on this machine, supervised."""
    put: Callable[[Mapping[str, bytes]], Awaitable[None]] | None = None
    """Makes packs durable in the store that the workspace names, under this attempt's fence; None: they go with the
    commits (`outlast.drive.Capture.packs`)."""
    spare: Callable[[int], None] | None = None
    """Lets a process, with what is below it, outlive the worker: tell it its pid. None: nothing would end it."""
    note: Note | None = None
    """Writes down what is asked of the workspace's way out; None: nobody listens."""
    gateway: Callable[[], Awaitable[str]] | None = None
    """Says where the worker's gateway listens, `http://127.0.0.1:<port>`, once it does; None: there is none."""


class Kind(Protocol):
    """Opens the sites of one kind of workspace."""

    def open(self, reference: Mapping[str, Any], stay: Stay) -> AbstractAsyncContextManager[Site]:
        """Open the site of a session. When the context ends, nothing of this attempt acts on it any more.

        Whatever is kept for longer (a sandbox that outlives its worker) is found again by `stay.folder`.

        Raises:
            BadInput: the reference cannot be read.
            WorkspaceError: it cannot be opened here or now; the text says what to do.
        """
        ...

    async def forget(self, reference: Mapping[str, Any], folder: str, data: Path) -> None:
        """The session was erased: remove what is kept for it on this machine or at the provider."""
        ...


OpenKind: TypeAlias = Callable[[], Kind]
"""What an entry point of the group `outlast.workspaces` names."""
Undo: TypeAlias = Callable[[], Awaitable[None]]
